//! The stored form of a cluster, version 1, with line and column in every error.

use std::path::PathBuf;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::error::Place;
use crate::model::{ApiServerSpec, ClusterSpec, NodeSpec};
use crate::{
    ClusterName, DriverName, ExtraOption, FeatureGates, KubernetesVersion, NetworkSpec, NodeDefaults,
    SpecError, text,
};

pub(crate) const API_VERSION: &str = "flotilla.dev/v1";
pub(crate) const KIND: &str = "Cluster";

/// A cluster in a file. The model has no `apiVersion` and may change where this form may not.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Document {
    api_version: ApiVersion,
    kind: Kind,
    name: ClusterName,
    kubernetes_version: KubernetesVersion,
    // The driver of all nodes, as files and states of the first versions have it. Nodes have their own now.
    #[serde(default, skip_serializing)]
    driver: Option<DriverName>,
    #[serde(default)]
    network: NetworkSpec,
    #[serde(default, skip_serializing_if = "ApiServerSpec::is_empty")]
    api_server: ApiServerSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extra_config: Vec<ExtraOption>,
    #[serde(default, skip_serializing_if = "FeatureGates::is_empty")]
    feature_gates: FeatureGates,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    taint_control_planes: bool,
    // The first versions wrote none.
    #[serde(default, skip_serializing_if = "NodeDefaults::is_empty")]
    node_defaults: NodeDefaults,
    nodes: Vec<NodeSpec>,
}

impl From<ClusterSpec> for Document {
    fn from(spec: ClusterSpec) -> Self {
        let ClusterSpec {
            name,
            kubernetes_version,
            network,
            api_server,
            certificate_authority,
            extra_config,
            feature_gates,
            taint_control_planes,
            node_defaults,
            nodes,
        } = spec;
        Self {
            api_version: ApiVersion,
            kind: Kind,
            name,
            kubernetes_version,
            driver: None,
            network,
            api_server,
            certificate_authority,
            extra_config,
            feature_gates,
            taint_control_planes,
            node_defaults,
            nodes,
        }
    }
}

impl From<Document> for ClusterSpec {
    fn from(mut document: Document) -> Self {
        let of_all = document.driver.take();
        let nodes = document.nodes.iter_mut().map(|node| &mut node.driver);
        for driver in nodes.chain([&mut document.node_defaults.driver]) {
            *driver = DriverName::unless_default(driver.take().or_else(|| of_all.clone()));
        }
        Self {
            name: document.name,
            kubernetes_version: document.kubernetes_version,
            network: document.network,
            api_server: document.api_server,
            certificate_authority: document.certificate_authority,
            extra_config: document.extra_config,
            feature_gates: document.feature_gates,
            taint_control_planes: document.taint_control_planes,
            node_defaults: document.node_defaults,
            nodes: document.nodes,
        }
    }
}

/// Writes a cluster.
pub(crate) fn write(spec: &ClusterSpec) -> String {
    serde_saphyr::to_string(spec).expect("plain values in named fields can be written")
}

/// Reads a cluster.
pub(crate) fn read(text: &str) -> Result<ClusterSpec, SpecError> {
    // The parser's excerpt would name the file `<input>`; our own error has the line.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| malformed(text, &error))
}

fn malformed(text: &str, error: &serde_saphyr::Error) -> SpecError {
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    SpecError::Malformed {
        line,
        column,
        text: Place::line_of(text, line),
        problem: UserMessageFormatter.format_message(error).into_owned(),
    }
}

/// The only valid `apiVersion`.
struct ApiVersion;

impl Serialize for ApiVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(API_VERSION)
    }
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, |given| match given {
            API_VERSION => Ok(Self),
            other => Err(SpecError::ApiVersion { given: other.to_owned(), known: API_VERSION }),
        })
    }
}

