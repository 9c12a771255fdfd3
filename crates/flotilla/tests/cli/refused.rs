//! What `start` refuses: all problems together, with minikube's exit statuses, before anything is created.

use flotilla_linux::process::host_size;
use flotilla_testkit::{LAN, Ran};
use insta::assert_snapshot;

use super::{home, may_be_root};

/// Starts a cluster that cannot be, and sees to it that nothing is left of the attempt.
fn refused(args: &[&str]) -> Ran {
    let home = home();
    let ran = home.run(["start"].iter().chain(args));
    assert!(home.files().is_empty(), "{args:?} left {:?}", home.files());
    assert_ne!(ran.status, 0, "{args:?}");
    ran
}

/// A run without what this host has, which differs from host to host.
fn on_any_host(ran: &Ran) -> String {
    let host = host_size();
    let text = between(&ran.to_string(), "of memory, more than the host's ", "\n", "[MEMORY]");
    between(&text, "times the host's memory: ", "\n", "[16 TIMES MEMORY]")
        .replace(&format!("the host's {}", host.cpus), "the host's [CPUS]")
        .replace(&format!("at most {}", host.cpus), "at most [CPUS]")
}

/// A text with something else between the first two words that follow each other.
fn between(text: &str, start: &str, end: &str, with: &str) -> String {
    let Some((before, rest)) = text.split_once(start) else { return text.to_owned() };
    let (_, after) = rest.split_once(end).expect("both words are there");
    format!("{before}{start}{with}{end}{after}")
}

#[test]
fn too_little_memory() {
    assert_snapshot!(refused(&["--memory", "10"]), @"
    status: 23
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_REQ_MEMORY]: node flotilla has 10 MiB of memory, but a control plane needs 1 GiB
    hint: use --memory 1Gi or more
    ");
}

#[test]
fn more_memory_than_the_host_has() {
    assert_snapshot!(on_any_host(&refused(&["--memory", "99999g"])), @"
    status: 23
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_REQ_MEMORY]: node flotilla has 99999 GiB of memory, more than the host's [MEMORY]
    hint: use --memory max, or at most 16 times the host's memory: [16 TIMES MEMORY]
    ");
}

#[test]
fn an_apiserver_port_that_is_none() {
    for port in ["0", "65536", "https"] {
        let ran = refused(&["--apiserver-port", port]);
        assert_eq!(ran.status, 14, "{ran}");
        assert!(ran.stderr.contains("for '--apiserver-port <PORT>'"), "{ran}");
    }
}

