//! Arguments of the commands about a whole cluster.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use flotilla_engine::store::WhenBusy;
use flotilla_spec::SpecError;
use flotilla_spec::file::MOST_NODES;
use jiff::SignedDuration;

use super::{AcceptedStartArgs, OutputArgs};

/// Start a cluster; create it if it does not exist
///
/// Creates a cluster of one node if none has that name, starts a stopped cluster with its data, and repairs a running
/// one. If interrupted, run it again to resume. The first start on a machine builds a bundle (about 15 minutes on two
/// cores); later starts take seconds.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla start                                a cluster named flotilla\n  \
    flotilla start --nodes 3                      one control plane, two workers\n  \
    flotilla start --ha --nodes 4                 three control planes, a worker\n  \
    flotilla start -f cluster.yaml                as described in a file\n  \
    flotilla start -p demo --cpus 2 --memory 3g   another cluster, with limits\n  \
    flotilla start --extra-config kubelet.max-pods=50\n  \
    flotilla start --wait all                     wait for all system pods\n  \
    flotilla start --dry-run                      show what would be done")]
pub(crate) struct StartArgs {
    /// File that describes the cluster; `-` is standard input
    #[arg(long, short, value_name = "FILE", conflicts_with_all = [
        "nodes", "control_planes", "ha", "taint_control_planes", "cpus", "memory", "disk_size",
        "kubernetes_version", "driver", "isolation", "subnet", "pod_subnet", "node_pod_prefix", "cni", "mount", "port", "service_cluster_ip_range", "dns_domain", "extra_config",
        "feature_gates", "apiserver_port", "apiserver_names", "apiserver_ips", "certificate_authority"
    ])]
    pub(crate) file: Option<PathBuf>,
    /// Total number of nodes, control planes included [default: 1]
    #[arg(long, short, value_name = "N",
          value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_NODES)))]
    pub(crate) nodes: Option<u32>,
    #[command(flatten)]
    pub(crate) control_plane: ControlPlaneArgs,
    /// CPUs of each node: a number, `max` or `no-limit` [default: no-limit]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Memory of each node: 3072 (megabytes), 3g, `max` or `no-limit` [default: no-limit]
    #[arg(long, short, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Disk size of each node (ignored by the native driver)
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_size: Option<String>,
    /// Kubernetes version, `stable` or `latest` [default: the newest that flotilla knows]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,
    /// Driver that creates the nodes
    #[arg(long, short, alias = "vm-driver", value_parser = DriverParser, default_value = "native")]
    pub(crate) driver: String,
    /// Isolation of the nodes: `user` for user namespaces, in which root is nobody on the host [default: none]
    #[arg(long, value_name = "none|user")]
    pub(crate) isolation: Option<String>,
    /// Address range of the nodes [default: a free /24 of 10.213.0.0/16]
    #[arg(long, value_name = "CIDR")]
    pub(crate) subnet: Option<String>,
    /// Address range of the pods [default: the first free one of 10.244.0.0/16, 10.245.0.0/16, …]
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_subnet: Option<String>,
    /// Prefix length of each node's pod range [default: 24]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) node_pod_prefix: Option<u8>,
    /// Pod network: flotilla, flannel, none (install one yourself) or the path of a manifest [default: flotilla]
    #[arg(long, value_name = "NAME|PATH", visible_alias = "cni-plugin")]
    pub(crate) cni: Option<String>,
    /// Mount a host directory into every node; may be repeated
    #[arg(long, value_name = "SRC:DST[:ro]")]
    pub(crate) mount: Vec<String>,
    /// Publish a port of the first control plane on the host; may be repeated
    #[arg(long, value_name = "[IP:]HOST:NODE[/udp]", visible_alias = "ports", value_delimiter = ',')]
    pub(crate) port: Vec<String>,
    /// Address range of the services [default: the first of 10.96.0.0/12, 10.112.0.0/12, … that hides no network of the host]
    #[arg(long, value_name = "CIDR")]
    pub(crate) service_cluster_ip_range: Option<String>,
    /// DNS domain of the cluster [default: cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) dns_domain: Option<String>,
    /// Setting of a Kubernetes component; may be repeated
    #[arg(long, value_name = "COMPONENT.KEY=VALUE", visible_alias = "extra-opts")]
    pub(crate) extra_config: Vec<String>,
    /// Feature gates of all components
    #[arg(long, value_name = "GATE=BOOL,…")]
    pub(crate) feature_gates: Option<String>,
    /// Port of the API server [default: 6443]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) apiserver_port: Option<u16>,
    /// Additional names in the API server's certificate
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) apiserver_names: Vec<String>,
    /// Additional addresses in the API server's certificate
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    pub(crate) apiserver_ips: Vec<String>,
    /// Directory with your own certificate authority (ca.crt, ca.key), copied when the cluster is created
    #[arg(long, value_name = "DIR")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Conditions to wait for.
    #[arg(
        long,
        value_name = "all|none|LIST",
        value_delimiter = ',',
        help = "Conditions to wait for: all, none, or some of apiserver, node_ready, default_sa, controllers, \
                  kube_proxy, dns, system_pods, apps_running, kubelet \
                  [default: apiserver, node_ready, default_sa, controllers, kube_proxy, dns (the cluster works)]"
    )]
    pub(crate) wait: Vec<String>,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    /// Show what would be done and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Continue even if host checks fail
    #[arg(long)]
    pub(crate) force: bool,
    /// Build a missing bundle without prompting
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Container runtime: always containerd
    #[arg(long, short, value_name = "NAME")]
    pub(crate) container_runtime: Option<String>,
    #[command(flatten)]
    pub(crate) accepted: AcceptedStartArgs,
    #[arg(long, hide = true, value_parser = |_: &str| Err::<String, _>(SpecError::IsoImage))]
    pub(crate) iso_url: Option<String>,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The time limit of whatever a command waits for.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Maximum time to wait for each step: the first answer of the API server, a join, the conditions at the end
    #[arg(long, value_name = "TIME", default_value = "6m", value_parser = parse_duration)]
    pub(crate) wait_timeout: Duration,
}

