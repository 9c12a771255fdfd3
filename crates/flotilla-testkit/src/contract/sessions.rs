//! What must hold of programs in machines that somebody talks to.

use std::io;
use std::time::Duration;

use flotilla_core::session::Output;
use flotilla_core::{Cluster, Cmd, Exit, GuestError, Machine, Session, Signal, TtySize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Case, Subject, cases};
use crate::fake::{Act, Answer};

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    streams_carry_every_byte_both_ways,
    a_signal_is_no_exit_code,
    signals_reach_the_program,
    a_program_that_is_not_there_cannot_be_opened,
    a_terminal_has_a_size_that_changes,
    a_terminal_is_all_a_program_has,
    the_end_of_input_reaches_a_program_on_a_terminal,
    what_a_program_leaves_behind_holds_no_stream,
    a_program_ends_with_its_session,
];

const SMALL: TtySize = TtySize { rows: 20, columns: 99 };
const LARGE: TtySize = TtySize { rows: 33, columns: 77 };
/// No part of a case takes as long, however busy the host is.
const LIMIT: Duration = Duration::from_mins(1);

const ECHO: &str = "cat; echo apart >&2; exit 23";
const KILLED: &str = "kill -KILL $$";
const TRAPS: &str = "trap 'echo caught; exit 5' TERM; echo ready; sleep 1000 & wait";
const MISSING: &str = "/no/such/program";
const RESIZED: &str = "trap 'stty size; exit 4' WINCH; stty size; while :; do sleep 0.1; done";
const ON_TERMINAL: &str = "test -t 0 && test -t 1 && test -t 2 && echo all three >&2";
const READS: &str = "cat; echo the end";
const LEAVES: &str = "sleep 1000 & echo $! > /run/contract; echo done";
const IGNORES: &str = "trap '' HUP INT TERM; sleep 1000 & echo $! > /run/contract; echo ready; wait; wait";
const CHILD_RUNS: &str = "kill -0 $(cat /run/contract)";
const END_CHILD: &str = "kill -KILL $(cat /run/contract)";

/// What programs do in the cases, for machines that run none.
pub const PROGRAMS: &[(&str, &[Act])] = &[
    (ECHO, &[Act::Echo, Act::Complain("apart\n"), Act::End(Exit::Code(23))]),
    (KILLED, &[Act::End(Exit::Signal(9))]),
    (
        TRAPS,
        &[Act::Say("ready\n"), Act::Await(Signal::Terminate), Act::Say("caught\n"), Act::End(Exit::Code(5))],
    ),
    (MISSING, &[Act::Missing]),
    (RESIZED, &[Act::Size, Act::AwaitResize, Act::Size, Act::End(Exit::Code(4))]),
    (ON_TERMINAL, &[Act::Complain("all three\r\n")]),
    (READS, &[Act::Echo, Act::Say("the end\r\n")]),
    (LEAVES, &[Act::Say("done\n")]),
    (IGNORES, &[Act::Say("ready\n"), Act::Hang]),
];

/// What programs answer in the cases.
pub const ANSWERS: &[(&str, Answer)] = &[
    (CHILD_RUNS, Ok("")),
    (CHILD_RUNS, Err("no such process")),
    (CHILD_RUNS, Ok("")),
    (CHILD_RUNS, Err("")),
];

async fn streams_carry_every_byte_both_ways(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let bytes: Vec<u8> = (0..10_u32 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let Session { mut stdin, stdout, stderr, mut program } = open(machine.as_ref(), ECHO, None).await;
    let sent = bytes.clone();
    let sending = tokio::spawn(async move {
        stdin.write_all(&sent).await?;
        stdin.shutdown().await
    });
    let (out, apart) = futures::join!(rest(stdout), rest(stderr));
    sending.await.expect("no panic").expect("it reads all of it");
    assert!(out == bytes, "{} bytes came back of {}", out.len(), bytes.len());
    assert_eq!(String::from_utf8_lossy(&apart), "apart\n");
    assert_eq!(program.wait().await.expect("it ends"), Exit::Code(23));
}

async fn a_signal_is_no_exit_code(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), KILLED, None).await;
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Signal(9));
}

async fn signals_reach_the_program(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), TRAPS, None).await;
    read_until(&mut session.stdout, "ready\n").await;
    session.program.signal(Signal::Terminate).await;
    assert_eq!(String::from_utf8_lossy(&rest(session.stdout).await), "caught\n");
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Code(5));
}

async fn a_program_that_is_not_there_cannot_be_opened(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let error = machine.guest().open(Cmd::new([MISSING]), None).await.expect_err("it is not there");
    let GuestError::Start { source, argv, .. } = &error else { panic!("{error:?}") };
    assert_eq!((source.kind(), argv.as_str()), (io::ErrorKind::NotFound, MISSING));
}

async fn a_terminal_has_a_size_that_changes(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), RESIZED, Some(LARGE)).await;
    read_until(&mut session.stdout, "33 77\r\n").await;
    session.program.resize(SMALL).await;
    read_until(&mut session.stdout, "20 99\r\n").await;
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Code(4));
}

async fn a_terminal_is_all_a_program_has(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), ON_TERMINAL, Some(SMALL)).await;
    let (out, apart) = futures::join!(rest(session.stdout), rest(session.stderr));
    assert_eq!((String::from_utf8_lossy(&out).as_ref(), apart.as_slice()), ("all three\r\n", &b""[..]));
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Code(0));
}

async fn the_end_of_input_reaches_a_program_on_a_terminal(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), READS, Some(SMALL)).await;
    session.stdin.write_all(b"typed\n").await.expect("it reads");
    session.stdin.shutdown().await.expect("it reads");
    read_until(&mut session.stdout, "the end\r\n").await;
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Code(0));
}

/// What it left would otherwise keep whoever reads for 1000 s.
async fn what_a_program_leaves_behind_holds_no_stream(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let mut session = open(machine.as_ref(), LEAVES, None).await;
    let (out, _) = futures::join!(rest(session.stdout), rest(session.stderr));
    assert_eq!(String::from_utf8_lossy(&out), "done\n");
    assert_eq!(session.program.wait().await.expect("it ends"), Exit::Code(0));
    machine.guest().run(Cmd::sh(CHILD_RUNS)).await.expect("what was left behind runs on");
    machine.guest().run(Cmd::sh(END_CHILD)).await.expect("it can be ended");
}

/// Even one that ignores every signal that can be, with the rest of its process group.
async fn a_program_ends_with_its_session(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    for tty in [None, Some(SMALL)] {
        let mut session = open(machine.as_ref(), IGNORES, tty).await;
        read_until(&mut session.stdout, "ready").await;
        machine.guest().run(Cmd::sh(CHILD_RUNS)).await.expect("it runs");
        drop(session);
        let gone = async {
            while machine.guest().run(Cmd::sh(CHILD_RUNS)).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("the program and its group end");
    }
}

async fn open(machine: &dyn Machine, line: &str, tty: Option<TtySize>) -> Session {
    machine.guest().open(Cmd::sh(line), tty).await.expect("it can be opened")
}

/// Reads to the end.
async fn rest(mut stream: Output) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await;
    read.expect("the stream ends").expect("the stream can be read");
    bytes
}

async fn read_until(stream: &mut Output, text: &str) {
    let mut seen = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(text) {
            match stream.read_u8().await {
                Ok(byte) => seen.push(byte),
                Err(error) => panic!("{error}, and no {text:?} in {:?}", String::from_utf8_lossy(&seen)),
            }
        }
    };
    tokio::time::timeout(LIMIT, reading).await.expect("it prints in time");
}
