//! Options of Kubernetes components, like minikube's `--extra-config` and `--feature-gates`.

pub(crate) mod reserved;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::network::parse_range;
use crate::text::edit_distance;
use crate::{SpecError, text};

/// The kubeadm option that sets the pod subnet.
pub const POD_NETWORK_CIDR: &str = "pod-network-cidr";

/// The kubeadm option that names preflight checks to ignore.
pub const IGNORE_PREFLIGHT_ERRORS: &str = "ignore-preflight-errors";

/// The kubeadm options that can be set; flotilla sets all others.
pub(crate) const KUBEADM_KEYS: [&str; 2] = [IGNORE_PREFLIGHT_ERRORS, POD_NETWORK_CIDR];

/// A component that takes options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Kubeadm,
    Kubelet,
    ApiServer,
    ControllerManager,
    Scheduler,
    Etcd,
    KubeProxy,
}

impl Component {
    pub const ALL: [Self; 7] = [
        Self::Kubeadm,
        Self::Kubelet,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Etcd,
        Self::KubeProxy,
    ];

    /// Its name in `--extra-config`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm",
            Self::Kubelet => "kubelet",
            Self::ApiServer => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Etcd => "etcd",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// The component that was probably meant: two letters wrong, or `kube-apiserver`, or `proxy`.
    fn nearest_to(given: &str) -> Option<Self> {
        let distance = |component: &Self| {
            let name = component.name();
            let is_within = given.contains(name) || given.len() > 3 && name.contains(given);
            if is_within { 0 } else { edit_distance(given, name) }
        };
        Self::ALL.into_iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 2)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Component {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        Self::ALL.into_iter().find(|component| component.name() == given).ok_or_else(|| {
            SpecError::UnknownComponent { given: given.to_owned(), nearest: Self::nearest_to(given) }
        })
    }
}

/// One option of one component: `kubelet.max-pods=50`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraOption {
    component: Component,
    key: String,
    value: String,
}

impl ExtraOption {
    pub fn component(&self) -> Component {
        self.component
    }

    /// The option's name without dashes in front: `max-pods`.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for ExtraOption {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        let Some((option, value)) = given.split_once('=') else {
            return Err(SpecError::OptionWithoutValue { given: given.to_owned() });
        };
        let Some((component, key)) = option.split_once('.').filter(|(_, key)| !key.is_empty()) else {
            return Err(SpecError::OptionWithoutKey { given: given.to_owned() });
        };
        let component = component.parse()?;
        if component == Component::Kubeadm {
            if !KUBEADM_KEYS.contains(&key) {
                return Err(SpecError::KubeadmOption { key: key.to_owned() });
            }
            if key == POD_NETWORK_CIDR {
                parse_range(value)?;
            }
        }
        Ok(Self { component, key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for ExtraOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}={}", self.component, self.key, self.value)
    }
}

impl Serialize for ExtraOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExtraOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, str::parse)
    }
}

/// Feature gates of all components.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, bool>")]
pub struct FeatureGates(BTreeMap<String, bool>);

impl FeatureGates {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each feature, by name, and whether it is on.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(|(name, on)| (name.as_str(), *on))
    }
}

impl TryFrom<BTreeMap<String, bool>> for FeatureGates {
    type Error = SpecError;

    fn try_from(gates: BTreeMap<String, bool>) -> Result<Self, SpecError> {
        match gates.keys().find(|name| !is_gate_name(name)) {
            Some(name) => Err(SpecError::FeatureGate { given: name.clone() }),
            None => Ok(Self(gates)),
        }
    }
}

impl From<FeatureGates> for BTreeMap<String, bool> {
    fn from(gates: FeatureGates) -> Self {
        gates.0
    }
}

impl FromStr for FeatureGates {
    type Err = SpecError;

    /// Reads `A=true,B=false`. If a gate is named twice, the last value counts, as in Kubernetes.
    fn from_str(given: &str) -> Result<Self, SpecError> {
        if given.is_empty() {
            return Ok(Self::default());
        }
        given.split(',').map(parse_gate).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gates: Vec<_> = self.iter().map(|(name, on)| format!("{name}={on}")).collect();
        f.pad(&gates.join(","))
    }
}

