//! The names of the host in the cluster's DNS.

use std::net::Ipv4Addr;

use flotilla_core::cluster::HOST_NAMES;

/// The Corefile with the host's names added; none if it has them, or has no place for them.
///
/// They are inserted before `forward`, so that no upstream is asked. A user's Corefile without `forward` is not
/// changed.
pub(crate) fn with_host_names(corefile: &str, gateway: Ipv4Addr) -> Option<String> {
    if HOST_NAMES.iter().all(|name| corefile.contains(name)) {
        return None;
    }
    let is_forward = |line: &str| line.trim_start().starts_with("forward ");
    let forward = corefile.lines().find(|line| is_forward(line))?;
    let indent = &forward[..forward.len() - forward.trim_start().len()];
    let names = HOST_NAMES.join(" ");
    let block =
        format!("{indent}hosts {{\n{indent}   {gateway} {names}\n{indent}   fallthrough\n{indent}}}\n");
    Some(corefile.replacen(forward, &format!("{block}{forward}"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubeadm v1.37 writes it, shortened.
    const COREFILE: &str = "\
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
}
";

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);

    #[test]
    fn the_host_is_found_before_the_upstreams_are_asked() {
        insta::assert_snapshot!(with_host_names(COREFILE, GATEWAY).unwrap(), @r"
        .:53 {
            errors
            kubernetes cluster.local in-addr.arpa ip6.arpa {
               pods insecure
               fallthrough in-addr.arpa ip6.arpa
            }
            prometheus :9153
            hosts {
               10.213.0.1 host.flotilla.internal host.minikube.internal
               fallthrough
            }
            forward . /etc/resolv.conf {
               max_concurrent 1000
            }
            cache 30
        }
        ");
    }

    #[test]
    fn names_that_are_there_are_not_added_again() {
        let once = with_host_names(COREFILE, GATEWAY).unwrap();
        assert_eq!(with_host_names(&once, GATEWAY), None);
    }

    #[test]
    fn a_corefile_of_somebodys_own_is_left_alone() {
        assert_eq!(with_host_names(".:53 {\n    whoami\n}\n", GATEWAY), None);
    }
}
