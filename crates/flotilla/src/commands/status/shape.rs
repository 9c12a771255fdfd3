//! A node's status, in minikube's words and shapes.

use std::net::Ipv4Addr;

use flotilla_core::Node;
use flotilla_core::driver::PROCESS;
use flotilla_core::{Certificate, Certificates, Power};
use flotilla_ops::status::{self, ApiServer};
use flotilla_spec::{ClusterName, Role};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::availability;
use super::about::About;
use super::etcd::EtcdStatus;
use flotilla_ops::certificates;

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeStatus {
    name: String,
    host: &'static str,
    kubelet: &'static str,
    #[serde(rename = "APIServer")]
    api_server: &'static str,
    kubeconfig: &'static str,
    worker: bool,
    #[serde(rename = "IP")]
    ip: String,
    /// The control plane that is meant where none is named.
    primary: bool,
    /// It has the virtual IP of the API now.
    #[serde(rename = "VirtualIP")]
    virtual_ip: bool,
    /// Those of its spec, which are known also while the API does not answer. `kubectl` shows those that others put there.
    taints: String,
    /// Whether root in it is root of the host (`none`), or nobody (`user`).
    isolation: String,
    /// When the first of its certificates expires, and the first of its certificate authorities.
    certificates_expire: Option<String>,
    authorities_expire: Option<String>,
    /// Lines about certificates that expire soon.
    #[serde(skip)]
    notices: Vec<String>,
    /// The node's PID 1, as the host numbers it: the node ends with it.
    #[serde(rename = "PID")]
    pid: Option<u32>,
}

/// What a worker has no say in.
const IRRELEVANT: &str = "Irrelevant";

/// What nobody can say.
const UNKNOWN: &str = "Unknown";

impl NodeStatus {
    pub(super) fn of(cluster: &ClusterName, seen: &status::NodeStatus, now: Timestamp) -> Self {
        if let Power::Unknown(_) = seen.power {
            return Self::unknown(&seen.node, seen.is_primary);
        }
        let mut status = Self::stopped(&seen.node, seen.is_primary);
        if seen.is_running() {
            status.host = "Running";
            status.kubelet = if seen.health.kubelet { "Running" } else { "Stopped" };
            status.virtual_ip = seen.health.holds_virtual_ip;
            status.pid = seen.details.get(PROCESS).and_then(|pid| pid.parse().ok());
        }
        if let Some(control_plane) = &seen.control_plane {
            status.api_server = match control_plane.api_server {
                ApiServer::Running => "Running",
                ApiServer::Paused => "Paused",
                ApiServer::Stopped => "Stopped",
            };
            status.kubeconfig = match control_plane.is_configured {
                None => "Stopped",
                Some(true) => "Configured",
                Some(false) => "Misconfigured",
            };
        }
        if let Some(certificates) = &seen.certificates {
            status.show(cluster, certificates, now);
        }
        status
    }

    fn stopped(node: &Node, primary: bool) -> Self {
        let is_control_plane = node.spec.role == Role::ControlPlane;
        let control_plane = if is_control_plane { "Stopped" } else { IRRELEVANT };
        let taints: Vec<_> = node.spec.taints.iter().map(ToString::to_string).collect();
        Self {
            name: node.spec.name.to_string(),
            host: "Stopped",
            kubelet: "Stopped",
            api_server: control_plane,
            kubeconfig: control_plane,
            worker: !is_control_plane,
            ip: node.address.to_string(),
            primary,
            virtual_ip: false,
            taints: taints.join(","),
            isolation: node.spec.isolation.to_string(),
            certificates_expire: None,
            authorities_expire: None,
            notices: Vec::new(),
            pid: None,
        }
    }

    /// Of a node whose host does not answer.
    fn unknown(node: &Node, primary: bool) -> Self {
        let stopped = Self::stopped(node, primary);
        let if_relevant = |state| if state == IRRELEVANT { state } else { UNKNOWN };
        let (api_server, kubeconfig) = (if_relevant(stopped.api_server), if_relevant(stopped.kubeconfig));
        Self { host: UNKNOWN, kubelet: UNKNOWN, api_server, kubeconfig, ..stopped }
    }

