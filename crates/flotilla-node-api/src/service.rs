//! The services of a node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A service by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unit(Cow<'static, str>);

/// A service of a node, as its PID 1 runs it: started as soon as it has what it needs, and again whenever it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    pub name: Unit,
    /// The program, by its path or by its name as found in the node's PATH, and its arguments. An argument `$NAME` stands for
    /// the words of that variable, of which there may be none.
    pub argv: Vec<String>,
    /// Variables in addition to those that all services get.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files of `NAME=value` lines, read at each start. Later ones win; one that does not exist is ignored.
    #[serde(default)]
    pub env_files: Vec<String>,
    /// What it cannot run without. It is not ended when something of that goes away.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// The socket at which it answers when others can rely on it. None: as soon as it runs.
    #[serde(default)]
    pub socket: Option<String>,
    /// What one that was killed leaves behind, and the next one must not find.
    #[serde(default)]
    pub leftovers: Vec<String>,
    /// Whether it runs only when asked for with `systemctl start`.
    #[serde(default)]
    pub on_demand: bool,
    /// How long it may take to end, in milliseconds. None: as long as others.
    #[serde(default)]
    pub grace: Option<u64>,
}

/// What a service needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Need {
    /// That one of these files exists.
    File(Vec<String>),
    /// That this service has been ready once.
    Service(Unit),
}

impl Unit {
    pub const CONTAINERD: Self = Self(Cow::Borrowed("containerd"));
    pub const KUBELET: Self = Self(Cow::Borrowed("kubelet"));
    pub const KEEPALIVED: Self = Self(Cow::Borrowed("keepalived"));

    /// The service of that name, with or without `.service`.
    pub fn named(name: &str) -> Self {
        Self(name.strip_suffix(".service").unwrap_or(name).to_owned().into())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ServiceSpec {
    /// The configuration of keepalived. Only control planes of several have one.
    pub const KEEPALIVED_CONF: &str = "/etc/flotilla/keepalived.conf";

    /// A service without needs that always runs.
    pub fn new<const N: usize>(name: Unit, argv: [&str; N]) -> Self {
        Self {
            name,
            argv: argv.map(str::to_owned).into(),
            env: BTreeMap::new(),
            env_files: Vec::new(),
            needs: Vec::new(),
            socket: None,
            leftovers: Vec::new(),
            on_demand: false,
            grace: None,
        }
    }

    /// The services that every node has.
    pub fn of_every_node() -> Vec<Self> {
        vec![Self::containerd(), Self::kubelet(), Self::keepalived()]
    }

    fn containerd() -> Self {
        Self {
            socket: Some("/run/containerd/containerd.sock".to_owned()),
            ..Self::new(Unit::CONTAINERD, ["containerd"])
        }
    }

    /// Like kubeadm's drop-in for systemd: it runs once kubeadm has written its configuration and credentials. One that finds no
    /// containerd ends.
    fn kubelet() -> Self {
        const CONFIG: &str = "/var/lib/kubelet/config.yaml";
        const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
        const BOOTSTRAP: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
        let flags = [("bootstrap-kubeconfig", BOOTSTRAP), ("kubeconfig", KUBECONFIG), ("config", CONFIG)];
        let flags = flags.map(|(flag, file)| format!("--{flag}={file}"));
        let [bootstrap, kubeconfig, config] = flags.each_ref().map(String::as_str);
        let files = ["/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet"];
        Self {
            env_files: files.map(str::to_owned).into(),
            needs: vec![
                Need::Service(Unit::CONTAINERD),
                Need::file([CONFIG]),
                Need::file([KUBECONFIG, BOOTSTRAP]),
            ],
            ..Self::new(
                Unit::KUBELET,
                ["kubelet", bootstrap, kubeconfig, config, "$KUBELET_KUBEADM_ARGS", "$KUBELET_EXTRA_ARGS"],
            )
        }
    }

    /// Holds the virtual IP while this node owns it.
    fn keepalived() -> Self {
        const PID: &str = "/run/flotilla/keepalived.pid";
        const VRRP_PID: &str = "/run/flotilla/vrrp.pid";
        let argv = [
            "keepalived",
            "--dont-fork",
            "--log-console",
            "--log-detail",
            "--vrrp",
            "--use-file",
            Self::KEEPALIVED_CONF,
            "--pid",
            PID,
            "--vrrp_pid",
            VRRP_PID,
        ];
        Self {
            needs: vec![Need::file([Self::KEEPALIVED_CONF])],
            // It would take one that was killed for alive if its number is in use again.
            leftovers: [PID, VRRP_PID].map(str::to_owned).into(),
            ..Self::new(Unit::KEEPALIVED, argv)
        }
    }
}

impl Need {
    /// That one of these files exists.
    pub fn file<const N: usize>(any_of: [&str; N]) -> Self {
        Self::File(any_of.map(str::to_owned).into())
    }
}
