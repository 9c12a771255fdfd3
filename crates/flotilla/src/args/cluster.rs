//! What can be typed to have, use and lose a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flotilla_engine::store::WhenBusy;
use flotilla_spec::SpecError;
use flotilla_spec::file::MOST_NODES;

use super::OutputArgs;

/// Start a cluster: make it, power it on, or find that it runs
///
/// Makes a cluster of one node if there is none of that name; starts it with everything it held if it was stopped;
/// repairs what is missing if it runs. Killed or interrupted at any moment, it is finished by running it again. The
/// first start on a machine builds a bundle (about 15 minutes on two cores), all others take seconds.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla start                                a cluster named flotilla\n  \
    flotilla start --nodes 3                      one control plane, two workers\n  \
    flotilla start --ha --nodes 4                 three control planes, a worker\n  \
    flotilla start -f cluster.yaml                as a file describes it\n  \
    flotilla start -p demo --cpus 2 --memory 3g   another one beside it, bounded\n  \
    flotilla start --extra-config kubelet.max-pods=50\n  \
    flotilla start --wait all                     until all system pods are ready\n  \
    flotilla start --dry-run                      what would be done")]
pub(crate) struct StartArgs {
    /// File that describes the cluster; `-` is standard input
    #[arg(long, short, value_name = "FILE", conflicts_with_all = [
        "nodes", "control_planes", "ha", "taint_control_planes", "cpus", "memory", "disk_size",
        "kubernetes_version", "driver", "subnet", "pod_subnet", "node_pod_prefix", "cni", "mount", "port", "service_cluster_ip_range", "dns_domain", "extra_config",
        "feature_gates", "apiserver_names", "apiserver_ips"
    ])]
    pub(crate) file: Option<PathBuf>,
    /// How many nodes, control planes included; the others are workers [default: 1]
    #[arg(long, short, value_name = "N",
          value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_NODES)))]
    pub(crate) nodes: Option<u32>,
    #[command(flatten)]
    pub(crate) control_plane: ControlPlaneArgs,
    /// Processors of the node: a number, `max` or `no-limit` [default: no-limit]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Memory of the node: 3072 (megabytes), 3g, `max` or `no-limit` [default: no-limit]
    #[arg(long, short, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Disk of the node; native nodes share the host's whatever it says
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_size: Option<String>,
    /// Kubernetes version, `stable` or `latest` [default: the newest that flotilla knows]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,
    /// Who makes the machines
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) driver: DriverArg,
    /// Addresses of the nodes [default: a free /24 of 10.213.0.0/16]
    #[arg(long, value_name = "CIDR")]
    pub(crate) subnet: Option<String>,
    /// Addresses of the pods [default: a free one of 10.244.0.0/16, 10.245.0.0/16, …]
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_subnet: Option<String>,
    /// Size of each node's range of pod addresses, as a prefix [default: 24]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) node_pod_prefix: Option<u8>,
    /// Pod network: flotilla, none (you install one), flannel, or a manifest's path [default: flotilla]
    #[arg(long, value_name = "NAME|PATH", visible_alias = "cni-plugin")]
    pub(crate) cni: Option<String>,
    /// Folder of this host to show in every node; may be repeated
    #[arg(long, value_name = "SRC:DST[:ro]")]
    pub(crate) mount: Vec<String>,
    /// Port of this host that leads to the control plane; may be repeated
    #[arg(long, value_name = "[IP:]HOST:NODE[/udp]", visible_alias = "ports", value_delimiter = ',')]
    pub(crate) port: Vec<String>,
    /// Addresses of the services [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR")]
    pub(crate) service_cluster_ip_range: Option<String>,
    /// Domain of the cluster's own names [default: cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) dns_domain: Option<String>,
    /// Setting of a Kubernetes component, as component.key=value; may be repeated
    #[arg(long, value_name = "COMPONENT.KEY=VALUE", visible_alias = "extra-opts")]
    pub(crate) extra_config: Vec<String>,
    /// Feature gates of all components
    #[arg(long, value_name = "GATE=BOOL,…")]
    pub(crate) feature_gates: Option<String>,
    /// More names for the API server's certificate
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) apiserver_names: Vec<String>,
    /// More addresses for the API server's certificate
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    pub(crate) apiserver_ips: Vec<String>,
    /// What must hold before it returns.
    #[arg(
        long,
        value_name = "all|none|LIST",
        value_delimiter = ',',
        help = "What must hold before it returns: all, none, or some of apiserver, node_ready, default_sa, \
                  system_pods, apps_running, kubelet [default: apiserver,node_ready,default_sa: a pod can run]"
    )]
    pub(crate) wait: Vec<String>,
    /// How long that may take
    #[arg(long, value_name = "TIME", default_value = "6m", value_parser = parse_duration)]
    pub(crate) wait_timeout: Duration,
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Go on although the host checks found something fatal
    #[arg(long)]
    pub(crate) force: bool,
    /// Build a bundle that is missing without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
    #[arg(long, hide = true, value_parser = |_: &str| Err::<String, _>(SpecError::IsoImage))]
    pub(crate) iso_url: Option<String>,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What runs containers.
