//! Resource limits of a node.
//!
//! Sizes are read like minikube: a bare number is megabytes, and every unit is a power of 1024.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{SpecError, text};

const NO_LIMIT: &str = "no-limit";
const MAX: &str = "max";

pub const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Units from the largest down, with their bytes.
const UNITS: [(&str, u64); 5] = [("Ti", 1 << 40), ("Gi", GIB), ("Mi", MIB), ("Ki", 1 << 10), ("b", 1)];

/// The resources of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSize {
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
}

/// The memory of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Memory {
    #[default]
    NoLimit,
    /// Everything that the host has.
    Max,
    Bytes(u64),
}

impl Memory {
    /// The limit in bytes on that host; none without a limit.
    pub fn bytes_on(&self, host: &HostSize) -> Option<u64> {
        match self {
            Self::NoLimit => None,
            Self::Max => Some(host.memory),
            Self::Bytes(bytes) => Some(*bytes),
        }
    }
}

impl FromStr for Memory {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            NO_LIMIT => Ok(Self::NoLimit),
            MAX => Ok(Self::Max),
            size => parse_size(size).map(Self::Bytes),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => f.pad(NO_LIMIT),
            Self::Max => f.pad(MAX),
            Self::Bytes(bytes) => f.pad(&write_size(*bytes)),
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed_or_number(deserializer, str::parse)
    }
}

/// The CPUs of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Cpus {
    #[default]
    NoLimit,
    /// Everything that the host has.
    Max,
    Count(NonZeroU32),
}

impl Cpus {
    /// The number of CPUs on that host; none without a limit.
    pub fn count_on(&self, host: &HostSize) -> Option<u32> {
        match self {
            Self::NoLimit => None,
            Self::Max => Some(host.cpus),
            Self::Count(count) => Some(count.get()),
        }
    }
}

impl FromStr for Cpus {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            NO_LIMIT => Ok(Self::NoLimit),
            MAX => Ok(Self::Max),
            count => match count.parse() {
                Ok(count) => Ok(Self::Count(count)),
                Err(_) => Err(SpecError::Cpus { given: count.to_owned() }),
            },
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => f.pad(NO_LIMIT),
            Self::Max => f.pad(MAX),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(count.get()),
            Self::NoLimit | Self::Max => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed_or_number(deserializer, str::parse)
    }
}

/// Reads the size of a disk, in bytes.
pub fn parse_disk(given: &str) -> Result<u64, SpecError> {
    parse_size(given)
}

/// Serde for the size of a disk: `disk: 20Gi`.
pub(crate) mod disk {
    use serde::{Deserializer, Serializer};

    use super::{parse_disk, write_size};
    use crate::text;

    #[expect(clippy::ref_option, reason = "the signature is serde's")]
    pub(crate) fn serialize<S: Serializer>(disk: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match disk {
            Some(bytes) => serializer.serialize_str(&write_size(*bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        text::optional(deserializer, parse_disk)
    }
}

fn parse_size(given: &str) -> Result<u64, SpecError> {
    let no_size = || SpecError::Size { given: given.to_owned() };
    let end = given.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(given.len());
    let (number, unit) = given.split_at(end);
    let unit = unit_bytes(unit.trim_start()).ok_or_else(no_size)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return Err(no_size());
    }
    scaled(whole, decimals, unit).ok_or_else(|| SpecError::SizeTooLarge { given: given.to_owned() })
}

/// The bytes of a unit in any spelling and case: `g`, `gb`, `Gi`, `GiB`.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    match unit.as_str() {
        "" => return Some(MIB),
        "b" => return Some(1),
        _ => {}
    }
    let mut letters = unit.chars();
    let first = letters.next()?;
    if !matches!(letters.as_str(), "" | "b" | "i" | "ib") || first == 'b' {
        return None;
    }
    UNITS.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with(first)).map(|(_, bytes)| *bytes)
}

/// `whole.decimals` times `unit`, rounded down; none if it overflows.
fn scaled(whole: &str, decimals: &str, unit: u64) -> Option<u64> {
    // Twelve decimals are exact to the byte for a terabyte; more would only overflow.
    let decimals = &decimals[..decimals.len().min(12)];
    let part: u128 = decimals.parse().ok()?;
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let part = u64::try_from(part * u128::from(unit) / scale).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part)
}

