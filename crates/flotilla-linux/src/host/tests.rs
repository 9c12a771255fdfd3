use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use flotilla_core::Exit;

use super::*;

fn sh(script: &str) -> Command {
    Command::new("sh").args(["-c", script])
}

#[test]
fn output_comes_back_whole() {
    let output = sh("echo one; echo two >&2; echo three").run().unwrap();
    assert_eq!(output.stdout, b"one\nthree\n");
    assert_eq!(output.stderr, b"two\n");
    assert_eq!(output.text(), "one\nthree");
}

#[test]
fn both_pipes_full_do_not_block() {
    let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
    let output = sh(script).run().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 600_000));
}

#[test]
fn only_the_named_variables_are_inherited() {
    // Cargo sets others for every test.
    let output = Command::new("env").env("BEFORE", "1").inherit_only(&["PATH", "ABSENT"]).env("AFTER", "2");
    let text = output.run().unwrap().text();
    let mut names: Vec<&str> = text.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["AFTER", "BEFORE", "PATH"]);
}

#[test]
fn environment_directory_and_input_reach_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    std::fs::write(&input, "from the file").unwrap();
    let output = sh("echo $A-${B:-none}; pwd; cat")
        .env("A", "a")
        .env("B", "b")
        .env_remove("B")
        .current_dir("/")
        .stdin(File::open(&input).unwrap());
    assert_eq!(output.run().unwrap().text(), "a-none\n/\nfrom the file");
    assert_eq!(sh("cat").run().unwrap().text(), "");
}

#[test]
fn a_failure_keeps_argv_status_and_the_last_lines() {
    let error = sh("for i in $(seq 30); do echo line $i >&2; done; echo out; exit 3").run().unwrap_err();
    assert_eq!(error.tail().len(), 20);
    assert_eq!(error.tail()[19], "line 30");
    let CommandError::Failed { argv, exit, .. } = &error else { panic!("{error:?}") };
    assert!(argv.starts_with("sh -c 'for i in"), "{argv}");
    assert_eq!(*exit, Exit::Code(3));
    assert!(error.to_string().ends_with("failed with exit status 3"), "{error}");
}

#[test]
fn a_failure_without_errors_shows_the_output() {
    let error = sh("echo it is here; exit 1").run().unwrap_err();
    assert_eq!(error.tail(), ["it is here"]);
    let error = sh("echo it is here; exit 1").stream(drop).unwrap_err();
    assert_eq!(error.tail(), ["it is here"]);
}

#[test]
fn death_by_signal_is_told() {
    let error = sh("kill -9 $$").run().unwrap_err();
    assert!(error.to_string().ends_with("failed with signal 9"), "{error}");
}

#[test]
fn a_missing_program_is_not_found_and_a_missing_folder_is_not_the_program() {
    let error = Command::new("no-such-program").run().unwrap_err();
    assert!(matches!(&error, CommandError::NotFound { program } if program == "no-such-program"));
    assert_eq!(error.to_string(), "cannot find the program no-such-program");
    let error = sh("true").current_dir("/not/there").run().unwrap_err();
    assert!(matches!(error, CommandError::Start { .. }), "{error:?}");
}

#[test]
fn lines_come_while_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let script =
        format!("echo first; while [ ! -e {0} ]; do sleep 0.02; done; echo second >&2", gate.display());
    let mut lines = Vec::new();
    let output = sh(&script)
        .stream(|line| {
            // The program goes on only when its first line has arrived here.
            std::fs::write(&gate, "").unwrap();
            lines.push(line);
        })
        .unwrap();
    let line = |stream, text: &str| Line { stream, text: text.to_owned() };
    assert_eq!(lines, [line(Stream::Stdout, "first"), line(Stream::Stderr, "second")]);
    assert_eq!(output, Output { stdout: b"first\n".to_vec(), stderr: b"second\n".to_vec() });
}

#[test]
fn a_panic_while_reading_kills_the_program() {
    let mut pid = None;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(sh("echo $$; exec sleep 600").stream(|line| {
            pid = line.text.parse::<u32>().ok();
            panic!("on purpose");
        }));
    }));
    assert!(caught.is_err());
    assert!(!Path::new(&format!("/proc/{}", pid.unwrap())).exists());
}

#[test]
fn piped_output_is_read_as_it_comes() {
    let count = sh("seq 100000").pipe_stdout(|reader| Ok(BufReader::new(reader).lines().count())).unwrap();
    assert_eq!(count, 100_000);
}

#[test]
fn a_reader_that_stops_early_does_not_break_the_program() {
    let script = "seq 100000 || exit 1";
    let first = sh(script).pipe_stdout(|reader| {
        let mut byte = [0];
        reader.read_exact(&mut byte).map(|()| byte[0])
    });
    assert_eq!(first.unwrap(), b'1');
}

