use std::time::Duration;

use flotilla_core::{Cmd, Exit, Guest, Signal};
use flotilla_testkit::fake::{Act, FakeMachine};

use super::*;

/// A person who sends these signals to a program that does this; with a terminal or without. Gives the status and what was
/// printed.
async fn signalled(acts: &'static [Act], signals: &[Signal], is_raw: bool) -> (u8, String) {
    let machine = FakeMachine::new(&[], &[]);
    machine.programs().add("it", acts);
    let session = machine.open(Cmd::new(["it"]), None).await.unwrap();
    let (sender, came) = mpsc::channel(signals.len());
    for signal in signals {
        sender.send(Came::Signal(*signal)).await.unwrap();
    }
    let console = Console::in_memory([]);
    let passing = pass_on(&console, session, Signals::from(came), (is_raw, Typing::Ours));
    let status = tokio::time::timeout(Duration::from_mins(1), passing).await.unwrap().unwrap();
    (status, console.captured().stdout)
}

#[tokio::test]
async fn the_first_signal_is_the_programs_to_handle() {
    let handles = &[Act::Await(Signal::Interrupt), Act::Say("caught"), Act::End(Exit::Code(5))];
    assert_eq!(signalled(handles, &[Signal::Interrupt], false).await, (5, "caught".to_owned()));
    let dies = &[Act::Hang];
    assert_eq!(signalled(dies, &[Signal::Interrupt], false).await.0, 130);
    assert_eq!(signalled(dies, &[Signal::Terminate], false).await.0, 143);
}

#[tokio::test]
async fn the_second_signal_ends_a_program_that_ignores_everything() {
    assert_eq!(signalled(&[Act::Ignore], &[Signal::Interrupt, Signal::Interrupt], false).await.0, 130);
}

/// Ctrl-C is a key there: what comes as a signal is from someone who wants us gone.
#[tokio::test]
async fn on_a_terminal_a_signal_ends_us() {
    assert_eq!(signalled(&[Act::Ignore], &[Signal::Hangup], true).await.0, 129);
}

/// What a session that says this shows.
async fn shown(text: &'static str, escape: Option<Escape>) -> String {
    let machine = FakeMachine::new(&[], &[]);
    machine.programs().add("it", vec![Act::Say(text), Act::End(Exit::Code(0))].leak());
    let session = machine.open(Cmd::new(["it"]), None).await.unwrap();
    let console = Console::in_memory([]);
    show(session.stdout, console.stdout().unwrap(), escape).await.unwrap();
    console.captured().stdout
}

#[tokio::test]
async fn what_a_node_says_is_made_visible_for_who_only_looks() {
    let text = "a \x1b]0;title\x07 b\n";
    assert_eq!(shown(text, None).await, text);
    assert_eq!(shown(text, Some(Escape::default())).await, "a \\x1b]0;title\\x07 b\n");
}
