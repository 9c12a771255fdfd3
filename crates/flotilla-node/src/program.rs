//! The program `flotilla-init` in a node: `status`, `configure`, `configure --check`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use flotilla_node_api::{
    CHECK, CONFIGURE, Configured, FAILURE, NodeConfig, Reply, Request, STATUS, understands,
};
use serde::Serialize;

use crate::ask::ask;
use crate::configure::{self, ConfigureError};
use crate::root::Root;

/// Why it could not do its work.
#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error(transparent)]
    Configure(#[from] ConfigureError),
    #[error("cannot ask PID 1")]
    Ask(#[source] io::Error),
    #[error("PID 1 does not say how the node is: {0}")]
    Refused(String),
    #[error("cannot print")]
    Print(#[source] io::Error),
}

/// Runs it, if the arguments (without its name) are some of its own. Gives the exit status.
pub(crate) fn run(args: &[OsString]) -> Option<i32> {
    flotilla_init_in(Path::new("/"), args)
}

/// The same for the node whose root is seen at `root`.
pub fn flotilla_init_in(root: &Path, args: &[OsString]) -> Option<i32> {
    run_in(&Root::new(root), args, &mut io::stdin(), &mut io::stdout())
}

fn run_in(root: &Root, args: &[OsString], input: &mut dyn io::Read, out: &mut dyn Write) -> Option<i32> {
    let args: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let done = match args[..] {
        [STATUS] => status(root, out),
        [CONFIGURE] => configured(root, configure::apply, input, out),
        [CONFIGURE, CHECK] => configured(root, configure::check, input, out),
        _ => return None,
    };
    Some(match done {
        Ok(()) => 0,
        Err(error) => {
            flotilla_linux::machine::tell(FAILURE.trim_end_matches(": "), &error);
            1
        }
    })
}

fn status(root: &Root, out: &mut dyn Write) -> Result<(), ProgramError> {
    match ask(&root.control_socket(), &Request::Node).map_err(ProgramError::Ask)? {
        Reply::Node(status) => print(out, &status),
        other => Err(ProgramError::Refused(format!("{other:?}"))),
    }
}

fn configured(
    root: &Root,
    configure: fn(&Root, &NodeConfig) -> Result<Vec<String>, ConfigureError>,
    input: &mut dyn io::Read,
    out: &mut dyn Write,
) -> Result<(), ProgramError> {
    let unreadable = |error: serde_json::Error| ConfigureError::Read(error.into());
    // Of another version nothing but its number can be relied on.
    let message: serde_json::Value = serde_json::from_reader(input).map_err(unreadable)?;
    let protocol = message["protocol"].as_u64().and_then(|protocol| u32::try_from(protocol).ok());
    if let Some(protocol) = protocol.filter(|protocol| !understands(*protocol)) {
        return Err(ConfigureError::Protocol(protocol).into());
    }
    let config: NodeConfig = serde_json::from_value(message).map_err(unreadable)?;
    print(out, &Configured::new(config.protocol, configure(root, &config)?))
}

fn print(out: &mut dyn Write, answer: &impl Serialize) -> Result<(), ProgramError> {
    let text = serde_json::to_string(answer).map_err(|error| ProgramError::Print(error.into()))?;
    writeln!(out, "{text}").map_err(ProgramError::Print)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_status(args: &[&str], input: &str) -> (Option<i32>, String) {
        let dir = tempfile::tempdir().unwrap();
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        let mut out = Vec::new();
        let status = run_in(&Root::new(dir.path()), &args, &mut input.as_bytes(), &mut out);
        (status, String::from_utf8(out).unwrap())
    }

    #[test]
    fn other_arguments_are_not_its_own() {
        for args in [&[][..], &["start"], &["status", "demo"], &["configure", "--force"]] {
            assert_eq!(exit_status(args, "").0, None, "{args:?}");
        }
    }

    #[test]
    fn without_a_pid_1_or_a_configuration_it_fails() {
        for args in [&["status"][..], &["configure"], &["configure", "--check"]] {
            assert_eq!(exit_status(args, "{}"), (Some(1), String::new()), "{args:?}");
        }
    }
}
