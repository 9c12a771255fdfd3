//! What must work inside every machine: programs and files.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use flotilla_core::{Cluster, Cmd, GuestError, Reader};

use super::{Case, Subject, cases, get, node};
use crate::fake::Answer;

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    a_machine_that_is_off_runs_nothing,
    programs_run_with_their_environment_and_input,
    a_program_that_fails_is_an_error_with_its_last_lines,
    a_program_that_writes_too_much_is_an_error,
    files_are_kept_byte_for_byte,
    files_are_copied_in_and_out,
    what_does_not_exist_cannot_be_copied,
];

const GREET: &str = r#"echo "$GREETING, $(cat)""#;
const FAIL: &str = "echo going; echo gone >&2; exit 3";
const COUNT: &str = "seq 1 9";
const MODE: &str = "stat -c %a /etc/contract/file";

/// What the programs of the cases answer, for machines that run none.
pub const ANSWERS: &[(&str, Answer)] = &[
    (GREET, Ok("hello, world\n")),
    (FAIL, Err("gone")),
    (COUNT, Ok("1\n2\n3\n4\n5\n6\n7\n8\n9\n")),
    (MODE, Ok("640\n")),
];

async fn a_machine_that_is_off_runs_nothing(subject: Subject<'_>, cluster: &Cluster) {
    subject.make(cluster).await;
    subject.stop(cluster).await;
    let machines = subject.machines(cluster).await;
    let guest = machines[node(cluster)].guest();
    let errors = [
        guest.run(Cmd::new(["true"])).await.expect_err("nothing runs there"),
        guest.open(Cmd::new(["true"]), None).await.expect_err("nothing runs there"),
        guest.write("/etc/contract", 0o644, b"").await.expect_err("nothing is written there"),
        guest.read("/etc/hostname").await.expect_err("nothing is read there"),
        guest.copy_in(stream(b""), "/etc/contract", 0o644).await.expect_err("nothing is copied there"),
        guest
            .copy_out("/etc/hostname", Box::new(io::sink()))
            .await
            .expect_err("nothing is copied from there"),
    ];
    for error in errors {
        assert!(matches!(error, GuestError::Off { .. }), "{error:?}");
    }
}

async fn programs_run_with_their_environment_and_input(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let env = vec![("GREETING".to_owned(), "hello".to_owned())];
    let cmd = Cmd { env, stdin: b"world".to_vec(), ..Cmd::sh(GREET) };
    let output = machine.guest().run(cmd).await.expect("it greets");
    assert_eq!(output.text(), "hello, world");
}

async fn a_program_that_writes_too_much_is_an_error(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let cmd = Cmd { max_output: Some(17), ..Cmd::sh(COUNT) };
    let error = machine.guest().run(cmd).await.expect_err("it writes 18 bytes");
    assert!(matches!(error, GuestError::TooMuchOutput { limit: 17, .. }), "{error:?}");
}

async fn a_program_that_fails_is_an_error_with_its_last_lines(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let error = machine.guest().run(Cmd::sh(FAIL)).await.expect_err("it fails");
    let GuestError::Failed { node: at, tail, .. } = &error else { panic!("{error:?}") };
    assert_eq!(at, node(cluster).as_ref());
    assert!(tail.iter().any(|line| line == "gone"), "{tail:?}");
}

async fn files_are_kept_byte_for_byte(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let machine = machine.as_ref();
    assert_eq!(get(machine, "/etc/contract/file").await, None);
    let bytes: Vec<u8> = (0..=255).collect();
    machine.guest().write("/etc/contract/file", 0o640, &bytes).await.expect("its directory is made");
    assert_eq!(get(machine, "/etc/contract/file").await, Some(bytes));
    assert_eq!(machine.guest().run(Cmd::sh(MODE)).await.expect("it exists").text(), "640");
    machine.guest().write("/etc/contract/file", 0o640, b"").await.expect("it is replaced");
    assert_eq!(get(machine, "/etc/contract/file").await, Some(Vec::new()));
}

async fn files_are_copied_in_and_out(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (path, guest) = ("/etc/contract/deep/file", machine.guest());
    guest.copy_in(stream(&bytes), path, 0o644).await.expect("its directory is made");
    assert_eq!(get(machine.as_ref(), path).await, Some(bytes.clone()));
    let target = Kept::default();
    assert_eq!(guest.copy_out(path, Box::new(target.clone())).await.expect("it can be read"), 0o644);
    assert_eq!(target.bytes(), bytes);
    guest.copy_in(stream(b""), path, 0o644).await.expect("it is replaced");
    assert_eq!(get(machine.as_ref(), path).await, Some(Vec::new()));
}

async fn what_does_not_exist_cannot_be_copied(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let error = machine
        .guest()
        .copy_out("/etc/contract/none", Box::new(io::sink()))
        .await
        .expect_err("it is not there");
    let GuestError::File { node: at, path, source, .. } = &error else { panic!("{error:?}") };
    assert_eq!((at.as_str(), path.as_str()), (node(cluster).as_ref(), "/etc/contract/none"));
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

/// A stream of some bytes.
fn stream(bytes: &[u8]) -> Reader {
    Box::new(io::Cursor::new(bytes.to_vec()))
}

/// A stream that keeps what is written to it.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no holder panics").clone()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no holder panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