/// minikube's flags for Docker in nodes: known, so that they are refused with a reason.
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

/// The number of control planes, and whether they accept ordinary pods.
#[derive(Debug, Args)]
pub(crate) struct ControlPlaneArgs {
    /// Number of control planes; three tolerate the failure of one [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub(crate) control_planes: Option<u32>,
    /// Three control planes
    #[arg(long, conflicts_with = "control_planes")]
    pub(crate) ha: bool,
    /// Taint control planes `NoSchedule`
    #[arg(long)]
    pub(crate) taint_control_planes: bool,
}

/// Accepts every name: which drivers exist is for the spec to say, with an exit status of its own.
#[derive(Debug, Clone)]
struct DriverParser;

impl TypedValueParser for DriverParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let native = PossibleValue::new("native").help("Linux namespaces: no Docker, needs root");
        Some(Box::new(std::iter::once(native)))
    }
}

/// What to do if another command is changing the same cluster.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LockArgs {
    /// Fail immediately if another command is changing the cluster, instead of waiting
    #[arg(long)]
    pub(crate) no_wait_lock: bool,
}

impl LockArgs {
    pub(crate) fn busy(self) -> WhenBusy {
        if self.no_wait_lock { WhenBusy::Fail } else { WhenBusy::Wait }
    }
}

/// Show the status of a cluster and its nodes
///
/// Exits with 0 if all is well, with 7 if a node is down, else with the sum of 2 (Kubernetes is unhealthy) and 4 (wrong
/// kubeconfig).
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla status\n  \
    flotilla status -p demo -o json | jq -r .APIServer\n  \
    flotilla status -o json --layout cluster\n  \
    flotilla status --format '{{.Host}}'")]
pub(crate) struct StatusArgs {
    /// Template for each node, such as `{{.Name}}: {{.Host}}`
    #[arg(long, short, value_name = "TEMPLATE")]
    pub(crate) format: Option<String>,
    /// Layout of the JSON: one object for each node, or one for the cluster
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) layout: LayoutArg,
    /// Show only this node
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

