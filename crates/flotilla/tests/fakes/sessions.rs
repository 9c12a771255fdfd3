//! `ssh` and `logs`: a program in a node has our streams, and its exit status is ours.

use flotilla_core::Exit;
use flotilla_testkit::fake::{Act, Opened};

use super::world::World;

fn world(key: &'static str, acts: &'static [Act]) -> World {
    let world = World::after(&["start --nodes 2"]);
    world.host.driver.programs.add(key, acts);
    world
}

fn opened(world: &World) -> Opened {
    world.host.driver.programs.opened().pop().unwrap()
}

#[test]
fn ssh_passes_streams_and_the_exit_status_on() {
    let world = world("cat", &[Act::Echo, Act::Complain("apart\n"), Act::End(Exit::Code(23))]);
    let ran = world.run_with_input("ssh m02 -- cat", b"typed");
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (23, "typed", "apart\n"));
    let Opened { node, argv, env, tty } = opened(&world);
    assert_eq!((node.as_str(), argv.join(" ").as_str(), tty), ("flotilla-m02", "bash -c cat", None));
    assert_eq!(env, [("TERM".to_owned(), "xterm".to_owned())]);
}

#[test]
fn a_signal_that_ended_the_program_is_in_the_status() {
    let world = world("cat", &[Act::Say("so far"), Act::End(Exit::Signal(9))]);
    let ran = world.run("ssh -- cat");
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (137, "so far", ""));
}

#[test]
fn more_than_streams_hold_is_passed_on_in_order() {
    let world = world("cat", &[Act::Echo]);
    let text: Vec<u8> = (0..200_000).flat_map(|n: u32| format!("{n}\n").into_bytes()).collect();
    let ran = world.run_with_input("node ssh m02 -- cat", &text);
    assert!(ran.status == 0 && ran.stdout.as_bytes() == text, "{} of {}", ran.stdout.len(), text.len());
}

#[test]
fn logs_have_no_input_and_end_with_what_shows_them() {
    let world = world("tail", &[Act::Echo, Act::Say("a line\n"), Act::End(Exit::Code(1))]);
    let ran = world.run_with_input("logs -f m02 -n 7", b"typed");
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "a line\n"));
    let argv = opened(&world).argv.join(" ");
    assert!(argv.contains("tail -v -n 7 -F"), "{argv}");
}

#[test]
fn a_program_that_cannot_be_run_is_an_error_of_ours() {
    let world = world("bash", &[Act::Missing]);
    let ran = world.run("ssh");
    assert_eq!((ran.status, ran.code()), (80, "GUEST_EXEC"), "{ran}");
}
