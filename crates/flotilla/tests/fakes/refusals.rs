//! What is refused is refused before anything is touched, with a code of its own.

use super::coverage::{CASES, REFUSED, ensure, for_all, prepared};
use super::world::World;

#[test]
fn a_refused_command_changes_nothing() {
    for_all(CASES.iter(), |case| {
        let (line, code) = case.refused;
        let world = prepared(case);
        let before = world.found();
        let ran = world.run(line);
        ensure(ran.status != 0 && ran.code() == code, format!("`{line}`, not {code:?}: {ran}"))?;
        ensure(world.found() == before, format!("`{line}` has changed something"))
    });
}

#[test]
fn without_root_nothing_is_touched() {
    for_all(CASES.iter(), |case| {
        let mut world = prepared(case);
        let before = world.found();
        world.is_root = false;
        let ran = world.run(case.line);
        let calls = world.host.calls.take();
        world.is_root = true;
        let is_refused = ran.code() == "HOST_PERMISSION" && calls.is_empty();
        ensure(ran.status == 0 || is_refused, format!("`{}`: {calls:?} {ran}", case.line))?;
        ensure(world.found() == before, format!("`{}` has changed something", case.line))
    });
}

#[test]
fn commands_that_are_always_refused_ask_nothing() {
    let world = World::after(&["start --nodes 2"]);
    for (line, code) in REFUSED {
        let ran = world.run(line);
        assert_eq!(ran.code(), *code, "{ran}");
        assert_eq!(world.host.calls.take(), [""; 0], "{line}");
    }
}
