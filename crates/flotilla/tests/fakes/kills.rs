//! A command is killed in each of its calls, before and after the call did its work. The same command again then reaches
//! the end that it reaches undisturbed.

use flotilla_testkit::fake::When;

use super::coverage::{CASES, Case, Kind, ensure, for_all, prepared};

#[test]
fn killed_at_any_call_the_same_command_gets_to_the_same_end() {
    for_all(CASES.iter().filter(|case| case.kind == Kind::Changes), kill_everywhere);
}

fn kill_everywhere(case: &Case) -> Result<(), String> {
    let sound = prepared(case);
    let ran = sound.run(case.line);
    ensure(ran.status == 0, format!("`{}`: {ran}", case.line))?;
    let calls = sound.host.calls.take();
    ensure(!calls.is_empty(), format!("`{}` calls nothing", case.line))?;
    let wanted = sound.found();
    for (nth, call) in (1..).zip(&calls) {
        for when in [When::Before, When::After] {
            let what = format!("`{}` killed {when:?} call {nth}, `{call}`", case.line);
            let world = prepared(case);
            if let Some(ran) = world.run_killed(case.line, nth, when) {
                return Err(format!("{what}: it was not: {ran}"));
            }
            world.host.calls.take();
            let again = world.run(case.line);
            let is_done = again.status == 0 || case.again.is_some_and(|code| again.code() == code);
            ensure(is_done, format!("{what}, and again: {again}"))?;
            let found = world.found();
            ensure(found == wanted, format!("{what}:\n{}", difference(&found, &wanted)))?;
        }
    }
    Ok(())
}

/// The first lines in which two texts differ.
fn difference(found: &str, wanted: &str) -> String {
    let pairs = found.lines().zip(wanted.lines());
    let differ = pairs.filter(|(found, wanted)| found != wanted).take(3);
    let lines: Vec<_> =
        differ.map(|(found, wanted)| format!("  found  {found}\n  wanted {wanted}")).collect();
    lines.join("\n")
}
