//! Every judgement, both ways.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;

use flotilla_linux::net::{NetError, UsedRange};
use flotilla_linux::nft::{Chain, Refusals};
use flotilla_linux::resolver::{NoServer, Upstream};
use flotilla_linux::trial::TrialError;
use rustix::thread::CapabilitySet;

use super::facts::{Cgroups, NAMESPACES, Setting};
use super::*;

const GB: u64 = 1_000_000_000;

/// A host on which nothing is to be said.
fn well() -> Facts {
    Facts {
        home: "/root/.flotilla".into(),
        root: true,
        capabilities: CapabilitySet::all(),
        release: "6.1.0-18-amd64".into(),
        namespaces: NAMESPACES.to_vec(),
        cgroups: Cgroups::V2(words("cpuset cpu io memory pids")),
        overlay: true,
        erofs: true,
        home_on_overlay: false,
        home_trial: Some(Ok(())),
        inotify_instances: Setting { value: 8192, writable: true },
        forwarding: Setting { value: 1, writable: true },
        open_files: Some(1_048_576),
        selinux_enforces: false,
        cpus: 2,
        total_memory: 24 * GB,
        available_memory: 23 * GB,
        free_disk: Ok(70 * GB),
        nf_tables: Some(true),
        firewalld: Some(false),
        legacy_filter: Some(false),
        refusals: Some(Refusals::default()),
        ranges: Ok(vec![route("192.168.1.0/24", "eth0")]),
        name_server: Ok(Upstream::Servers(vec!["192.168.1.1".parse().unwrap(), "9.9.9.9".parse().unwrap()])),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn route(dst: &str, link: &str) -> UsedRange {
    UsedRange { dst: dst.parse().unwrap(), link: Some(link.to_owned()), before_main: false }
}

fn chain(family: &str, table: &str, name: &str) -> Chain {
    Chain { family: family.to_owned(), table: table.to_owned(), name: name.to_owned() }
}

/// What is said about a host that is well but for something.
fn said(change: impl FnOnce(&mut Facts)) -> String {
    let good: BTreeSet<_> = judge(&well()).into_iter().map(|finding| finding.text).collect();
    let mut facts = well();
    change(&mut facts);
    let mut said = String::new();
    for finding in judge(&facts).iter().filter(|finding| !good.contains(&finding.text)) {
        let Finding { code, exit_status, severity, text, cure } = finding;
        writeln!(said, "{severity:?} {code} {exit_status}\n{text}").unwrap();
        if !cure.is_empty() {
            writeln!(said, "-> {cure}").unwrap();
        }
    }
    said
}

fn check_form(findings: &[Finding]) {
    let codes: BTreeSet<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes.len(), findings.len(), "each check has a name of its own");
    for finding in findings {
        assert_eq!(finding.severity == Severity::Good, finding.cure.is_empty(), "{finding:?}");
        assert!(finding.text.contains(": ") && !finding.text.ends_with('.'), "{finding:?}");
    }
}

#[test]
fn a_host_that_is_well_is_told_so_check_by_check() {
    let findings = judge(&well());
    check_form(&findings);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Good), "{findings:?}");
    let texts: Vec<_> = findings.into_iter().map(|finding| finding.text).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    permission: you are root
    kernel: Linux 6.1.0-18-amd64
    namespaces: mnt, pid, net, uts, ipc, cgroup
    cgroups: v2, with cpu, cpuset, memory, pids
    overlay: supported by the kernel
    images: shared by an EROFS file system
    writing: /root/.flotilla is writable
    state directory: /root/.flotilla
    inotify: 8192 instances per user
    open files: up to 1048576 per process
    out of memory: system containers are killed last
    SELinux: not enforcing
    CPUs: 2
    memory: 23 GB available of 24 GB
    disk: 70 GB free for /root/.flotilla
    forwarding: on
    packet filter: nf_tables
    legacy iptables: no rules
    firewalld: no rules
    firewall: refuses no packets
    subnets: 10.213.0.0/24 is free for nodes, 10.244.0.0/16 for pods
    name server: 192.168.1.1, 9.9.9.9
    ");
}

#[test]
fn this_host_is_examined_whatever_it_is() {
    let home = tempfile::tempdir().unwrap();
    let findings = examine(&home.path().join("not/made/yet"));
    assert_eq!(findings.len(), judge(&well()).len());
    check_form(&findings);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is made");
}