#[test]
fn memory_that_is_no_size() {
    assert_snapshot!(refused(&["--memory", "lots"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "lots" is not a size
    hint: write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
    "#);
}

#[test]
fn more_processors_than_the_host_has() {
    assert_snapshot!(on_any_host(&refused(&["--cpus", "9999"])), @"
    status: 29
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_CORES]: node flotilla has 9999 CPUs, more than the host's [CPUS]
    hint: use --cpus max, or at most [CPUS]
    ");
}

#[test]
fn mounts_over_what_a_node_owns() {
    let args = [
        "--control-planes=3",
        "--mount=/usr/share:/etc/kubernetes/pki",
        "--mount=/usr/share:/var/lib",
        "--mount=/usr/share:/usr/local/share/ca-certificates:ro",
    ];
    assert_snapshot!(refused(&args), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 2 errors in the request
        mount /usr/share:/etc/kubernetes/pki conflicts with /etc/kubernetes, which the node owns; to use your own certificate authority, leave out the mount and set --certificate-authority DIR, or `certificateAuthority` in a file
        mount /usr/share:/var/lib conflicts with /var/lib/cni, which the node owns; mount it on another directory, for example `/mnt/data`
    ");
}

#[test]
fn no_processor_at_all() {
    assert_snapshot!(refused(&["--cpus", "0"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "0" is not a number of CPUs
    hint: write a whole number, `max` or `no-limit`
    "#);
}

#[test]
fn ranges_that_overlap_each_other() {
    let ranges = ["--pod-subnet", "10.100.0.0/16", "--service-cluster-ip-range", "10.96.0.0/12"];
    assert_snapshot!(refused(&ranges), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: the pod subnet 10.100.0.0/16 overlaps the service subnet 10.96.0.0/12
    ");
}

#[test]
fn ranges_that_are_none() {
    assert_snapshot!(refused(&["--pod-subnet", "10.300.0.0/16"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "10.300.0.0/16" is not an address range
    hint: write an address and a prefix, for example `10.0.0.0/24`
    "#);
    assert_snapshot!(refused(&["--subnet", "192.168.7.1/24"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 192.168.7.1/24 is an address with a prefix, not a range
    hint: write `192.168.7.0/24`
    ");
    assert_snapshot!(refused(&["--service-cluster-ip-range", "fd00::/108"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: fd00::/108 is an IPv6 range, and IPv6 is not supported yet
    ");
}

#[test]
fn ranges_with_a_meaning_of_their_own() {
    assert_snapshot!(refused(&["--subnet", "127.0.0.0/24"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: the node subnet 127.0.0.0/24 has addresses that nodes cannot use: loopback
    ");
}

#[test]
fn a_range_that_the_host_uses() {
    if !may_be_root() {
        return;
    }
    let ran = refused(&["--subnet", LAN, "--force"]);
    assert_eq!(ran.status, 14, "{ran}");
    assert!(ran.stderr.contains(&format!("error[MK_USAGE]: the node subnet {LAN} overlaps ")), "{ran}");
    assert!(ran.stderr.contains("leave it out for a free one"), "{ran}");
}

#[test]
fn names_that_are_none() {
    assert_snapshot!(refused(&["-p", "a/b"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: cluster name "a/b" contains '/': only a-z, 0-9 and '-' are allowed
    hint: try `a-b`
    "#);
    assert_snapshot!(refused(&["-p", "UPPER"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: cluster name "UPPER" contains 'U': only a-z, 0-9 and '-' are allowed
    hint: try `upper`
    "#);
    assert_snapshot!(refused(&["--profile", ""]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: cluster name "" is empty
    "#);
}

#[test]
fn versions_that_are_not_known() {
    assert_snapshot!(refused(&["--kubernetes-version", "v1.2.3"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_UNKNOWN_VERSION]: Kubernetes v1.2.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8
    hint: build another version from its source: `flotilla bundle build --kubernetes-source PATH`
    ");
    assert_snapshot!(refused(&["--kubernetes-version", "v1.2.3", "--dry-run"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_UNKNOWN_VERSION]: Kubernetes v1.2.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8
    hint: build another version from its source: `flotilla bundle build --kubernetes-source PATH`
    ");
    assert_snapshot!(refused(&["--kubernetes-version", "newest"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "newest" is not a Kubernetes version
    hint: write a full version, for example `v1.37.1`
    "#);
}

#[test]
fn settings_of_components_that_do_not_exist() {
    assert_snapshot!(refused(&["--extra-config", "kublet.max-pods=50"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: unknown component "kublet": expected one of kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy
    hint: try `kubelet`
    "#);
    assert_snapshot!(refused(&["--extra-config", "kubelet.max-pods"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: option "kubelet.max-pods" has no `=` and value
    hint: write `component.key=value`, for example `kubelet.max-pods=50`
    "#);
    assert_snapshot!(refused(&["--extra-config", "kubeadm.skip-phases=all"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: kubeadm option "skip-phases" cannot be set
    hint: of kubeadm's options only `ignore-preflight-errors` and `pod-network-cidr` can be set
    "#);
}

#[test]
fn feature_gates_that_are_neither_on_nor_off() {
    assert_snapshot!(refused(&["--feature-gates", "SomeGate=maybe"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "SomeGate=maybe" is not a feature gate
    hint: write `Name=true` or `Name=false`, separated by commas
    "#);
}

#[test]
fn things_that_cannot_be_waited_for() {
    assert_snapshot!(refused(&["--wait", "apiserver,peace"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: unknown condition "peace": expected all, none, apiserver, node_ready, default_sa, controllers, kube_proxy, dns, system_pods, apps_running, kubelet
    "#);
    assert_snapshot!(refused(&["--wait-timeout", "soon"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'soon' for '--wait-timeout <TIME>': "soon" is not a duration: write 90s, 6m or 1h30m

    For more information, try '--help'.
    "#);
}

#[test]
fn names_and_addresses_that_no_certificate_can_have() {
    assert_snapshot!(refused(&["--apiserver-ips", "192.168.1.7,1.2.3"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "1.2.3" is not an address
    "#);
    assert_snapshot!(refused(&["--apiserver-names", "not a name"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: "not a name" is not a valid name for the API server's certificate
    "#);
}

#[test]
fn a_driver_that_is_not_there() {
    assert_snapshot!(refused(&["--driver", "fail"]), @"
    status: 56
    ----- stdout -----
    ----- stderr -----
    error[DRV_UNSUPPORTED]: The driver 'fail' is not supported on linux/[ARCH]
    hint: leave it out: `native` creates nodes from Linux namespaces
    ");
    for driver in ["docker", "podman", "qemu2", "kvm2", "ssh"] {
        assert_eq!(refused(&["--vm-driver", driver]).status, 56, "{driver}");
    }
    assert_eq!(
        refused(&["--driver=docker", "--cni=calico", "--memory=1"]).status,
        56,
        "whatever else is wrong"
    );
    let ran = refused(&["--driver=fail", "--output=json"]);
    let last = ran.events().pop().unwrap();
    assert_eq!((ran.status, &last["type"]), (56, &"io.k8s.sigs.minikube.error".into()), "{ran}");
    assert_eq!(last["data"]["exitcode"], "56");
    let message = last["data"]["message"].as_str().unwrap();
    assert!(message.starts_with("The driver 'fail' is not supported on linux/"), "{message}");
}

#[test]
fn what_minikube_has_and_bundles_settle() {
    assert_snapshot!(refused(&["--container-runtime", "docker"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: container runtime "docker" is not supported
    hint: leave it out: every node has containerd
    "#);
    assert_snapshot!(refused(&["--iso-url", "https://example.org/a.iso"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'https://example.org/a.iso' for '--iso-url <ISO_URL>': ISO images need a driver for virtual machines, which is not implemented yet: nodes are created from bundles

    For more information, try '--help'.
    ");
    let add = home().run(["node", "add", "--iso-url", "https://example.org/a.iso"]);
    assert!(add.status == 14 && add.stderr.contains("ISO images need"), "{add}");
    // What every node has may be said, and options have both names.
    let ran = refused(&["--container-runtime=containerd", "--extra-opts=kublet.a=b"]);
    assert!(ran.stderr.contains("unknown component \"kublet\""), "{ran}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let unreadable = ["--cpus=two", "--memory=lots", "--subnet=10.0.0.0", "--extra-config=a.b=c", "--wait=x"];
    assert_snapshot!(refused(&unreadable), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 5 errors in the request
        "two" is not a number of CPUs; write a whole number, `max` or `no-limit`
        "lots" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
        "10.0.0.0" is not an address range; write an address and a prefix, for example `10.0.0.0/24`
        unknown component "a": expected one of kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy
        unknown condition "x": expected all, none, apiserver, node_ready, default_sa, controllers, kube_proxy, dns, system_pods, apps_running, kubelet
    "#);
    let impossible = ["--cpus", "9999", "--memory", "10", "--pod-subnet", "10.96.0.0/16"];
    assert_snapshot!(on_any_host(&refused(&impossible)), @"
    status: 29
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_CORES]: 3 errors in the request
        node flotilla has 9999 CPUs, more than the host's [CPUS]; use --cpus max, or at most [CPUS]
        node flotilla has 10 MiB of memory, but a control plane needs 1 GiB; use --memory 1Gi or more
        the pod subnet 10.96.0.0/16 overlaps the service subnet 10.96.0.0/12
    ");
}

#[test]
fn scripts_get_an_event() {
    assert_snapshot!(refused(&["--memory", "10", "--pod-subnet", "10.96.0.0/16", "-o", "json"]), @r#"
    status: 23
    ----- stdout -----
    {"data":{"advice":"","exitcode":"23","issues":"","message":"2 errors in the request\nnode flotilla has 10 MiB of memory, but a control plane needs 1 GiB; use --memory 1Gi or more\nthe pod subnet 10.96.0.0/16 overlaps the service subnet 10.96.0.0/12","name":"RSRC_INSUFFICIENT_REQ_MEMORY","url":""},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.error"}
    ----- stderr -----
    "#);
}
