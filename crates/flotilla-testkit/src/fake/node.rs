//! What a fake machine's own program answers: `flotilla-init`.

use flotilla_core::{Cmd, ExecOutput, Exit, GuestError};
use flotilla_node_api::{
    CHECK, CONFIGURE, Cgroup, Configured, FAILURE, INIT, NodeConfig, NodeStatus, OLDEST, PROTOCOL, STATUS,
    ServiceSpec, State, UnitStatus,
};
use serde::Serialize;

use super::FakeMachine;

/// That of a node in which all is well.
pub(super) fn status() -> NodeStatus {
    let unit = |unit| UnitStatus { unit, state: State::Active, starts: 1, deaths: 0, last_exit: None };
    NodeStatus {
        protocol: PROTOCOL,
        booted_at: 0,
        up_for_ms: 0,
        cgroup: Cgroup::V2,
        units: ServiceSpec::of_every_node().into_iter().map(|spec| unit(spec.name)).collect(),
        holds_virtual_ip: false,
    }
}

/// The answer, if it is asked anything.
pub(super) fn answer(machine: &FakeMachine, cmd: &Cmd) -> Option<Result<ExecOutput, GuestError>> {
    let (INIT, args) = cmd.argv.split_first().map(|(program, args)| (program.as_str(), args))? else {
        return None;
    };
    let wanted = || serde_json::from_slice::<NodeConfig>(&cmd.stdin).expect("it is given a configuration");
    let configured = |is_changed| {
        let wanted = wanted();
        require_protocol(machine, cmd, wanted.protocol)?;
        let differs = differences(machine, &wanted);
        if is_changed {
            machine.set_config(&wanted);
        }
        Ok(output(&Configured::new(wanted.protocol, differs)))
    };
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [STATUS] => Some(Ok(output(&NodeStatus { protocol: machine.protocol(), ..machine.status() }))),
        [CONFIGURE, CHECK] => Some(configured(false)),
        [CONFIGURE] => Some(configured(true)),
        _ => None,
    }
}

/// Refuses a protocol like a node. Ours understands older ones, others only their own.
fn require_protocol(machine: &FakeMachine, cmd: &Cmd, protocol: u32) -> Result<(), GuestError> {
    let newest = machine.protocol();
    let oldest = if newest == PROTOCOL { OLDEST } else { newest };
    if (oldest..=newest).contains(&protocol) {
        return Ok(());
    }
    let why = format!(
        "{FAILURE}this node was booted by another version of flotilla: it understands protocol {newest}, not \
         {protocol}"
    );
    let (node, argv) = (flotilla_core::Machine::name(machine).to_string(), cmd.argv.join(" "));
    Err(GuestError::Failed { node, argv, exit: Exit::Code(1), tail: vec![why] })
}

/// Nothing differs in a machine that was never booted: tests make it by hand.
fn differences(machine: &FakeMachine, wanted: &NodeConfig) -> Vec<String> {
    let protocol = wanted.protocol;
    let config = machine.config();
    // Services change at a boot only.
    if config.is_none_or(|config| config.in_protocol(protocol) == wanted.in_protocol(protocol)) {
        Vec::new()
    } else {
        vec!["the configuration".to_owned()]
    }
}

fn output(answer: &impl Serialize) -> ExecOutput {
    let stdout = serde_json::to_vec(answer).expect("it is plain data");
    ExecOutput { stdout, stderr: Vec::new() }
}
