//! Machines of the real kernel, without a root of their own: what they have of whoever starts them, and whether anybody
//! can be entered by mistake.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use flotilla_linux::cgroup::{Group, Layout};
use flotilla_linux::enter::{self, Files, Request};
use flotilla_linux::host::{Command, CommandError};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::machine::{self, Channel};
use flotilla_linux::process::Process;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cases::Case;
use crate::support;

/// The first argument that makes this binary PID 1 of a machine.
const INIT: &str = "helper-init";
/// The first argument that makes this binary launch a machine and show what it has inherited.
pub(crate) const HELPER_LAUNCH: &str = "helper-launch";

pub(crate) const ALL: &[Case] = &[
    ("a_machine_has_nothing_of_the_shell_that_starts_it", a_machine_has_nothing_of_the_shell_that_starts_it),
    ("a_machine_is_found_by_its_folder_alone", a_machine_is_found_by_its_folder_alone),
    ("a_machine_that_has_ended_is_never_entered", a_machine_that_has_ended_is_never_entered),
    ("a_frozen_machine_holds_nobody_up", a_frozen_machine_holds_nobody_up),
    ("folders_made_in_a_machine_do_not_depend_on_the_umask", folders_do_not_depend_on_the_umask),
];

/// Killed when dropped.
struct Machine {
    group: Group,
    group_name: String,
    init: Process,
    folder: TempDir,
}

impl Machine {
    fn launch(name: &str) -> Self {
        let group_name = format!("flotilla/fl-test-{name}-{}", std::process::id());
        let group = Group::new(&Layout::of_host().unwrap(), &group_name).unwrap();
        group.create().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        let this = std::env::current_exe().unwrap();
        let launched = machine::launch(&this, INIT, &group_name, name, &folder.path(), &console).unwrap();
        Self { group, group_name, init: launched.go().unwrap(), folder }
    }

    fn command(&self, script: &str) -> Command {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let group = self.group_name.clone();
        let request = Request { group, argv, env: Vec::new(), terminal: false, attached: false };
        enter::command(&self.init, &request)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.group.kill().unwrap();
        self.group.remove().unwrap();
    }
}

pub(crate) fn run_if_init(args: &[OsString]) -> Option<ExitCode> {
    match args.get(1)?.to_str()? {
        INIT => Some(init()),
        HELPER_LAUNCH => Some(show_inherited()),
        _ => None,
    }
}

fn init() -> ExitCode {
    let mut channel = Channel::inherited().unwrap();
    let folder: PathBuf = channel.spec().unwrap();
    let _held = life::hold(&folder).unwrap();
    machine::enter_new_namespaces().unwrap();
    channel.say("namespaces").unwrap();
    channel.wait_for_go().unwrap();
    machine::detach_input().unwrap();
    channel.say("ready").unwrap();
    drop(channel);
    loop {
        std::thread::park();
    }
}

/// What says how a process was started, by its directory in `/proc`. That of the host, in the machine as well.
fn show(process: &str) -> String {
    format!(
        "grep -E '^(Umask|SigBlk|SigIgn|Cpus_allowed_list|Groups):' {process}/status; \
         echo score $(cat {process}/oom_score_adj); echo files $(ls {process}/fd); \
         echo nice $(cut -d ' ' -f 19 {process}/stat); grep 'Max file size' {process}/limits"
    )
}

fn show_inherited() -> ExitCode {
    let machine = Machine::launch("shown");
    support::say(&machine.command(&show("/proc/self")).run().unwrap().text());
    support::say("init");
    let of_init = show(&format!("/proc/{}", machine.init.pid()));
    support::say(&Command::new("sh").args(["-c", &of_init]).run().unwrap().text());
    ExitCode::SUCCESS
}