    /// Adds what is known of its certificates.
    fn show(&mut self, cluster: &ClusterName, certificates: &Certificates, now: Timestamp) {
        let expiry = |it: Option<&Certificate>| it.map(|certificate| certificate.expires.to_string());
        self.certificates_expire = expiry(certificates.first());
        self.authorities_expire = expiry(certificates.first_authority());
        self.notices = certificates::notices(cluster, certificates, now);
    }

    /// 1 for the machine, 2 for Kubernetes in it, 4 for the kubeconfig. As in minikube, a node that does not run has nothing of
    /// the three, whatever its role.
    pub(super) fn exit_bits(&self) -> u8 {
        if self.host != "Running" {
            return 7;
        }
        let well = |state: &str, good: &[&str]| good.contains(&state) || state == IRRELEVANT;
        let kubernetes = well(self.kubelet, &["Running"]) && well(self.api_server, &["Running"]);
        let kubeconfig = well(self.kubeconfig, &["Configured"]);
        u8::from(!kubernetes) << 1 | u8::from(!kubeconfig) << 2
    }

    /// minikube's lines.
    fn text(&self) -> String {
        let Self { name, host, kubelet, api_server, kubeconfig, worker, .. } = self;
        if *worker {
            return format!("{name}\ntype: Worker\nhost: {host}\nkubelet: {kubelet}\n");
        }
        format!(
            "{name}\ntype: Control Plane\nhost: {host}\nkubelet: {kubelet}\napiserver: {api_server}\n\
             kubeconfig: {kubeconfig}\n"
        )
    }

    /// minikube's lines, and what it has no line for after them.
    pub(super) fn full_text(&self, virtual_ip: Ipv4Addr) -> String {
        let lines = [
            Some(format!("ip: {}\n", self.ip)),
            self.primary.then(|| "primary: yes\n".to_owned()),
            self.virtual_ip.then(|| format!("virtual ip: {virtual_ip}\n")),
            (!self.taints.is_empty()).then(|| format!("taints: {}\n", self.taints)),
        ];
        self.text() + &lines.into_iter().flatten().collect::<String>() + &self.notices.concat()
    }
}

/// All nodes, as `--layout cluster` shows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ClusterStatus {
    name: String,
    status_code: u16,
    status_name: &'static str,
    binary_version: &'static str,
    #[serde(flatten)]
    about: About,
    components: Value,
    nodes: Vec<Value>,
    #[serde(rename = "VirtualIP")]
    virtual_ip: Ipv4Addr,
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<EtcdStatus>,
}

impl ClusterStatus {
    pub(super) fn of(
        name: &str,
        about: About,
        nodes: &[NodeStatus],
        virtual_ip: Ipv4Addr,
        etcd: Option<EtcdStatus>,
    ) -> Self {
        // The cluster is well if any control plane is.
        let mut control_planes = nodes.iter().filter(|node| !node.worker);
        let runs = |node: &&NodeStatus| node.api_server == "Running";
        let control_plane = control_planes.clone().find(runs).or_else(|| control_planes.next());
        let whole = control_plane.map_or("Stopped", |node| match node.host {
            "Running" => node.api_server,
            other => other,
        });
        let healthy = nodes.iter().filter(|node| !node.worker && node.exit_bits() == 0).count();
        let (status_code, status_name) = match whole {
            "Running" | "Stopped" if nodes.iter().filter(|node| !node.worker).count() > 1 => {
                availability::of(healthy)
            }
            other => code(other),
        };
        let component = |name: &str, state: &str| {
            let (code, state) = code(state);
            json!({"Name": name, "StatusCode": code, "StatusName": state})
        };
        let kubeconfig = control_plane.map_or("Stopped", |node| node.kubeconfig);
        let nodes = nodes.iter().map(|node| {
            let (code, state) = code(node.host);
            let mut components = json!({"kubelet": component("kubelet", node.kubelet)});
            if !node.worker {
                components["apiserver"] = component("apiserver", node.api_server);
            }
            json!({
                "Name": node.name,
                "StatusCode": code,
                "StatusName": state,
                "Components": components,
                "IP": node.ip,
                "Primary": node.primary,
                "VirtualIP": node.virtual_ip,
                "Taints": node.taints,
                "CertificatesExpire": node.certificates_expire,
                "AuthoritiesExpire": node.authorities_expire,
            })
        });
        Self {
            name: name.to_owned(),
            status_code,
            status_name,
            binary_version: concat!("v", env!("CARGO_PKG_VERSION")),
            about,
            components: json!({"kubeconfig": component("kubeconfig", kubeconfig)}),
            nodes: nodes.collect(),
            virtual_ip,
            etcd,
        }
    }
}