#[derive(Debug, Args)]
pub(crate) struct RuntimeArgs {
    /// Container runtime: every node has containerd
    #[arg(long, value_name = "NAME")]
    pub(crate) container_runtime: Option<String>,
}

/// What a proposal has for nodes with Docker in them: known, so that it is refused with a reason.
#[derive(Debug, Args)]
pub(crate) struct DockerArgs {
    #[arg(long, hide = true, value_parser = comes_with_docker)]
    pub(crate) docker_env: Vec<String>,
    #[arg(long, hide = true, value_parser = comes_with_docker)]
    pub(crate) docker_opt: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DockerEnvArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

fn comes_with_docker(_: &str) -> Result<String, SpecError> {
    Err(SpecError::ComesWithDocker)
}

/// How many nodes are control planes, and what comes to them.
#[derive(Debug, Args)]
pub(crate) struct ControlPlaneArgs {
    /// How many control planes; three bear the loss of one [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub(crate) control_planes: Option<u32>,
    /// Three control planes
    #[arg(long, conflicts_with = "control_planes")]
    pub(crate) ha: bool,
    /// Let only pods come to control planes that tolerate it
    #[arg(long)]
    pub(crate) taint_control_planes: bool,
}

/// Those that are hidden are known, so that they are refused with a reason.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum DriverArg {
    /// Linux namespaces: no Docker, needs root
    #[default]
    Native,
    #[value(hide = true)]
    Docker,
    #[value(hide = true)]
    Podman,
    #[value(hide = true, aliases = ["qemu2", "kvm2"])]
    Qemu,
    #[value(hide = true)]
    Ssh,
}

impl DriverArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Qemu => "qemu",
            Self::Ssh => "ssh",
        }
    }
}

/// What to do while another command changes the same cluster.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LockArgs {
    /// Fail at once if another command changes the cluster, instead of waiting for it
    #[arg(long)]
    pub(crate) no_wait_lock: bool,
}

impl LockArgs {
    pub(crate) fn busy(self) -> WhenBusy {
        if self.no_wait_lock { WhenBusy::Fail } else { WhenBusy::Wait }
    }
}

/// Show what runs
///
/// Exits with 0 if all is well, else with a sum: 1 for a node that is not running, 2 for Kubernetes in it, 4 for the
/// kubeconfig.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla status\n  \
    flotilla status -p demo -o json | jq -r .APIServer\n  \
    flotilla status -o json --layout cluster\n  \
    flotilla status --format '{{.Host}}'")]
pub(crate) struct StatusArgs {
    /// Show each node by this template, such as `{{.Name}}: {{.Host}}`
    #[arg(long, short, value_name = "TEMPLATE")]
    pub(crate) format: Option<String>,
    /// Shape of the JSON
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) layout: LayoutArg,
    /// Only this node
    #[arg(long, short, value_name = "NODE")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    #[default]
    Nodes,
    Cluster,
}