/// Stop a cluster and keep its data
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla stop\n  flotilla stop -p demo\n  flotilla stop --all")]
pub(crate) struct StopArgs {
    /// Stop every cluster
    #[arg(long)]
    pub(crate) all: bool,
    /// Keep the cluster as the current context of the kubeconfig
    #[arg(long)]
    pub(crate) keep_context_active: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a cluster and its data
///
/// Also deletes a cluster that never came up or whose state directory is damaged. Bundles are kept.
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

/// The namespaces to pause or unpause.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Namespaces to pause or unpause
    #[arg(long, short, value_name = "NAMESPACE,…", value_delimiter = ',',
          default_values = ["kube-system", "kubernetes-dashboard", "istio-operator"])]
    pub(crate) namespaces: Vec<String>,
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Run the cluster's own kubectl
///
/// Exits with the exit status of kubectl.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla kubectl -- get pods -A\n  \
    flotilla kubectl -p demo -- apply -f app.yaml")]
pub(crate) struct KubectlArgs {
    /// Arguments for kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// Open a shell in a node, or run a command there
///
/// Standard input and output are passed through unchanged. Exits with the exit status of the command. Several words are
/// joined to one line for the node's shell, like ssh. Also like ssh, it reads all of its standard input: in a loop over
/// lines, add `< /dev/null`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla ssh\n  \
    flotilla ssh m02\n  \
    flotilla ssh -- crictl ps\n  \
    flotilla ssh -- 'cat > /tmp/file' < file")]
pub(crate) struct SshArgs {
    /// Node to open the shell in [default: the primary one]
    #[arg(long, short, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Command to run; the first word may be the name of the node
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "[NODE] COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Show the logs of a node: kubelet, containerd, control plane
///
/// Without a node also the last commands, the last start and the version of the kernel.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla logs\n  flotilla logs m02 -n 200\n  flotilla logs -f")]
pub(crate) struct LogsArgs {
    /// Node, by its full or short name [default: the primary one]
    #[arg(value_name = "NODE", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// Follow the logs
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Write the logs to this file
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    pub(crate) file: Option<PathBuf>,
    /// Number of lines to show from the end of each log
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 60)]
    pub(crate) length: u32,
    /// Same as NODE
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

impl LogsArgs {
    /// The node that was named, as an argument or as a flag.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.name.as_deref().or(self.node.as_deref())
    }
}

/// Copy files and directories to, from or between nodes
///
/// A path with `NODE:` in front is in that node, any other path on this host; if neither path names a node, the
/// destination is in the primary node. Relative paths in nodes start at /root. Directories are copied recursively, into
/// the destination if that is an existing directory. Modes are kept. `-` is standard input or output, for one file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla cp app.conf /etc/app.conf            to the primary node\n  \
    flotilla cp ./images m02:/var/tmp             a directory\n  \
    flotilla cp m02:/var/log/flotilla ./logs\n  \
    flotilla cp m02:/etc/hosts m03:/tmp/hosts\n  \
    flotilla cp m02:/etc/hosts - | grep demo      to standard output")]
pub(crate) struct CopyArgs {
    /// Source
    #[arg(value_name = "[NODE:]SRC")]
    pub(crate) source: String,
    /// Destination
    #[arg(value_name = "[NODE:]DST")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print the address of a node
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flotilla ip\n  flotilla ip m02\n  curl \"http://$(flotilla ip):30080\"")]
pub(crate) struct IpArgs {
    /// Node, by its full or short name [default: the primary one]
    #[arg(value_name = "NODE", conflicts_with = "node")]
    pub(crate) name: Option<String>,
    /// Same as NODE
    #[arg(long, short, value_name = "NODE")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl IpArgs {
    /// The node that was named, as an argument or as a flag.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.name.as_deref().or(self.node.as_deref())
    }
}

/// A year: longer times could overflow when they are added to the current time.
const LONGEST_WAIT: Duration = Duration::from_hours(365 * 24);

/// Reads `90`, `90s`, `6m`, `1h30m`, like minikube.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let with_units = || Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
    let parsed = seconds.or_else(with_units).filter(|time| *time <= LONGEST_WAIT);
    parsed.ok_or_else(|| format!("{text:?} is not a duration: write 90s, 6m or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_like_minikube() {
        for (text, seconds) in
            [("6m", 360), ("6m0s", 360), ("1h30m", 5400), ("90", 90), ("90s", 90), ("6", 6)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "m", "6x", "m6", "-1s", "99999999999999h", "99999999999999"] {
            let parsed = parse_duration(text);
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
