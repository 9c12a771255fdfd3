//! What the screen needs to know about an error beyond its text.

use flotilla_spec::ClusterName;

/// A stable name for a kind of failure, `AREA_WHAT`, and the exit status that goes with it.
///
/// Exit statuses follow minikube's scheme, because people have scripts: tens by layer (10 program, 20 resources,
/// 30 host, 40 internet, 50 driver, 70 network, 80 guest), ones by kind (0 error, 1 conflict, 2 time-out, 4 usage,
/// 5 not found, 6 unsupported, 7 permission, 8 configuration, 9 unavailable).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub exit_status: u8,
}

/// Matched on the type once, in the crate that owns it; the binary has the one renderer.
pub trait Explain: std::error::Error {
    fn code(&self) -> Code;

    /// What the person can do about it, one sentence each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The name of a cluster when none is given.
pub const DEFAULT_CLUSTER: &str = "flotilla";

/// What a command in a hint needs so that it is about this cluster: ` -p NAME`, or nothing for the default one.
pub fn profile_flag(name: &ClusterName) -> String {
    if name.as_ref() == DEFAULT_CLUSTER { String::new() } else { format!(" -p {name}") }
}
