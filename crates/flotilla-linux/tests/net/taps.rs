//! Taps on the real kernel: what a virtual machine is plugged into.

use flotilla_linux::net::{Changed, Net, NetError, Tap};

use crate::links::{BRIDGE, CABLE, OWNER, ensure_bridge};
use crate::support::{in_new_namespace, ip};

const TAP: Tap<'static> = Tap { name: "fl-test-2", alias: "flotilla/test/node-2", bridge: BRIDGE };

#[test]
fn a_tap_is_made_once_and_is_put_into_its_bridge_again() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        assert_eq!(host.ensure_tap(&TAP).unwrap(), Changed::Yes);
        assert_eq!(host.ensure_tap(&TAP).unwrap(), Changed::No);
        let (bridge, tap) =
            (host.find_link(BRIDGE).unwrap().unwrap(), host.find_link(TAP.name).unwrap().unwrap());
        assert_eq!((tap.kind.as_str(), tap.alias.as_str(), tap.mtu), ("tun", TAP.alias, 1400));
        assert!(tap.is_tap() && tap.up && tap.master == Some(bridge.index));
        for damage in ["nomaster", "down", "mtu 1300"] {
            ip(&format!("link set {} {damage}", TAP.name));
            assert_eq!(host.ensure_tap(&TAP).unwrap(), Changed::Yes, "{damage}");
            assert_eq!(host.find_link(TAP.name).unwrap().unwrap(), tap, "{damage}");
        }
        assert_eq!(host.delete_links_of(OWNER, "fl-test-").unwrap().len(), 2);
        assert_eq!(host.find_link(TAP.name).unwrap(), None, "it goes with its owner");
    });
}

#[test]
fn a_link_of_another_kind_is_not_taken_for_a_tap() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        host.ensure_veth(&CABLE).unwrap();
        let error = host.ensure_tap(&Tap { name: CABLE.name, alias: CABLE.alias, ..TAP }).unwrap_err();
        assert!(matches!(error, NetError::Foreign { .. }), "{error:?}");
        let error = host.ensure_tap(&Tap { name: "fl-a-name-that-is-too-long", ..TAP }).unwrap_err();
        assert!(matches!(error, NetError::FindLink { .. } | NetError::MakeLink { .. }), "{error:?}");
        let error = host.ensure_tap(&Tap { bridge: "fl-none", ..TAP }).unwrap_err();
        assert!(matches!(error, NetError::NoLink { .. }), "{error:?}");
        assert_eq!(host.find_link(TAP.name).unwrap(), None);
    });
}