fn a_machine_has_nothing_of_the_shell_that_starts_it() {
    let this = std::env::current_exe().unwrap();
    let shell = format!(
        "umask 077; trap '' HUP TERM; exec 9</dev/null; ulimit -S -f 100000; \
         exec nice -n 5 taskset -c 0 {} {HELPER_LAUNCH}",
        this.display()
    );
    let shown = Command::new("sh").args(["-c", &shell]).run().unwrap().text();
    let (program, init) = shown.split_once("\ninit\n").unwrap();
    let all = fs::read_to_string("/proc/1/status").unwrap();
    let cpus = all.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    for (who, text) in [("a program", program), ("PID 1", init)] {
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        assert_eq!(line("Cpus_allowed_list"), cpus, "{who}: {text}");
        assert_eq!(line("Umask"), "Umask:\t0022", "{who}: {text}");
        assert_eq!(line("SigBlk"), "SigBlk:\t0000000000000000", "{who}: {text}");
        // Rust's own start ignores SIGPIPE (0x1000) in PID 1; it is not handed on.
        let ignored = u64::from_str_radix(line("SigIgn").trim_start_matches("SigIgn:\t"), 16).unwrap();
        assert_eq!(if who == "PID 1" { ignored & !0x1000 } else { ignored }, 0, "{who}: {text}");
        assert_eq!(line("Groups").trim_end(), "Groups:", "{who}: {text}");
        assert_eq!((line("score"), line("nice")), ("score 0", "nice 0"), "{who}: {text}");
        assert!(line("Max file size").contains("unlimited"), "{who}: {text}");
        let files: Vec<_> = line("files ").split(' ').skip(1).collect();
        assert!(files.starts_with(&["0", "1", "2"]) && !files.contains(&"9"), "{who}: {text}");
    }
}

fn a_machine_is_found_by_its_folder_alone() {
    let machine = Machine::launch("alive");
    let Life::Runs(found) = life::of(machine.folder.path()).unwrap() else { panic!("it runs") };
    assert_eq!(found.pid(), machine.init.pid());
    assert_eq!(machine.group.init().map(|init| init.pid()), Some(found.pid()), "its group says the same");
    found.signal(Signal::KILL).unwrap();
    assert!(found.wait_for_end(Duration::from_mins(1)));
    assert!(matches!(life::of(machine.folder.path()).unwrap(), Life::None));
    assert!(machine.group.init().is_none());
}

fn a_machine_that_has_ended_is_never_entered() {
    let machine = Machine::launch("gone");
    machine.init.signal(Signal::KILL).unwrap();
    assert!(machine.init.wait_for_end(Duration::from_mins(1)));
    let error = machine.command("echo in").run().unwrap_err();
    assert_eq!(
        error.tail(),
        ["flotilla: the machine is not running: No such process (os error 3)"],
        "{error}"
    );
    assert!(Files::of(&machine.init).is_err());
}

fn a_frozen_machine_holds_nobody_up() {
    let machine = Machine::launch("cold");
    for path in support::groups_of(&machine.group_name) {
        support::freeze(&path);
    }
    support::wait_until("it is frozen", || machine.group.is_frozen());
    let error = machine.command("echo in").run_within(Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, CommandError::TimedOut { .. }), "{error:?}");
    // The stage itself tells a user who waits.
    let request = Request {
        group: machine.group_name.clone(),
        argv: vec!["true".to_owned()],
        env: Vec::new(),
        terminal: false,
        attached: true,
    };
    let mut told = false;
    let error = enter::command(&machine.init, &request)
        .stream(|line| {
            told |= line.text.contains("the machine does not answer");
            // The program that never began holds the other end of our pipes until it can die.
            machine.group.thaw_itself().unwrap();
        })
        .unwrap_err();
    assert!(told && matches!(error, CommandError::Failed { code: Some(126), .. }), "{error:?}");
    assert_eq!(machine.command("echo in").run().unwrap().text(), "in");
}

fn folders_do_not_depend_on_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::launch("masked");
    let before = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let path = machine.folder.path().join("made/below/file");
    let files = Files::of(&machine.init).unwrap();
    let written = files.write(&path, 0o644, b"text");
    rustix::process::umask(before);
    written.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o644);
    assert_eq!(mode(path.parent().unwrap()), 0o755);
    drop(File::open(&path).unwrap());
}