fn parse_gate(given: &str) -> Result<(String, bool), SpecError> {
    let gate = given.split_once('=').filter(|(name, _)| is_gate_name(name));
    match gate.map(|(name, on)| (name, on.parse())) {
        Some((name, Ok(on))) => Ok((name.to_owned(), on)),
        _ => Err(SpecError::FeatureGate { given: given.to_owned() }),
    }
}

fn is_gate_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(given: &str) -> String {
        let error = given.parse::<ExtraOption>().unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn an_option_reads_back_as_it_was_written() {
        for text in ["kubelet.max-pods=50", "apiserver.a.b=c=d.e", "etcd.x=", "kube-proxy.v=4"] {
            assert_eq!(text.parse::<ExtraOption>().unwrap().to_string(), text);
        }
        let option: ExtraOption = "apiserver.admission-control=a=b.c".parse().unwrap();
        assert_eq!(option.component(), Component::ApiServer);
        assert_eq!((option.key(), option.value()), ("admission-control", "a=b.c"));
    }

    #[test]
    fn a_bad_option_is_reported_with_what_is_meant() {
        insta::assert_snapshot!(reported("kubelet.max-pods"), @r#"
        option "kubelet.max-pods" has no `=` and value
        hint: write `component.key=value`, for example `kubelet.max-pods=50`
        "#);
        insta::assert_snapshot!(reported("max-pods=50"), @r#"
        option "max-pods=50" has no component or no key before `=`
        hint: write `component.key=value`, for example `kubelet.max-pods=50`
        "#);
        insta::assert_snapshot!(reported("kublet.max-pods=50"), @r#"
        unknown component "kublet": expected one of kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy
        hint: try `kubelet`
        "#);
        insta::assert_snapshot!(reported("kubeadm.skip-phases=addon"), @r#"
        kubeadm option "skip-phases" cannot be set
        hint: of kubeadm's options only `ignore-preflight-errors` and `pod-network-cidr` can be set
        "#);
        insta::assert_snapshot!(reported("kubeadm.pod-network-cidr=10.1.1.1/16"), @r"
        10.1.1.1/16 is an address with a prefix, not a range
        hint: write `10.1.0.0/16`
        ");
        assert!(reported("kubelet.=50").contains("has no component or no key"));
    }

    #[test]
    fn the_nearest_component_is_proposed_only_when_it_is_near() {
        for (given, nearest) in [
            ("kube-apiserver", Some(Component::ApiServer)),
            ("api-server", Some(Component::ApiServer)),
            ("proxy", Some(Component::KubeProxy)),
            ("kubeproxy", Some(Component::KubeProxy)),
            ("schedular", Some(Component::Scheduler)),
            ("coredns", None),
            ("", None),
            ("e", None),
        ] {
            assert_eq!(Component::nearest_to(given), nearest, "{given}");
        }
    }

    #[test]
    fn feature_gates_are_read_and_written_in_order() {
        let gates: FeatureGates = "B=false,A=true,B=true".parse().unwrap();
        assert_eq!(gates.to_string(), "A=true,B=true");
        assert_eq!(gates.iter().collect::<Vec<_>>(), [("A", true), ("B", true)]);
        assert!("".parse::<FeatureGates>().unwrap().is_empty());
    }

    #[test]
    fn a_gate_is_a_name_with_true_or_false() {
        for (given, bad) in [
            ("A", "A"),
            ("A=yes", "A=yes"),
            ("A=true,", ""),
            ("=true", "=true"),
            ("A=true,b c=true", "b c=true"),
        ] {
            let error = SpecError::FeatureGate { given: bad.to_owned() };
            assert_eq!(given.parse::<FeatureGates>(), Err(error));
        }
        let gates = BTreeMap::from([("A,B".to_owned(), true)]);
        assert!(FeatureGates::try_from(gates).is_err());
    }
}