/// minikube's numbers.
fn code(state: &str) -> (u16, &'static str) {
    match state {
        "Running" | "Configured" => (200, "OK"),
        "Stopped" => (405, "Stopped"),
        "Paused" => (418, "Paused"),
        UNKNOWN => (520, UNKNOWN),
        _ => (500, "Error"),
    }
}

#[cfg(test)]
mod tests {
    use flotilla_spec::{NodeSpec, Taint};

    use super::*;
    use crate::screen::fill_in;

    fn stopped(role: Role) -> NodeStatus {
        let mut spec = NodeSpec::plain("demo".parse().unwrap(), role);
        spec.taints = vec![Taint::of_control_planes()];
        let address = Ipv4Addr::new(10, 213, 0, 2);
        let node = Node { spec, number: 1, address, pod_range: "10.244.1.0/24".parse().unwrap() };
        NodeStatus::stopped(&node, role == Role::ControlPlane)
    }

    fn running() -> NodeStatus {
        NodeStatus {
            host: "Running",
            kubelet: "Running",
            api_server: "Running",
            kubeconfig: "Configured",
            virtual_ip: true,
            ..stopped(Role::ControlPlane)
        }
    }

    #[test]
    fn the_exit_status_says_what_is_wrong() {
        assert_eq!(running().exit_bits(), 0);
        assert_eq!(stopped(Role::ControlPlane).exit_bits(), 7);
        assert_eq!(NodeStatus { api_server: "Paused", ..running() }.exit_bits(), 2);
        assert_eq!(NodeStatus { kubeconfig: "Misconfigured", ..running() }.exit_bits(), 4);
        let worker = NodeStatus { host: "Running", kubelet: "Running", ..stopped(Role::Worker) };
        assert_eq!(worker.exit_bits(), 0);
        assert_eq!(NodeStatus { kubelet: "Stopped", ..worker }.exit_bits(), 2);
        assert_eq!(stopped(Role::Worker).exit_bits(), 7, "a machine is missing, and all that is in it");
    }