#[test]
fn only_root_will_do() {
    insta::assert_snapshot!(said(|host| host.root = false), @r"
    Fatal HOST_PERMISSION 37
    permission: you are not root
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    ");
    insta::assert_snapshot!(said(|host| host.capabilities -= CapabilitySet::NET_ADMIN), @r"
    Fatal HOST_PERMISSION 37
    permission: you are root, but without CAP_NET_ADMIN
    -> run it outside the container, or make the container privileged
    ");
}

#[test]
fn kernels_are_told_by_their_age() {
    let kernel = |release: &str| said(|host| host.release = release.to_owned());
    insta::assert_snapshot!(kernel("5.7.19"), @r"
    Fatal HOST_OLD_KERNEL 36
    kernel: Linux 5.7.19 is older than 5.8
    -> install Linux 5.13 or newer
    ");
    insta::assert_snapshot!(kernel("5.10.0-35-amd64"), @"
    Warning HOST_OLD_KERNEL 36
    kernel: Linux 5.10.0-35-amd64; kube-proxy needs 5.13 for nftables
    -> install a newer one, or start clusters with `--extra-config=kube-proxy.mode=iptables`
    ");
    insta::assert_snapshot!(kernel("our-own"), @"
    Warning HOST_OLD_KERNEL 36
    kernel: Linux our-own, unrecognised version
    -> make sure that it is 5.13 or newer
    ");
    for good in ["5.13.0", "5.14-rc1", "10.0"] {
        assert_eq!(kernel(good), format!("Good HOST_OLD_KERNEL 36\nkernel: Linux {good}\n"));
    }
}

#[test]
fn what_a_kernel_was_made_without_is_named() {
    insta::assert_snapshot!(said(|host| host.namespaces.retain(|name| *name != "net" && *name != "ipc")), @"
    Fatal HOST_NO_NAMESPACES 36
    namespaces: the kernel lacks net, ipc
    -> use a distribution's kernel
    ");
    insta::assert_snapshot!(said(|host| host.overlay = false), @r"
    Fatal HOST_NO_OVERLAY 36
    overlay: not supported by the kernel
    -> use a distribution's kernel, and make sure that its modules are in /lib/modules
    ");
    insta::assert_snapshot!(said(|host| host.erofs = false), @"
    Warning HOST_NO_EROFS 36
    images: no EROFS in the kernel or no loop devices: an overlay shares them, which pods with `hostUsers: false` cannot use
    -> use a distribution's kernel, and make sure that its modules are in /lib/modules
    ");
    insta::assert_snapshot!(said(|host| host.nf_tables = Some(false)), @r"
    Fatal HOST_NO_NFTABLES 36
    packet filter: the kernel has no nf_tables
    -> use a distribution's kernel, and make sure that its modules are in /lib/modules
    ");
}

#[test]
fn both_versions_of_control_groups_will_do_with_their_controllers() {
    let v1 = |controllers: &str| said(|host| host.cgroups = Cgroups::V1(words(controllers)));
    insta::assert_snapshot!(v1("cpu cpuacct cpuset memory devices freezer blkio pids name=systemd"), @r"
    Good HOST_NO_CGROUPS 36
    cgroups: v1, with cpu, cpuacct, cpuset, memory, pids
    ");
    insta::assert_snapshot!(v1("cpu cpuacct cpuset devices freezer pids"), @r"
    Fatal HOST_NO_CGROUPS 36
    cgroups: v1, without memory
    -> switch them on by the kernel's command line (`cgroup_enable=memory`), or where the container that you are in was made
    ");
    insta::assert_snapshot!(v1("cpu cpuacct cpuset memory freezer pids"), @r"
    Warning HOST_NO_CGROUPS 36
    cgroups: v1, without devices
    -> mount these hierarchies below /sys/fs/cgroup: containers may fail without them
    ");
    insta::assert_snapshot!(said(|host| host.cgroups = Cgroups::V2(words("cpu io"))), @r"
    Fatal HOST_NO_CGROUPS 36
    cgroups: v2, without cpuset, memory, pids
    -> switch them on by the kernel's command line (`cgroup_enable=memory`), or where the container that you are in was made
    ");
    insta::assert_snapshot!(said(|host| host.cgroups = Cgroups::None), @r"
    Fatal HOST_NO_CGROUPS 36
    cgroups: none are mounted
    -> mount them with `mount -t cgroup2 cgroup2 /sys/fs/cgroup`, like systemd
    ");
}

#[test]
fn nodes_cannot_be_kept_on_an_overlay() {
    insta::assert_snapshot!(said(|host| host.home_on_overlay = true), @r"
    Fatal HOST_OVERLAY_HOME 36
    state directory: /root/.flotilla is on an overlay, which cannot hold the nodes' file systems
    -> set FLOTILLA_HOME to a directory on a disk or a volume
    ");
}

#[test]
fn what_the_state_folder_cannot_do_is_told_by_trying() {
    let tried = |trial| said(|host| host.home_trial = Some(trial));
    let write = TrialError::Write { source: io::ErrorKind::ReadOnlyFilesystem.into() };
    insta::assert_snapshot!(tried(Err(write)), @"
    Fatal HOST_READ_ONLY_HOME 37
    writing: cannot write to /root/.flotilla: read-only filesystem or storage medium
    -> make that file system writable, or set FLOTILLA_HOME to a directory on another one
    ");
    let overlay = TrialError::Overlay { source: io::ErrorKind::InvalidInput.into() };
    insta::assert_snapshot!(tried(Err(overlay)), @r"
    Fatal HOST_OVERLAY_HOME 36
    state directory: /root/.flotilla is on a file system that cannot be the upper layer of an overlay, like NFS, eCryptfs or an older ZFS: invalid input parameter
    -> set FLOTILLA_HOME to a directory on a local disk with ext4, xfs or btrfs
    ");
    let untried = TrialError::Untried { source: io::ErrorKind::PermissionDenied.into() };
    insta::assert_snapshot!(tried(Err(untried)), @"
    Warning HOST_OVERLAY_HOME 36
    state directory: cannot check whether /root/.flotilla can be the upper layer of an overlay: permission denied
    -> if nodes do not start, set FLOTILLA_HOME to a directory on a local disk with ext4, xfs or btrfs
    ");
}

#[test]
fn settings_that_start_raises_are_no_trouble_unless_they_cannot_be_raised() {
    let low = |writable| {
        move |host: &mut Facts| {
            host.inotify_instances = Setting { value: 128, writable };
            host.forwarding = Setting { value: 0, writable };
        }
    };
    insta::assert_snapshot!(said(low(true)), @"
    Good HOST_FEW_INOTIFY 37
    inotify: 128 instances per user, will be raised to 8192
    Good IF_NO_FORWARDING 77
    forwarding: off, will be turned on
    ");
    insta::assert_snapshot!(said(low(false)), @"
    Fatal HOST_FEW_INOTIFY 37
    inotify: 128 instances per user, cannot be raised
    -> set fs.inotify.max_user_instances to 8192 on the host
    Fatal IF_NO_FORWARDING 77
    forwarding: off and cannot be turned on
    -> set net.ipv4.ip_forward to 1 on the host
    ");
    // Who is not root could not raise them now: that is said once, about root.
    let mut facts = Facts { root: false, ..well() };
    low(false)(&mut facts);
    let fatal = judge(&facts).into_iter().filter(|finding| finding.severity == Severity::Fatal);
    assert_eq!(fatal.map(|finding| finding.code).collect::<Vec<_>>(), ["HOST_PERMISSION"]);
}

#[test]
fn what_works_less_well_is_a_warning() {
    let files = |limit| said(|host| host.open_files = limit);
    insta::assert_snapshot!(files(Some(1024)), @"
    Warning HOST_FEW_OPEN_FILES 30
    open files: only up to 1024 per process
    -> raise the hard limit of `nofile` in /etc/security/limits.conf, and log in again
    ");
    assert_eq!(files(None), "Good HOST_FEW_OPEN_FILES 30\nopen files: no limit\n");
    insta::assert_snapshot!(said(|host| host.capabilities -= CapabilitySet::SYS_RESOURCE), @r"
    Warning HOST_NO_OOM_SCORES 37
    out of memory: cannot lower OOM scores (no CAP_SYS_RESOURCE), so system containers may be killed first
    -> give CAP_SYS_RESOURCE to the container or service that flotilla runs in
    ");
    insta::assert_snapshot!(said(|host| host.selinux_enforces = true), @r"
    Warning HOST_SELINUX 37
    SELinux: enforcing, which may block nodes
    -> if a node fails, check `ausearch -m avc -ts recent`, and retry after `setenforce 0`
    ");
    insta::assert_snapshot!(said(|host| host.cpus = 1), @r"
    Warning RSRC_FEW_CORES 29
    CPUs: 1, so clusters start slowly
    -> give this machine two or more CPUs
    ");
}

#[test]
fn memory_is_judged_by_the_total_first() {
    let memory =
        |available, total| said(|host| (host.available_memory, host.total_memory) = (available, total));
    insta::assert_snapshot!(memory(GB / 2, GB * 6 / 10), @r"
    Fatal RSRC_INSUFFICIENT_MEMORY 23
    memory: 500 MB available of 600 MB
    -> use a machine with 2.0 GB or more
    ");
    // Perhaps it is the cluster itself that uses the rest.
    insta::assert_snapshot!(memory(GB / 2, 4 * GB), @r"
    Warning RSRC_INSUFFICIENT_MEMORY 23
    memory: 500 MB available of 4.0 GB
    -> stop programs that you do not need, or limit nodes with --memory
    ");
}

#[test]
fn a_full_disk_is_fatal_and_a_nearly_full_one_is_not() {
    let disk = |free| said(|host| host.free_disk = free);
    insta::assert_snapshot!(disk(Ok(GB - 1)), @r"
    Fatal RSRC_DISK_FULL 26
    disk: 999 MB free for /root/.flotilla
    -> free some space, or set FLOTILLA_HOME to a directory on a larger file system
    ");
    insta::assert_snapshot!(disk(Ok(GB)), @r"
    Warning RSRC_DISK_FULL 26
    disk: 1.0 GB free for /root/.flotilla
    -> free some space, or set FLOTILLA_HOME to a directory on a larger file system
    ");
    assert_eq!(disk(Ok(5 * GB)), "Good RSRC_DISK_FULL 26\ndisk: 5.0 GB free for /root/.flotilla\n");
    insta::assert_snapshot!(disk(Err(io::ErrorKind::PermissionDenied.into())), @"
    Warning RSRC_DISK_FULL 26
    disk: cannot determine the free space for /root/.flotilla: permission denied
    -> make its parent directories accessible
    ");
}

#[test]
fn firewalls_of_others_are_pointed_at() {
    insta::assert_snapshot!(said(|host| host.legacy_filter = Some(true)), @r"
    Warning IF_LEGACY_IPTABLES 71
    legacy iptables: has rules; if they drop forwarded packets, nodes have no access to other networks
    -> check `iptables-legacy -S FORWARD`, and accept packets with `iptables-legacy -P FORWARD ACCEPT`
    ");
    let firewalld = |owned: Vec<Chain>| {
        said(|host| {
            host.firewalld = Some(true);
            host.refusals = Some(Refusals { owned, ..Refusals::default() });
        })
    };
    insta::assert_snapshot!(firewalld(vec![]), @r"
    Good IF_FIREWALLD 71
    firewalld: `start` adds rules for clusters, again after each reload of firewalld
    ");
    // It owns its table since version 2: nobody else can put rules there.
    insta::assert_snapshot!(firewalld(vec![chain("inet", "firewalld", "filter_FORWARD")]), @r"
    Warning IF_FIREWALLD 71
    firewalld: owns its table, so `start` cannot add rules for clusters
    -> trust the cluster's ranges: `firewall-cmd --zone=trusted --add-source=10.213.0.0/24 --add-source=10.244.0.0/16`
    ");
}

#[test]
fn chains_that_refuse_are_opened_for_clusters_but_not_for_all_of_the_host() {
    let refusing = |forward: Vec<Chain>, input: Vec<Chain>| {
        said(|host| host.refusals = Some(Refusals { forward, input, owned: vec![] }))
    };
    let (forward, input) = (chain("ip", "filter", "FORWARD"), chain("ip", "filter", "INPUT"));
    insta::assert_snapshot!(refusing(vec![forward.clone()], vec![]), @"
    Good IF_FIREWALL 71
    firewall: `start` adds rules for clusters to ip filter FORWARD
    ");
    insta::assert_snapshot!(refusing(vec![forward], vec![input]), @r#"
    Warning IF_FIREWALL 71
    firewall: ip filter INPUT blocks packets to this host: nodes and pods reach only its name server
    -> to allow it, run `nft insert rule ip filter INPUT iifname "flo*" accept` until it is loaded again, for good `ufw allow in on flo+` or what your firewall has for it
    "#);
    insta::assert_snapshot!(said(|host| host.refusals = None), @r"
    Good IF_FIREWALL 71
    firewall: not checked without nft; `start` checks with the bundle's
    ");
}

#[test]
fn what_only_root_can_see_is_not_called_good() {
    let hidden = |host: &mut Facts| {
        (host.nf_tables, host.legacy_filter, host.firewalld) = (None, None, None);
        (host.root, host.refusals, host.home_trial) = (false, None, None);
    };
    insta::assert_snapshot!(said(hidden), @r"
    Fatal HOST_PERMISSION 37
    permission: you are not root
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    Good HOST_READ_ONLY_HOME 37
    writing: root will try /root/.flotilla
    Warning HOST_NO_NFTABLES 36
    packet filter: cannot check for nf_tables
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    Warning IF_LEGACY_IPTABLES 71
    legacy iptables: only root can see its rules
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    Warning IF_FIREWALLD 71
    firewalld: only root can see its rules
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    Warning IF_FIREWALL 71
    firewall: only root can see its rules
    -> run it as root and keep your environment: `sudo --preserve-env=PATH,HOME,FLOTILLA_HOME,MINIKUBE_HOME,KUBECONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy flotilla …`
    ");
}

#[test]
fn a_route_that_leaves_no_range_free_is_named() {
    let routes = |routes: Vec<UsedRange>| said(|host| host.ranges = Ok(routes));
    insta::assert_snapshot!(routes(vec![route("10.213.0.0/24", "flo1"), route("10.244.0.0/15", "cni0")]), @r"
    Good IF_SUBNETS_TAKEN 71
    subnets: 10.213.1.0/24 is free for nodes, 10.246.0.0/16 for pods
    ");
    // A VPN that has all of it leaves others.
    insta::assert_snapshot!(routes(vec![route("10.0.0.0/8", "tun0")]), @r"
    Good IF_SUBNETS_TAKEN 71
    subnets: 192.168.128.0/24 is free for nodes, 172.24.0.0/16 for pods
    ");
    insta::assert_snapshot!(routes(vec![route("192.168.0.0/16", "eth0"), route("10.0.0.0/8", "tun0")]), @"
    Warning IF_SUBNETS_TAKEN 71
    subnets: none is free for nodes: all are in use
    -> choose free ranges with --subnet and --pod-subnet
    ");
    let nowhere = UsedRange { link: None, ..route("10.100.0.0/16", "") };
    insta::assert_snapshot!(routes(vec![nowhere]), @r"
    Warning IF_SUBNETS_TAKEN 71
    subnets: 10.96.0.0/12 for services overlaps 10.100.0.0/16, which is routed nowhere
    -> choose another service range with --service-cluster-ip-range
    ");
    let exit_node = UsedRange { before_main: true, ..route("0.0.0.0/0", "tailscale0") };
    insta::assert_snapshot!(routes(vec![exit_node]), @"
    Warning IF_SUBNETS_TAKEN 71
    subnets: all packets of this host are routed by tailscale0, also those for nodes
    -> have the host's own networks excepted (Tailscale: `tailscale set --exit-node-allow-lan-access`), or put a cluster's ranges first: `ip rule add to RANGE lookup main priority 100`
    ");
    let failed = NetError::List { what: "routes", source: io::ErrorKind::PermissionDenied.into() };
    insta::assert_snapshot!(said(|host| host.ranges = Err(failed)), @r"
    Warning IF_SUBNETS_TAKEN 71
    subnets: cannot list the routes
    -> choose free ranges with --subnet and --pod-subnet
    ");
}

#[test]
fn a_host_without_a_name_server_that_nodes_can_ask_is_warned() {
    let upstream = |upstream| said(|host| host.name_server = Ok(upstream));
    insta::assert_snapshot!(upstream(Upstream::Loopback("127.0.0.1".parse().unwrap())), @r"
    Good IF_NO_NAME_SERVER 75
    name server: 127.0.0.1 of this host
    ");
    insta::assert_snapshot!(upstream(Upstream::None(NoServer::Unnamed)), @"
    Warning IF_NO_NAME_SERVER 75
    name server: this host has none; nodes resolve only names of the cluster
    -> add one to /etc/resolv.conf
    ");
    insta::assert_snapshot!(upstream(Upstream::None(NoServer::OnlyIpv6)), @"
    Warning IF_NO_NAME_SERVER 75
    name server: all have IPv6 addresses, which nodes cannot reach; nodes resolve only names of the cluster
    -> add one with an IPv4 address to /etc/resolv.conf
    ");
    insta::assert_snapshot!(upstream(Upstream::None(NoServer::BehindSystemd)), @"
    Warning IF_NO_NAME_SERVER 75
    name server: systemd-resolved answers only this host and uses no server with an IPv4 address; nodes resolve only names of the cluster
    -> add one: `resolvectl dns LINK ADDRESS`
    ");
}
