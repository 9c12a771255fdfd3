//! `flotilla ssh`: as if the program ran here, and as if the person sat there.

use crate::lab::{Cluster, Terminal, feed};

pub(super) fn bytes_and_exit_codes_are_passed_on(cluster: &Cluster) {
    // Every byte there is, and more of them than a pipe holds.
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let output = feed(&mut cluster.command(&["ssh", "--", "cat; echo apart >&2; exit 23"]), &bytes);
    assert_eq!(output.status.code(), Some(23));
    assert!(output.stdout == bytes, "{} bytes came back of {}", output.stdout.len(), bytes.len());
    assert_eq!(output.stderr, b"apart\n");
    // Several words are one line for the shell, as ssh has it.
    assert_eq!(cluster.succeed(&["ssh", "--", "echo", "$((6 *", "7))"]), "42\n");
    assert_eq!(cluster.run(&["ssh", "--", "kill -TERM $$"]).status.code(), Some(128 + 15));
    assert_eq!(cluster.run(&["ssh", "--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(cluster.ssh("hostname"), cluster.name);
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
    shell.keys("echo now $(stty size)\r");
    shell.wait_for("now 20 99");
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
