use super::*;

fn parse(line: &str) -> Result<Call, SystemctlError> {
    Call::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

/// Runs without a PID 1 to ask.
fn run(line: &str) -> (String, i32) {
    let mut out = Vec::new();
    let status = parse(line).and_then(|call| call.run(Path::new("/not/there"), &mut out));
    let status = status.unwrap_or_else(|error| error.exit_status());
    (String::from_utf8(out).unwrap(), status)
}

#[test]
fn options_may_stand_anywhere() {
    let expected = Call { verb: Verb::Status, units: vec!["kubelet".into()], quiet: true, now: false };
    assert_eq!(parse("--no-pager status -q kubelet").unwrap(), expected);
    assert_eq!(parse("status kubelet --quiet --full").unwrap(), expected);
    assert!(parse("enable --now kubelet").unwrap().now);
}

#[test]
fn what_is_not_understood_is_named() {
    let said = |line| parse(line).unwrap_err().to_string();
    assert_eq!(said("--frobnicate stop kubelet"), "unknown option --frobnicate");
    assert_eq!(said("frobnicate"), "unknown command frobnicate");
    assert_eq!(said("stop"), "the name of a service is missing");
    assert!(said("").contains("daemon-reload"));
}

#[test]
fn what_has_no_effect_succeeds() {
    for line in ["daemon-reload", "enable kubelet", "disable kubelet.service"] {
        assert_eq!(run(line), (String::new(), 0), "{line}");
    }
}

#[test]
fn without_pid_1_nothing_can_be_said_of_a_service() {
    assert_eq!(run("is-active kubelet"), (String::new(), 1));
    assert_eq!(run("is-enabled kubelet"), (String::new(), 1));
    assert_eq!(run("stop kubelet"), (String::new(), 1));
}