    #[test]
    fn a_node_whose_host_does_not_answer_is_unknown_and_not_well() {
        let node = |role| Node {
            spec: NodeSpec::plain("demo".parse().unwrap(), role),
            number: 1,
            address: Ipv4Addr::new(10, 213, 0, 2),
            pod_range: "10.244.1.0/24".parse().unwrap(),
        };
        let control_plane = NodeStatus::unknown(&node(Role::ControlPlane), true);
        insta::assert_snapshot!(control_plane.text(), @"
        demo
        type: Control Plane
        host: Unknown
        kubelet: Unknown
        apiserver: Unknown
        kubeconfig: Unknown
        ");
        assert_eq!((control_plane.exit_bits(), whole(&[control_plane]).status_name), (7, "Unknown"));
        assert_eq!(NodeStatus::unknown(&node(Role::Worker), false).exit_bits(), 7);
    }

    #[test]
    fn it_looks_like_minikubes() {
        insta::assert_snapshot!(running().text(), @"
        demo
        type: Control Plane
        host: Running
        kubelet: Running
        apiserver: Running
        kubeconfig: Configured
        ");
        insta::assert_snapshot!(serde_json::to_string(&running()).unwrap(), @r#"{"Name":"demo","Host":"Running","Kubelet":"Running","APIServer":"Running","Kubeconfig":"Configured","Worker":false,"IP":"10.213.0.2","Primary":true,"VirtualIP":true,"Taints":"node-role.kubernetes.io/control-plane:NoSchedule","Isolation":"none","CertificatesExpire":null,"AuthoritiesExpire":null,"PID":null}"#);
    }

    #[test]
    fn of_several_nodes_each_says_what_is_its_own() {
        let others = NodeStatus { primary: false, virtual_ip: false, taints: String::new(), ..running() };
        let virtual_ip = Ipv4Addr::new(10, 213, 0, 254);
        let told = [running(), others].map(|node| node.full_text(virtual_ip));
        insta::assert_snapshot!(told.join("\n"), @"
        demo
        type: Control Plane
        host: Running
        kubelet: Running
        apiserver: Running
        kubeconfig: Configured
        ip: 10.213.0.2
        primary: yes
        virtual ip: 10.213.0.254
        taints: node-role.kubernetes.io/control-plane:NoSchedule

        demo
        type: Control Plane
        host: Running
        kubelet: Running
        apiserver: Running
        kubeconfig: Configured
        ip: 10.213.0.2
        ");
    }

    #[test]
    fn certificates_are_in_the_data_and_in_the_text_only_if_they_expire_soon() {
        let mut node = running();
        let certificate = |name, expires: &str, is_authority| Certificate {
            name,
            expires: expires.parse().unwrap(),
            is_authority,
        };
        let all = vec![
            certificate("ca", "2126-01-01T00:00:00Z", true),
            certificate("apiserver", "2036-01-01T00:00:00Z", false),
        ];
        let certificates = Certificates { all, ..Certificates::default() };
        let cluster = "demo".parse().unwrap();
        let virtual_ip = Ipv4Addr::new(10, 213, 0, 254);
        node.show(&cluster, &certificates, "2026-01-01T00:00:00Z".parse().unwrap());
        let data = serde_json::to_value(&node).unwrap();
        assert_eq!(data["CertificatesExpire"], "2036-01-01T00:00:00Z");
        assert_eq!(data["AuthoritiesExpire"], "2126-01-01T00:00:00Z");
        assert!(!node.full_text(virtual_ip).contains("certificates"));
        node.show(&cluster, &certificates, "2035-12-01T00:00:00Z".parse().unwrap());
        assert!(node.full_text(virtual_ip).contains("\ncertificates: apiserver expires on 2036-01-01; "));
        let whole = whole(&[node]);
        assert_eq!(whole.nodes[0]["CertificatesExpire"], "2036-01-01T00:00:00Z");
    }

    #[test]
    fn templates_are_filled_in() {
        let status = running();
        let filled = fill_in("{{.Name}}: {{.Host}}, {{.APIServer}}", &status).unwrap();
        assert_eq!(filled, "demo: Running, Running");
    }

    fn whole(nodes: &[NodeStatus]) -> ClusterStatus {
        let cluster = flotilla_testkit::fake::cluster("10.213.0.0/24");
        let about = About::new(&cluster, "https://10.213.0.254:6443".to_owned(), None);
        ClusterStatus::of("demo", about, nodes, Ipv4Addr::new(10, 213, 0, 254), None)
    }

    #[test]
    fn several_control_planes_are_named_by_how_many_are_healthy() {
        let named = |running: usize, stopped_ones: usize| {
            let mut nodes = vec![NodeStatus { host: "Running", kubelet: "Running", ..stopped(Role::Worker) }];
            nodes.extend(std::iter::repeat_with(self::running).take(running));
            nodes.extend(std::iter::repeat_with(|| stopped(Role::ControlPlane)).take(stopped_ones));
            let whole = whole(&nodes);
            (whole.status_code, whole.status_name)
        };
        assert_eq!([named(3, 0), named(5, 2)], [(201, "HAppy"); 2]);
        assert_eq!([named(2, 0), named(2, 1)], [(204, "Degraded"); 2]);
        assert_eq!([named(1, 1), named(0, 2)], [(405, "Stopped"); 2]);
        assert_eq!(named(1, 0), (200, "OK"), "one alone is minikube's simple cluster");
    }

    #[test]
    fn the_whole_cluster_has_what_minikube_has_not_as_well() {
        let whole = whole(&[running()]);
        assert_eq!(serde_json::to_value(&whole).unwrap()["Server"], "https://10.213.0.254:6443");
        let node = &whole.nodes[0];
        assert_eq!((&node["Primary"], &node["VirtualIP"]), (&true.into(), &true.into()));
        assert_eq!(node["Taints"], "node-role.kubernetes.io/control-plane:NoSchedule");
    }

    #[test]
    fn the_whole_cluster_has_minikubes_numbers() {
        let of = whole;
        let off = of(&[stopped(Role::ControlPlane)]);
        assert_eq!((off.status_code, off.status_name), (405, "Stopped"));
        let paused = of(&[NodeStatus { api_server: "Paused", ..running() }]);
        assert_eq!((paused.status_code, paused.status_name), (418, "Paused"));
        assert_eq!(of(&[running()]).status_code, 200);
    }
}