/// Stop a cluster; it keeps everything it holds
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla stop\n  flotilla stop -p demo\n  flotilla stop --all")]
pub(crate) struct StopArgs {
    /// Stop every cluster
    #[arg(long)]
    pub(crate) all: bool,
    /// Leave the current context of the kubeconfig as it is
    #[arg(long)]
    pub(crate) keep_context_active: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a cluster with all it holds
///
/// Works on whatever is there: a running cluster, one that never came up, one whose state folder is damaged. Bundles
/// stay.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla delete\n  flotilla delete -p demo\n  flotilla delete --all")]
pub(crate) struct DeleteArgs {
    /// Delete every cluster
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The namespaces that `pause` and `unpause` are about.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Namespaces whose containers are meant
    #[arg(long, short, value_name = "NAMESPACE,…", value_delimiter = ',',
          default_values = ["kube-system", "kubernetes-dashboard", "istio-operator"])]
    pub(crate) namespaces: Vec<String>,
    /// The containers of all namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Run the cluster's own kubectl against it
///
/// Its exit status is kubectl's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla kubectl -- get pods -A\n  \
    flotilla kubectl -p demo -- apply -f app.yaml")]
pub(crate) struct KubectlArgs {
    /// What kubectl is to do
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// Open a shell in a node, or run a command there
///
/// Standard input and output are passed byte for byte, and the exit status is the command's. Several words are one line
/// for the node's shell, as with ssh.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla ssh\n  \
    flotilla ssh m02\n  \
    flotilla ssh -- crictl ps\n  \
    flotilla ssh -- 'cat > /tmp/file' < file")]
pub(crate) struct SshArgs {
    /// Node to go to [default: the primary one]
    #[arg(long, short, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Command to run there; the first word may be the node's name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "[NODE] COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Show the logs of a node: kubelet, containerd, control plane
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla logs\n  flotilla logs m02 -n 200\n  flotilla logs -f")]
pub(crate) struct LogsArgs {
    /// Node to look into, by its full or short name [default: the primary one]
    #[arg(value_name = "NODE", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// Go on showing what comes
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last lines of each log
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 60)]
    pub(crate) length: u32,
    /// The same, as a flag
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

impl LogsArgs {
    /// The node that was named, either way.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.name.as_deref().or(self.node.as_deref())
    }
}

/// Copy files and folders into a node, out of it, or from node to node
///
/// `NODE:` before a path says where it is; a path without it is on this host, but if neither path names a node, the
/// target is in the primary one. Paths in nodes begin at /root. Folders are copied with all in them, into the target if
/// that is a folder already. Modes are kept. `-` is standard input or output, for one file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla cp app.conf /etc/app.conf            to the primary node\n  \
    flotilla cp ./images m02:/var/tmp             a folder\n  \
    flotilla cp m02:/var/log/flotilla ./logs\n  \
    flotilla cp m02:/etc/hosts m03:/tmp/hosts\n  \
    flotilla cp m02:/etc/hosts - | grep demo      to standard output")]
pub(crate) struct CopyArgs {
    /// What to copy
    #[arg(value_name = "[NODE:]SRC")]
    pub(crate) source: String,
    /// Where it is to be
    #[arg(value_name = "[NODE:]DST")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print the address of a node
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla ip\n  flotilla ip m02\n  curl \"http://$(flotilla ip):30080\"")]
pub(crate) struct IpArgs {
    /// Node to ask for, by its full or short name [default: the primary one]
    #[arg(value_name = "NODE", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// The same, as a flag
    #[arg(long, short, value_name = "NODE")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl IpArgs {
    /// The node that was named, either way.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.name.as_deref().or(self.node.as_deref())
    }
}

/// `90`, `90s`, `6m`, `1h30m`, as minikube takes times.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time: write 90s, 6m or 1h30m");
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u32 = rest[..digits].parse().map_err(|_| bad())?;
        let unit_end =
            rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let unit = match &rest[digits..unit_end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(bad()),
        };
        total = unit.checked_mul(number).and_then(|part| total.checked_add(part)).ok_or_else(bad)?;
        rest = &rest[unit_end..];
    }
    if text.is_empty() { Err(bad()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_minikube_reads_them() {
        for (text, seconds) in [("6m", 360), ("6m0s", 360), ("1h30m", 5400), ("90", 90), ("90s", 90)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "6", "6x", "m6", "-1s", "99999999999999h"] {
            let parsed = parse_duration(text);
            assert!(parsed.is_err() || text == "6", "{text}: {parsed:?}");
        }
    }
}