/// The shortest exact representation.
pub(crate) fn write_size(bytes: u64) -> String {
    let exact = UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    let (name, unit) = exact.unwrap_or(&("b", 1));
    format!("{}{name}", bytes / unit)
}

/// A size for people: in MiB below 1 GiB, in GiB above.
pub(crate) fn gib(bytes: u64) -> String {
    let (gib, mib) = (bytes / GIB, bytes % GIB / MIB);
    if gib == 0 {
        return format!("{mib} MiB");
    }
    let decimals = format!("{:02}", mib * 100 / 1024);
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{gib}{point}{decimals} GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_for_people_are_in_gib_from_1_gib_on() {
        let sizes = [10 * MIB, 1023 * MIB, GIB, GIB + 51 * MIB, GIB + 512 * MIB, 128 * GIB].map(gib);
        assert_eq!(sizes, ["10 MiB", "1023 MiB", "1 GiB", "1.04 GiB", "1.5 GiB", "128 GiB"]);
    }

    fn bytes(text: &str) -> u64 {
        match text.parse().unwrap() {
            Memory::Bytes(bytes) => bytes,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_bare_number_is_megabytes() {
        assert_eq!(bytes("3072"), 3 * GIB);
        assert_eq!(parse_disk("20000"), Ok(20000 * MIB));
    }

    #[test]
    fn units_are_powers_of_1024_in_any_spelling() {
        for text in ["3g", "3G", "3gb", "3GB", "3Gi", "3GiB", "3 gb", "3072m", "3145728k", "3221225472b"] {
            assert_eq!(bytes(text), 3 * GIB, "{text}");
        }
        assert_eq!(bytes("1t"), 1024 * GIB);
        assert_eq!(bytes("1.5g"), 1536 * MIB);
        assert_eq!(bytes("0.5"), MIB / 2);
    }

    #[test]
    fn what_is_no_size_is_reported() {
        for text in ["", "g", "3x", "-1", "1.g", ".5g", "1.2.3g", "3gig", "3bb", "3bi", "1e3", "3 g b", "Max"]
        {
            assert_eq!(text.parse::<Memory>(), Err(SpecError::Size { given: text.to_owned() }), "{text}");
        }
        let error = "99999999999t".parse::<Memory>().unwrap_err();
        assert_eq!(error.to_string(), r#"the size "99999999999t" is too large"#);
        let error = "3x".parse::<Memory>().unwrap_err();
        insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()), @r#"
        "3x" is not a size
        write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
        "#);
    }

    #[test]
    fn cpus_are_whole_numbers_from_1() {
        assert_eq!("2".parse(), Ok(Cpus::Count(NonZeroU32::new(2).unwrap())));
        for text in ["0", "-1", "1.5", "", "two"] {
            assert_eq!(text.parse::<Cpus>(), Err(SpecError::Cpus { given: text.to_owned() }), "{text}");
        }
    }

    #[test]
    fn the_host_tells_what_max_is() {
        let host = HostSize { cpus: 8, memory: 16 * GIB };
        let memory = |text: &str| text.parse::<Memory>().unwrap().bytes_on(&host);
        assert_eq!(["no-limit", "max", "3g"].map(memory), [None, Some(16 * GIB), Some(3 * GIB)]);
        let cpus = |text: &str| text.parse::<Cpus>().unwrap().count_on(&host);
        assert_eq!(["no-limit", "max", "2"].map(cpus), [None, Some(8), Some(2)]);
    }

    proptest! {
        #[test]
        fn a_size_reads_back_as_it_was_written(bytes: u64, shift in 0_u32..50) {
            let memory = Memory::Bytes((bytes >> shift) << (shift / 2));
            prop_assert_eq!(memory.to_string().parse(), Ok(memory));
        }

        #[test]
        fn any_text_is_a_size_or_an_error(text in "[0-9. ]{0,30}.{0,4}") {
            drop(text.parse::<Memory>());
            drop(text.parse::<Cpus>());
        }
    }
}
