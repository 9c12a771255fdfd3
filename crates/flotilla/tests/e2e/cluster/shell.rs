//! `flotilla ssh`: as if the program ran here, and as if the person sat there.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Cluster, PATIENCE, Terminal, feed, wait_until};

pub(super) fn bytes_and_exit_codes_are_passed_on(cluster: &Cluster) {
    // Every byte there is, and more of them than a pipe holds.
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let output = feed(&mut cluster.command(&["ssh", "--", "cat; echo apart >&2; exit 23"]), &bytes);
    assert_eq!(output.status.code(), Some(23));
    assert!(output.stdout == bytes, "{} bytes came back of {}", output.stdout.len(), bytes.len());
    assert_eq!(output.stderr, b"apart\n");
    // Several words are one line for the shell, like ssh.
    assert_eq!(cluster.succeed(&["ssh", "--", "echo", "$((6 *", "7))"]), "42\n");
    assert_eq!(cluster.run(&["ssh", "--", "kill -TERM $$"]).status.code(), Some(128 + 15));
    assert_eq!(cluster.run(&["ssh", "--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(cluster.ssh("hostname"), cluster.name);
    // Both outputs in one place come in their order.
    let mut command = cluster.command(&["ssh", "--", "for i in $(seq 500); do echo $i; echo $i >&2; done"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    drop(command);
    let lines: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    assert_eq!(lines, (1..=500).flat_map(|i| [i.to_string(), i.to_string()]).collect::<Vec<_>>());
    assert!(child.wait().unwrap().success());
    // What is left behind in the node holds nobody up.
    let output = cluster.run(&["ssh", "--", "sleep 1000 & echo $! > /run/left; echo left"]);
    assert_eq!(output.stdout, b"left\n");
    cluster.ssh("kill $(cat /run/left)");
}

/// Even one that ignores every signal that can be, with what it started.
pub(super) fn a_program_ends_with_ssh(cluster: &Cluster) {
    let mut interrupted = stubborn(cluster);
    // The second one ends it. Signals that come at once count as one, so a busy host may need more.
    let ended = wait_until("ssh ends", PATIENCE, || {
        send(&interrupted, Signal::INT);
        interrupted.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
    });
    assert_eq!(ended.code(), Some(130));
    is_gone(cluster);
    let killed = stubborn(cluster);
    send(&killed, Signal::KILL);
    assert_eq!(status(killed), None);
    is_gone(cluster);
}

/// A program that cannot be asked to end, once it runs.
fn stubborn(cluster: &Cluster) -> Child {
    let line = "trap '' HUP INT TERM; sleep 1000 & echo $! > /run/left; echo ready; wait; wait";
    let mut child = cluster.command(&["ssh", "--", line]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn status(mut child: Child) -> Option<i32> {
    let ended = || child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned());
    wait_until("ssh ends", PATIENCE, ended).code()
}

fn is_gone(cluster: &Cluster) {
    wait_until("the program ends", PATIENCE, || match cluster.try_ssh("kill -0 $(cat /run/left)") {
        Ok(_) => Err("it runs".to_owned()),
        Err(_) => Ok(()),
    });
}

pub(super) fn a_terminal_is_left_as_it_was(cluster: &Cluster) {
    for signal in [None, Some(Signal::TERM)] {
        let shell = Terminal::run(&cluster.command(&["ssh"]), (24, 80));
        let before = shell.modes();
        shell.wait_for(&format!("root@{}", cluster.name));
        assert_ne!(shell.modes(), before, "keys go to the node");
        match signal {
            None => shell.keys("exit\r"),
            Some(signal) => shell.send(signal),
        }
        let (status, seen) = shell.end_with(|shell| assert_eq!(shell.modes(), before));
        assert_eq!(status, Some(signal.map_or(0, |signal| 128 + signal.as_raw())), "{seen}");
    }
}

pub(super) fn a_terminal_is_one_in_the_node(cluster: &Cluster) {
    let (status, seen) = Terminal::run(&cluster.command(&["ssh", "--", "tty && exit 5"]), (24, 80)).end();
    assert_eq!(status, Some(5), "{seen}");
    assert!(seen.contains("/dev/pts/"), "{seen}");

    let shell = Terminal::run(&cluster.command(&["ssh"]), (33, 77));
    shell.wait_for(&format!("root@{}", cluster.name));
    shell.keys("echo it is $(stty size)\r");
    shell.wait_for("it is 33 77");
    shell.resize((20, 99));
    // The signal that says so may be slower than the keys.
    shell.keys_until("echo now $(stty size)\r", "now 20 99");
    // Ctrl-C ends what runs in the shell, and not the shell.
    shell.keys("echo asleep: $((40 + 2)); sleep 1000\r");
    shell.wait_for("asleep: 42");
    shell.keys("\x03");
    shell.keys("echo awake: $((40 + 3))\r");
    shell.wait_for("awake: 43");
    shell.keys("exit 7\r");
    let (status, seen) = shell.end();
    assert_eq!(status, Some(7), "{seen}");
}