#[test]
fn whoever_fails_first_is_blamed() {
    let bad = |_: &mut dyn Read| -> io::Result<()> { Err(io::Error::other("bad archive")) };
    let error = sh("seq 100000").pipe_stdout(bad).unwrap_err();
    assert!(matches!(error, CommandError::Read { .. }), "{error:?}");

    let to_the_end = |reader: &mut dyn Read| -> io::Result<()> {
        reader.read_to_end(&mut Vec::new())?;
        Err(io::Error::other("archive cut short"))
    };
    let error = sh("echo no such package >&2; exit 2").pipe_stdout(to_the_end).unwrap_err();
    assert_eq!(error.tail(), ["no such package"]);

    let error = sh("echo all; exit 2").pipe_stdout(|reader| reader.read_to_end(&mut Vec::new())).unwrap_err();
    assert!(matches!(error, CommandError::Failed { exit: Exit::Code(2), .. }), "{error:?}");
}

#[test]
fn cancel_ends_the_program_with_its_children_and_stops_the_next() {
    let cancel = Cancel::new();
    let started = Instant::now();
    // The shell waits for a child of its own that holds the pipe as well: only the whole group's end ends it.
    let error = sh("sleep 600 & echo ready; wait")
        .cancel(&cancel)
        .stream(|line| {
            assert_eq!(line.text, "ready");
            let cancel = cancel.clone();
            thread::spawn(move || cancel.cancel()).join().unwrap();
        })
        .unwrap_err();
    assert!(matches!(&error, CommandError::Cancelled { program } if program == "sh"), "{error:?}");
    assert!(started.elapsed() < Duration::from_mins(1));
    let error = sh("echo never").cancel(&cancel).run().unwrap_err();
    assert_eq!(error.to_string(), "sh was cancelled");
    // A program without it is none of its business.
    assert_eq!(sh("echo fine").run().unwrap().text(), "fine");
}

#[test]
fn a_program_that_ended_well_before_the_cancel_is_a_success() {
    let cancel = Cancel::new();
    assert!(sh("true").cancel(&cancel).run().is_ok());
    cancel.cancel();
    assert!(cancel.is_cancelled());
}

#[test]
fn a_program_in_a_root_of_its_own_sees_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        flotilla_testkit::skip("only root may change the root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Nothing is in there, so the host's own programs are not found.
    let error = Command::new("/bin/sh").chroot(dir.path()).run().unwrap_err();
    assert!(matches!(error, CommandError::NotFound { .. }), "{error:?}");
    let error = Command::new("/bin/sh").chroot(dir.path().join("not-there")).run().unwrap_err();
    assert!(matches!(error, CommandError::Start { .. }), "{error:?}");
    let there = Command::new("/bin/sh").args(["-c", "pwd"]).current_dir("/tmp").chroot("/").run().unwrap();
    assert_eq!(there.text(), "/");
}

#[test]
fn a_program_that_takes_too_long_is_killed_with_its_process_group() {
    let cancel = Cancel::new();
    let sleeping = Command::new("sh").args(["-c", "echo $$; sleep 1000000 & sleep 1000000"]).cancel(&cancel);
    let error = sleeping.run_within(Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.to_string(), "`sh -c 'echo $$; sleep 1000000 & sleep 1000000'` did not end within 0 s");
    let quick = Command::new("sh").args(["-c", "echo out; echo err >&2"]).run_within(Duration::from_mins(1));
    assert_eq!(quick.unwrap(), Output { stdout: b"out\n".to_vec(), stderr: b"err\n".to_vec() });
}

#[test]
fn one_that_closes_its_streams_and_lives_on_is_not_waited_for_either() {
    let error = Command::new("sh")
        .args(["-c", "exec >&- 2>&-; exec sleep 1000000"])
        .run_within(Duration::from_millis(100))
        .unwrap_err();
    assert!(matches!(error, CommandError::TimedOut { .. }), "{error:?}");
}

#[test]
fn one_that_writes_too_much_is_killed() {
    for endless in ["exec yes", "exec yes >&2"] {
        let command = Command::new("sh").args(["-c", endless]).max_output(100_000);
        let error = command.run_within(Duration::from_mins(1)).unwrap_err();
        assert_eq!(error.to_string(), format!("`sh -c '{endless}'` wrote more than 100000 bytes"));
    }
    let enough = Command::new("printf").arg("12345").max_output(5).run().unwrap();
    assert_eq!(enough.stdout, b"12345");
}

#[test]
fn more_than_a_pipe_holds_is_read_from_both_streams() {
    let script = "head -c 300000 /dev/zero; head -c 400000 /dev/zero >&2";
    let output = Command::new("sh").args(["-c", script]).run().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 400_000));
}
