//! The `network` section of the file.

use ipnet::Ipv4Net;

use super::places::{Part, Places};
use super::reader::Reader;
use super::tree::Tree;
use crate::extra::POD_NETWORK_CIDR;
use crate::network::parse_range;
use crate::{Cni, Component, ExtraOption, NetworkSpec, SpecError};

pub(super) const KEYS: [&str; 6] =
    ["subnet", "podSubnet", "nodePodPrefix", "serviceSubnet", "dnsDomain", "cni"];

/// The settings that the file has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileNetwork {
    subnet: Option<Ipv4Net>,
    pod_subnet: Option<Ipv4Net>,
    node_pod_prefix: Option<u8>,
    service_subnet: Option<Ipv4Net>,
    dns_domain: Option<String>,
    cni: Option<Cni>,
}

impl FileNetwork {
    pub(super) fn read(reader: &mut Reader<'_>, places: &mut Places, tree: Option<&Tree>) -> Self {
        let Some(tree) = tree else { return Self::default() };
        let fields = reader.fields(tree, &KEYS);
        places.note(reader, &Part::Cluster, &fields);
        let field = |key: &str| fields.get(key).copied();
        Self {
            subnet: reader.parsed(field("subnet"), parse_range),
            pod_subnet: reader.parsed(field("podSubnet"), parse_range),
            node_pod_prefix: reader.parsed(field("nodePodPrefix"), |given| {
                let digits = given.strip_prefix('/').unwrap_or(given);
                digits.parse().map_err(|_| SpecError::Number { given: given.to_owned(), most: 32 })
            }),
            service_subnet: reader.parsed(field("serviceSubnet"), parse_range),
            dns_domain: reader.parsed(field("dnsDomain"), |given| Ok(given.to_owned())),
            cni: reader.parsed(field("cni"), str::parse),
        }
    }

    /// kubeadm's option `pod-network-cidr` is the same as `podSubnet`, as on the command line.
    pub(super) fn take_option(&mut self, options: &[ExtraOption]) -> Result<(), SpecError> {
        let is_range = |option: &&ExtraOption| {
            option.component() == Component::Kubeadm && option.key() == POD_NETWORK_CIDR
        };
        let Some(option) = options.iter().find(is_range) else { return Ok(()) };
        let range = parse_range(option.value())?;
        match self.pod_subnet.replace(range) {
            Some(subnet) if subnet != range => {
                self.pod_subnet = Some(subnet);
                Err(SpecError::PodSubnetTwice { option: option.clone(), subnet })
            }
            _ => Ok(()),
        }
    }

    /// Whether it names the range of the services.
    pub(super) fn names_services(&self) -> bool {
        self.service_subnet.is_some()
    }

    /// The complete network: omitted settings stay unchanged.
    pub(super) fn over(&self, known: &NetworkSpec) -> NetworkSpec {
        NetworkSpec {
            subnet: self.subnet.or(known.subnet),
            pod_subnet: self.pod_subnet.or(known.pod_subnet),
            node_pod_prefix: self.node_pod_prefix.unwrap_or(known.node_pod_prefix),
            service_subnet: self.service_subnet.unwrap_or(known.service_subnet),
            dns_domain: self.dns_domain.clone().unwrap_or(known.dns_domain.clone()),
            cni: self.cni.clone().unwrap_or(known.cni.clone()),
        }
    }
}
