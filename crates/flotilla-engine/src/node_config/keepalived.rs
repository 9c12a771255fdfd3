//! The configuration of keepalived. All configurations of a cluster are the same but for the priority, so nothing changes on the
//! others when one more control plane comes. Nobody takes the address from a control plane that has it and is well.

use flotilla_core::cluster::API_IS_COMING;
use ipnet::Ipv4Net;

/// A server that does not listen is noticed at once; one that is slow or not well is asked a second time before it counts. A
/// keepalived that ends says so; of one that is killed the others hear nothing for three intervals.
pub(super) fn render(address: Ipv4Net, port: u16, link: &str, number: u32) -> String {
    // Who is next is clear by far enough that the others hear of it before they try themselves.
    let priority = 250_u32.saturating_sub(number.saturating_mul(10)).max(1);
    let ask = "curl --silent --fail --insecure --max-time 2 --retry 1 --output /dev/null";
    let is_coming = format!("find {API_IS_COMING} -mmin -1 2>/dev/null | grep -q .");
    format!(
        "\
global_defs {{
    vrrp_version 3
    vrrp_garp_master_refresh 5
    script_user root
    enable_script_security
}}

vrrp_script api {{
    script \"/bin/sh -c '{ask} https://127.0.0.1:{port}/livez && rm -f {API_IS_COMING} || {is_coming}'\"
    interval 1
    timeout 8
    fall 1
    rise 1
}}

vrrp_instance api {{
    state BACKUP
    nopreempt
    interface {link}
    virtual_router_id 1
    priority {priority}
    advert_int 0.3
    virtual_ipaddress {{
        {address} dev {link}
    }}
    track_script {{
        api
    }}
}}
"
    )
}
