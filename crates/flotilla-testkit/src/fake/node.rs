//! What a fake machine's own program answers: `flotilla-init`.

use flotilla_core::{Cmd, ExecOutput, GuestError};
use flotilla_node_api::{
    CHECK, CONFIGURE, Cgroup, Configured, INIT, NodeConfig, NodeStatus, PROTOCOL, STATUS, State, Unit,
    UnitStatus,
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
        units: Unit::ALL.map(unit).to_vec(),
        holds_virtual_ip: false,
    }
}

/// The answer, if it is asked anything.
pub(super) fn answer(machine: &FakeMachine, cmd: &Cmd) -> Option<Result<ExecOutput, GuestError>> {
    let (INIT, args) = cmd.argv.split_first().map(|(program, args)| (program.as_str(), args))? else {
        return None;
    };
    let wanted = || serde_json::from_slice::<NodeConfig>(&cmd.stdin).expect("it is given a configuration");
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [STATUS] => Some(Ok(output(&machine.status()))),
        [CONFIGURE, CHECK] => Some(Ok(output(&Configured::new(differences(machine, &wanted()))))),
        [CONFIGURE] => {
            let differs = differences(machine, &wanted());
            machine.set_config(&wanted());
            Some(Ok(output(&Configured::new(differs))))
        }
        _ => None,
    }
}

/// Nothing differs in a machine that was never booted: tests make it by hand.
fn differences(machine: &FakeMachine, wanted: &NodeConfig) -> Vec<String> {
    let config = machine.config();
    if config.is_none_or(|config| config == *wanted) {
        Vec::new()
    } else {
        vec!["the configuration".to_owned()]
    }
}

fn output(answer: &impl Serialize) -> ExecOutput {
    let stdout = serde_json::to_vec(answer).expect("it is plain data");
    ExecOutput { stdout, stderr: Vec::new() }
}