/// The only valid `kind`.
struct Kind;

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(KIND)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, |given| match given {
            KIND => Ok(Self),
            other => Err(SpecError::Kind { given: other.to_owned(), known: KIND }),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\n";

    fn reported(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    fn full() -> ClusterSpec {
        let text = "\
network:
  subnet: 10.213.4.0/24
apiServer:
  names: ['*.example.org']
  ips: [192.168.1.7]
extraConfig:
- kubelet.max-pods=50
featureGates: {B: false, A: true}
nodeDefaults: {memory: 1g, labels: {a: b}, mounts: ['/a:/b']}
nodes:
- {name: demo, role: control-plane, cpus: 2, memory: 3072, disk: 20g}
- {name: demo-m02, role: worker, memory: max, power: stopped}
";
        read(&format!("{HEAD}{text}")).unwrap()
    }

    #[test]
    fn a_file_has_its_kind_first_and_no_empty_lists() {
        let spec = read(&format!("{HEAD}nodes:\n- {{name: demo, role: control-plane}}\n")).unwrap();
        insta::assert_snapshot!(write(&spec), @"
        apiVersion: flotilla.dev/v1
        kind: Cluster
        name: demo
        kubernetesVersion: v1.37.1
        network:
          nodePodPrefix: 24
          serviceSubnet: 10.96.0.0/12
          dnsDomain: cluster.local
          cni: flotilla
        nodes:
        - name: demo
          role: control-plane
          cpus: no-limit
          memory: no-limit
          state: running
        ");
    }

    #[test]
    fn a_full_file_reads_as_a_person_would_write_it() {
        insta::assert_snapshot!(write(&full()), @r#"
        apiVersion: flotilla.dev/v1
        kind: Cluster
        name: demo
        kubernetesVersion: v1.37.1
        network:
          subnet: 10.213.4.0/24
          nodePodPrefix: 24
          serviceSubnet: 10.96.0.0/12
          dnsDomain: cluster.local
          cni: flotilla
        apiServer:
          names:
          - "*.example.org"
          ips:
          - "192.168.1.7"
        extraConfig:
        - kubelet.max-pods=50
        featureGates:
          A: true
          B: false
        nodeDefaults:
          memory: 1Gi
          labels:
            a: b
          mounts:
          - /a:/b
        nodes:
        - name: demo
          role: control-plane
          cpus: 2
          memory: 3Gi
          disk: 20Gi
          state: running
        - name: demo-m02
          role: worker
          cpus: no-limit
          memory: max
          state: stopped
        "#);
    }

    #[test]
    fn what_was_written_reads_back() {
        let spec = full();
        assert_eq!(read(&write(&spec)).unwrap(), spec);
    }

    #[test]
    fn another_version_or_kind_is_refused() {
        let bad = [
            "apiVersion: flotilla.dev/v2\n",
            "apiVersion: flotilla.dev/v1\nkind: Pod\n",
            "kind: Cluster\nname: demo\n",
            "",
        ];
        insta::assert_snapshot!(bad.map(reported).join("\n"), @r#"
        line 1, column 13 (`apiVersion: flotilla.dev/v2`): unknown apiVersion "flotilla.dev/v2": expected "flotilla.dev/v1"
        line 2, column 7 (`kind: Pod`): unknown kind "Pod": expected "Cluster"
        line 2, column 1 (`name: demo`): missing field `apiVersion`
        line 1, column 1 (``): unexpected end of file
        "#);
    }

    #[test]
    fn errors_tell_line_column_and_the_line() {
        let bad = [
            "node: []",
            "nodes:\n- name: demo\n  roles: worker",
            "nodes:\n- name: My_Node",
            "nodes:\n- name: demo\n  role: boss",
            "nodes:\n- name: demo\n  cpus: 0",
            "nodes:\n- name: demo\n  memory: 3x",
            "nodes:\n- name: demo\n  memory: [1]",
            "network:\n  subnet: 10.0.0.5/24",
            "network:\n  nodePodPrefix: big",
            "extraConfig: [kublet.a=b]",
            "featureGates: {A: maybe}",
            "featureGates: {A B: true}",
            "apiServer:\n  ips: [1.2.3]",
            "name: again",
            "nodes: [",
            "nodes: []\n---\nnodes: []",
        ];
        let reported = bad.map(|text| reported(&format!("{HEAD}{text}\n")));
        insta::assert_snapshot!(reported.join("\n"), @r#"
        line 5, column 1 (`node: []`): unknown field `node`, expected one of apiVersion, kind, name, kubernetesVersion, driver, network, apiServer, certificateAuthority, extraConfig, featureGates, taintControlPlanes, nodeDefaults, nodes
        line 7, column 3 (`roles: worker`): unknown field `roles`, expected one of name, role, driver, isolation, cpus, memory, disk, labels, taints, kubernetesVersion, bundle, extraConfig, featureGates, kubelet, mounts, ports, power, state
        line 6, column 9 (`- name: My_Node`): node name "My_Node" contains 'M': only a-z, 0-9 and '-' are allowed; try `my-node`
        line 7, column 9 (`role: boss`): unknown variant `boss`, expected one of control-plane, worker
        line 7, column 9 (`cpus: 0`): "0" is not a number of CPUs; write a whole number, `max` or `no-limit`
        line 7, column 11 (`memory: 3x`): "3x" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
        line 7, column 3 (`memory: [1]`): invalid type: sequence, expected text or a number
        line 6, column 11 (`subnet: 10.0.0.5/24`): 10.0.0.5/24 is an address with a prefix, not a range; write `10.0.0.0/24`
        line 6, column 18 (`nodePodPrefix: big`): invalid u8
        line 5, column 15 (`extraConfig: [kublet.a=b]`): unknown component "kublet": expected one of kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy; try `kubelet`
        line 5, column 19 (`featureGates: {A: maybe}`): invalid boolean
        line 5, column 15 (`featureGates: {A B: true}`): "A B" is not a feature gate
        line 6, column 9 (`ips: [1.2.3]`): invalid IP address syntax
        line 5, column 1 (`name: again`): duplicate mapping key: name not allowed here
        line 5, column 8 (`nodes: [`): unclosed bracket '['
        line 7, column 1 (`nodes: []`): only single YAML document expected but multiple found
        "#);
    }

    proptest! {
        #[test]
        fn any_text_is_a_cluster_or_an_error(text in "([a-zN-]{0,8}[:\\[\\]{},\n \"'&*|]{0,3}){0,12}") {
            drop(read(&text));
            drop(read(&format!("{HEAD}{text}")));
        }
    }
}
