//! What nodes of older protocols read and answer. Their types stay here as they were.

#![expect(clippy::unwrap_used, reason = "what tests share is not seen as part of a test")]

use flotilla_node_api::{
    Content, Link, NodeConfig, NodeFile, NodeStatus, OLDEST, PROTOCOL, ServiceSpec, Unit, VirtualIp,
    understands,
};

/// Protocol 1, as nodes have it that flotilla 6d68dcf booted.
mod v1 {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use ipnet::Ipv4Net;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct NodeConfig {
        pub(crate) protocol: u32,
        pub(crate) hostname: String,
        pub(crate) link: Link,
        pub(crate) routes: Option<PodRoutes>,
        pub(crate) virtual_ip: VirtualIp,
        pub(crate) files: BTreeMap<String, NodeFile>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct Link {
        pub(crate) name: String,
        pub(crate) address: Ipv4Net,
        pub(crate) gateway: Ipv4Addr,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct PodRoutes {
        pub(crate) within: Ipv4Net,
        pub(crate) via: BTreeMap<Ipv4Net, Ipv4Addr>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum VirtualIp {
        None,
        Assigned(Ipv4Net),
        Keepalived { address: Ipv4Net, config: String },
    }

    #[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct NodeFile {
        pub(crate) text: String,
        pub(crate) always: bool,
    }
}

/// What such a node answers to `flotilla-init status`.
const STATUS_1: &str = r#"{"protocol":1,"booted_at":1700000000,"up_for_ms":61000,"cgroup":"v2","units":[
    {"unit":"containerd","state":"active","starts":1,"deaths":0,"last_exit":null},
    {"unit":"kubelet","state":"activating","starts":3,"deaths":2,"last_exit":"exit status 1"},
    {"unit":"keepalived","state":"activating","starts":0,"deaths":0,"last_exit":null}],
    "holds_virtual_ip":true}"#;

fn config() -> NodeConfig {
    let bytes = NodeFile { content: Content::Bytes(vec![0xff]), ..NodeFile::at_boot("") };
    let files = [
        ("/etc/hosts", NodeFile::always("127.0.0.1 localhost\n")),
        ("/etc/flotilla/agent.key", NodeFile::at_boot("secret").private()),
        ("/etc/flotilla/agent.bin", bytes),
    ];
    NodeConfig {
        protocol: PROTOCOL,
        hostname: "demo".to_owned(),
        link: Link {
            name: "eth0".to_owned(),
            mtu: Some(1420),
            address: "10.213.0.2/24".parse().unwrap(),
            gateway: "10.213.0.1".parse().unwrap(),
        },
        routes: None,
        virtual_ip: VirtualIp::Keepalived {
            address: "10.213.0.254/32".parse().unwrap(),
            config: "one\n".to_owned(),
        },
        files: files.map(|(path, file)| (path.to_owned(), file)).into(),
        services: ServiceSpec::of_every_node(),
    }
}

#[test]
fn a_message_comes_back_as_it_was() {
    let text = serde_json::to_string(&config()).unwrap();
    assert_eq!(serde_json::from_str::<NodeConfig>(&text).unwrap(), config());
}

#[test]
fn a_node_of_protocol_1_reads_what_it_knows_and_gets_no_file_that_it_would_show_to_everybody() {
    let text = serde_json::to_string(&config().in_protocol(1)).unwrap();
    let read: v1::NodeConfig = serde_json::from_str(&text).unwrap();
    assert_eq!((read.protocol, read.hostname.as_str()), (1, "demo"));
    assert_eq!(read.link.address, config().link.address);
    assert!(matches!(&read.virtual_ip, v1::VirtualIp::Keepalived { config, .. } if config == "one\n"));
    let file = v1::NodeFile { text: "127.0.0.1 localhost\n".to_owned(), always: true };
    assert_eq!(read.files, [("/etc/hosts".to_owned(), file)].into());
}

#[test]
fn the_message_of_a_host_of_protocol_1_is_understood() {
    let text = serde_json::to_string(&config().in_protocol(1)).unwrap();
    let theirs: v1::NodeConfig = serde_json::from_str(&text).unwrap();
    let read: NodeConfig = serde_json::from_str(&serde_json::to_string(&theirs).unwrap()).unwrap();
    let link = Link { mtu: None, ..config().link };
    assert_eq!(read, NodeConfig { link, ..config().in_protocol(1) });
}

#[test]
fn the_status_of_a_node_of_protocol_1_is_understood() {
    let status: NodeStatus = serde_json::from_str(STATUS_1).unwrap();
    assert!(understands(status.protocol) && status.holds_virtual_ip);
    assert!(status.is_active(&Unit::CONTAINERD) && !status.is_active(&Unit::KUBELET));
    assert_eq!(status.deaths(&Unit::KUBELET), 2);
    assert_eq!(status.unit(&Unit::named("agent")), None);
}

#[test]
fn neither_older_nor_newer_protocols_are_understood() {
    let all = [OLDEST - 1, OLDEST, PROTOCOL, PROTOCOL + 1].map(understands);
    assert_eq!(all, [false, true, true, false]);
}
