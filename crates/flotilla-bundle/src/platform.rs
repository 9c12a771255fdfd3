//! Which packages this machine's apt offers: the distribution, its release and the architecture.

use std::fmt;
use std::fs;

use crate::image;

/// A release of a distribution on an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// `ID` of os-release, such as `debian`.
    pub vendor: String,
    /// `VERSION_CODENAME` of os-release, such as `bookworm`.
    pub release: String,
    /// As Debian calls it, such as `amd64`.
    pub architecture: String,
}

impl Platform {
    /// This machine, as os-release(5) describes it.
    pub fn of_host() -> Self {
        let files = ["/etc/os-release", "/usr/lib/os-release"];
        let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        Self::parse(&text)
    }

    fn parse(os_release: &str) -> Self {
        let field = |name: &str| {
            let value = os_release.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
            value.map(|value| value.trim_matches(['"', '\'']).to_owned())
        };
        Self {
            vendor: field("ID").unwrap_or_else(|| "linux".into()),
            // Debian's unstable has neither.
            release: field("VERSION_CODENAME").or_else(|| field("VERSION_ID")).unwrap_or_default(),
            architecture: image::architecture().to_owned(),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, release, architecture } = self;
        match release.as_str() {
            "" => write!(f, "{vendor} on {architecture}"),
            release => write!(f, "{vendor} {release} on {architecture}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_names_vendor_and_release() {
        for (text, expected) in [
            ("NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n", "debian bookworm"),
            ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\n", "ubuntu noble"),
            ("ID='fedora'\nVERSION_ID=43\n", "fedora 43"),
            ("ID=debian\n", "debian"),
            ("", "linux"),
        ] {
            let architecture = image::architecture();
            assert_eq!(Platform::parse(text).to_string(), format!("{expected} on {architecture}"));
        }
    }
}
