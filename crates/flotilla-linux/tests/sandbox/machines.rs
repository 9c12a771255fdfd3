//! Machines of the real kernel, without a root of their own: what they have of whoever starts them, and whether anybody
//! can be entered by mistake.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use flotilla_core::{Cancel, Session};
use flotilla_linux::cgroup::{Group, Layout, Limits};
use flotilla_linux::enter::{self, Files, OpenError, Opening, Request};
use flotilla_linux::erofs;
use flotilla_linux::host::{Command, CommandError};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::machine::{self, Channel, Shared};
use flotilla_linux::process::Process;
use flotilla_linux::sandbox::Bind;
use flotilla_linux::user::Ids;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cases::Case;
use crate::support;

/// The first argument that makes this binary PID 1 of a machine.
const INIT: &str = "helper-init";
/// The first argument that makes this binary launch a machine and show what it has inherited.
pub(crate) const HELPER_LAUNCH: &str = "helper-launch";
/// The first argument that makes this binary open a session: a caller that can be killed.
const HELPER_OPEN: &str = "helper-open";
/// The first argument that makes this binary launch a machine and leave it, like a run that is killed.
const HELPER_LEAVE: &str = "helper-leave";

/// `CAP_DAC_READ_SEARCH`, `_SYS_MODULE`, `_SYS_RAWIO`, `_SYS_BOOT`, `_SYS_TIME`, `_SYSLOG` (capability.h), and what later kernels
/// may have.
const HARMFUL: u64 = 1 << 2 | 1 << 16 | 1 << 17 | 1 << 22 | 1 << 25 | 1 << 34 | u64::MAX << 41;
const SYS_ADMIN: u64 = 1 << 21;

pub(crate) const ALL: &[Case] = &[
    ("a_machine_has_nothing_of_the_shell_that_starts_it", a_machine_has_nothing_of_the_shell_that_starts_it),
    ("a_machine_is_found_by_its_folder_alone", a_machine_is_found_by_its_folder_alone),
    ("a_machine_that_has_ended_is_never_entered", a_machine_that_has_ended_is_never_entered),
    ("a_frozen_machine_holds_nobody_up", a_frozen_machine_holds_nobody_up),
    ("a_program_ends_with_whoever_opened_its_session", a_program_ends_with_whoever_opened_its_session),
    ("a_machine_cannot_change_its_own_limits", a_machine_cannot_change_its_own_limits),
    ("a_machine_is_in_a_group_of_its_own_in_every_hierarchy", every_hierarchy_has_the_machine_in_its_group),
    (
        "a_machine_does_not_see_or_change_what_is_the_host_s",
        a_machine_does_not_see_or_change_what_is_the_host_s,
    ),
    ("a_machine_cannot_change_what_it_shares", a_machine_cannot_change_what_it_shares),
    (
        "a_mount_stays_off_what_the_machine_uses_wherever_links_lead",
        a_mount_stays_off_what_the_machine_uses_wherever_links_lead,
    ),
    (
        "a_process_in_a_machine_does_not_lead_to_our_binary",
        a_process_in_a_machine_does_not_lead_to_our_binary,
    ),
    ("a_machine_that_left_its_group_cannot_take_programs_along", programs_do_not_leave_the_machine_s_limits),
    ("a_machine_of_the_last_release_is_found_entered_thawed_and_killed", a_machine_of_the_last_release),
    ("folders_made_in_a_machine_do_not_depend_on_the_umask", folders_do_not_depend_on_the_umask),
    ("the_next_run_removes_the_machines_of_a_killed_one", the_next_run_removes_machines),
];

/// Killed when dropped.
pub(crate) struct Machine {
    pub(crate) group: Group,
    pub(crate) group_name: String,
    pub(crate) init: Process,
    pub(crate) folder: TempDir,
}

impl Machine {
    /// A machine that has the host's files.
    fn launch(name: &str) -> Self {
        Self::launch_with(name, |_| None)
    }

    /// A machine with a root of its own: an overlay on the host's.
    fn launch_with_root(name: &str) -> Self {
        Self::launch_with(name, |folder| Some(rooted(folder)))
    }

    /// The same in a user namespace with these ids, if any, and with what `change` adds.
    pub(crate) fn launch_with_ids(
        name: &str,
        ids: Option<Ids>,
        change: impl FnOnce(&mut machine::Spec),
    ) -> Self {
        Self::launch_with(name, |folder| {
            let mut spec = machine::Spec { ids, ..rooted(folder) };
            change(&mut spec);
            Some(spec)
        })
    }

    fn launch_with(name: &str, root: impl FnOnce(&Path) -> Option<machine::Spec>) -> Self {
        let group_name = format!("flotilla/fl-test-{name}-{}", std::process::id());
        let group = Group::new(&Layout::of_host().unwrap(), &group_name).unwrap();
        group.create_for_machine().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        let root = root(folder.path());
        let in_user_namespace = root.as_ref().is_some_and(|root| root.ids.is_some());
        let this = if in_user_namespace {
            std::env::current_exe().unwrap()
        } else {
            flotilla_linux::sealed::own_program()
        };
        let spec = (folder.path(), root);
        let launched = machine::launch(&this, INIT, &group_name, name, &spec, spec.1.as_ref(), &console);
        let init = launched.and_then(machine::Launched::go).unwrap_or_else(|error| {
            // Nobody else knows of it yet.
            group.kill().and_then(|()| group.remove()).unwrap();
            panic!("{error:?}")
        });
        Self { group, group_name, init, folder }
    }

    pub(crate) fn command(&self, script: &str) -> Command {
        enter::command(&self.init, &self.request(script))
    }

    pub(crate) fn request(&self, script: &str) -> Request {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        Request { group: self.group_name.clone(), argv, env: Vec::new() }
    }

    /// Talks to a program in it.
    pub(crate) async fn open(&self, script: &str, limit: Duration) -> Result<Session, OpenError> {
        let (request, cancel) = (self.request(script), Cancel::new());
        let (machine, name) = (&self.init, "a machine");
        enter::open(Opening { machine, name, request: &request, tty: None, limit, cancel: &cancel }).await
    }
}

/// A root of its own for a machine: an overlay on the host's.
fn rooted(folder: &Path) -> machine::Spec {
    let var = folder.join("var");
    fs::create_dir(&var).unwrap();
    machine::Spec {
        hostname: "rooted".into(),
        root: "/".into(),
        folder: folder.to_owned(),
        var,
        binds: Vec::new(),
        mounts: Vec::new(),
        own: Vec::new(),
        shared: None,
        links: Vec::new(),
        capacity: machine::Capacity::default(),
        uuid: "0".into(),
        ids: None,
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
        HELPER_OPEN => Some(open_session(args)),
        HELPER_LEAVE => Some(leave()),
        _ => None,
    }
}

/// Removes the machines of runs that were killed: a machine outlives whoever has started it.
pub(crate) fn remove_left_over() {
    let layout = Layout::of_host().unwrap();
    for name in Group::new(&layout, "flotilla").unwrap().children() {
        let Some((_, runner)) = name.strip_prefix("fl-test-").and_then(|rest| rest.rsplit_once('-')) else {
            continue;
        };
        if !Path::new("/proc").join(runner).exists() {
            let group = Group::new(&layout, &format!("flotilla/{name}")).unwrap();
            group.kill().and_then(|()| group.remove()).unwrap();
        }
    }
}

fn leave() -> ExitCode {
    let machine = Machine::launch("left");
    support::say(&format!("{} {}", machine.group_name, machine.folder.path().display()));
    std::mem::forget(machine);
    ExitCode::SUCCESS
}

fn the_next_run_removes_machines() {
    let left = Command::new(std::env::current_exe().unwrap()).arg(HELPER_LEAVE).run().unwrap().text();
    let (group, folder) = left.split_once(' ').unwrap();
    let own = Machine::launch("stays");
    assert!(!support::groups_of(group).is_empty(), "it outlives who has started it");
    remove_left_over();
    assert!(support::groups_of(group).is_empty());
    assert!(!support::groups_of(&own.group_name).is_empty(), "this run goes on");
    fs::remove_dir_all(folder).unwrap();
}

fn init() -> ExitCode {
    let mut channel = Channel::inherited().unwrap();
    let (folder, root): (PathBuf, Option<machine::Spec>) = channel.spec().unwrap();
    let _held = life::hold(&root.as_ref().map_or(folder, machine::Spec::folder_at_launch)).unwrap();
    machine::enter_new_namespaces(root.as_ref()).unwrap();
    channel.say("namespaces").unwrap();
    if let Some(Err(error)) = root.as_ref().map(|root| machine::build(root).and_then(machine::Built::finish))
    {
        machine::tell("machine", &error);
        return ExitCode::FAILURE;
    }
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
        "grep -E '^(Umask|SigBlk|SigIgn|Cpus_allowed_list|Groups|Cap...):' {process}/status; \
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
        let capabilities = |set: &str| u64::from_str_radix(line(set)[set.len()..].trim(), 16).unwrap();
        for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
            assert_eq!(capabilities(set) & HARMFUL, 0, "{who}: {text}");
            assert_ne!(capabilities(set) & SYS_ADMIN, 0, "{who}: {text}");
        }
        assert_eq!((capabilities("CapInh:"), capabilities("CapAmb:")), (0, 0), "{who}: {text}");
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
    let opened = runtime().block_on(machine.open("echo in", Duration::from_secs(1)));
    assert!(matches!(opened, Err(OpenError::TimedOut(_))), "{opened:?}");
    machine.group.thaw_itself().unwrap();
    assert_eq!(machine.command("echo in").run().unwrap().text(), "in");
}

/// The stage is neither our child nor in our process group when we are killed: it has to notice by itself.
fn a_program_ends_with_whoever_opened_its_session() {
    let machine = Machine::launch("talk");
    let this = std::env::current_exe().unwrap();
    let (pid, group) = (machine.init.pid().to_string(), machine.group_name.clone());
    let marker = format!("1000.{}", std::process::id());
    let runs =
        || support::processes().any(|pid| support::words_of(pid, "cmdline") == format!("sleep {marker} "));
    let mut seen = false;
    let opener = Command::new(&this).args([HELPER_OPEN, &pid, &group, &marker]);
    let killed = opener.stream(|line| {
        // Its own number, once the program runs.
        support::wait_until("the program runs", runs);
        seen = true;
        support::kill(line.text.parse().unwrap());
    });
    assert!(seen && killed.is_err(), "{killed:?}");
    support::wait_until("the program and its group have ended", || !runs());
}

/// Opens a session in the machine of this PID 1, and waits for its end.
fn open_session(args: &[OsString]) -> ExitCode {
    let [pid, group, marker] = [2, 3, 4].map(|at| args[at].to_str().unwrap().to_owned());
    let init = Process::open(rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap()).unwrap();
    // It ignores what can be ignored, and so does the other process of its group.
    let script = format!("trap '' HUP TERM; sleep {marker} & wait; wait");
    let request = Request { group, argv: ["sh", "-c", &script].map(str::to_owned).to_vec(), env: Vec::new() };
    let (cancel, limit) = (Cancel::new(), Duration::from_mins(1));
    runtime().block_on(async {
        let opening =
            Opening { machine: &init, name: "it", request: &request, tty: None, limit, cancel: &cancel };
        let mut session = enter::open(opening).await.unwrap();
        support::say(&std::process::id().to_string());
        session.program.wait().await.unwrap();
    });
    ExitCode::SUCCESS
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A machine whose `/sys/fs/cgroup` is its own, with limits.
fn limited(name: &str) -> Machine {
    let machine = Machine::launch(name);
    machine.group.limit(Limits { cpus: Some(1), memory: Some(256 << 20), processes: Some(64) }).unwrap();
    machine
}

/// Tries everything on every group that the machine sees, and opens a disk.
const BREAK_OUT: &str = "
mount --make-rprivate /; mkdir v2 && mount -t cgroup2 none v2
for one in memory cpu pids devices freezer; do mkdir $one; mount -t cgroup -o $one none $one; done
for limit in $(find . -name memory.max -o -name memory.limit_in_bytes -o -name memory.memsw.limit_in_bytes \
    -o -name pids.max -o -name cpu.max -o -name cpu.cfs_quota_us -o -name memory.swap.max); do
    echo -1 > $limit || echo max > $limit
done
for devices in $(find . -name devices.allow); do echo a > $devices; done
mknod disk b 7 0; mknod log c 1 11
for device in disk log; do (: < $device) && echo opens $device; done
: > /dev/null && echo opens null";

fn a_machine_cannot_change_its_own_limits() {
    let machine = limited("limits");
    let read = |file: &str| {
        let groups = support::groups_of(&machine.group_name);
        groups.iter().find_map(|group| fs::read_to_string(group.join(file)).ok()).unwrap_or_default()
    };
    let limits = || {
        ["memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us", "memory.swap.max"]
            .map(|file| read(file).trim().to_owned())
    };
    let before = limits();
    assert!(before.contains(&(256_u64 << 20).to_string()) && before.contains(&"64".to_owned()), "{before:?}");
    let said = machine
        .command(&format!("cd {}; ({BREAK_OUT}) 2>/dev/null", machine.folder.path().display()))
        .run()
        .unwrap()
        .text();
    assert_eq!(said.trim(), "opens null");
    assert_eq!(limits(), before);
    // The limit of processes holds in it.
    let bomb = machine.command("(i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done) 2>&1; true");
    let said = bomb.run().unwrap().text();
    assert!(said.contains("fork"), "{said}");
}

/// Also in one of v2 beside those of v1, where it could kill the host's processes otherwise.
fn every_hierarchy_has_the_machine_in_its_group() {
    let machine = Machine::launch("everywhere");
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", machine.init.pid())).unwrap();
    let own = format!("/{}/in", machine.group_name);
    let elsewhere: Vec<_> = groups.lines().filter(|line| !line.contains(&own)).collect();
    assert!(!groups.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");
}

fn programs_do_not_leave_the_machine_s_limits() {
    let machine = limited("moved");
    for group in support::groups_of(&format!("{}/in", machine.group_name)) {
        let other = group.join("other");
        fs::create_dir(&other).unwrap();
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(inherited) = fs::read_to_string(group.join(file)) {
                fs::write(other.join(file), inherited).unwrap();
            }
        }
        fs::write(other.join("cgroup.procs"), machine.init.pid().to_string()).unwrap();
    }
    let groups = machine.command("cat /proc/self/cgroup").run().unwrap().text();
    // As seen from its own cgroup namespace: elsewhere would be `/..` or `/other`.
    let limited = groups.lines().filter(|line| line.contains(":pids:") || line.contains(":memory:"));
    assert!(limited.clone().all(|line| line.ends_with(":/")), "{groups}");
    assert!(limited.count() > 0 || groups == "0::/init", "{groups}");
}

/// What each of these says is what is wrong.
pub(crate) const MASKED: &str = "
for file in kcore keys kmsg timer_list sched_debug latency_stats interrupts; do
    [ ! -e /proc/$file ] || [ $(head -c 1 /proc/$file | wc -c) = 0 ] || echo /proc/$file is read; done
for folder in /sys/firmware /sys/power /proc/scsi /proc/acpi; do
    [ ! -e $folder ] || [ -z \"$(ls $folder)\" ] || echo $folder is seen; done
for file in /proc/sysrq-trigger /proc/irq/default_smp_affinity /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness \
    /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/uevent_helper; do
    [ ! -e $file ] || ! sh -c \": >> $file\" 2>/dev/null || echo $file is writable; done
echo 1 > /proc/sys/net/ipv4/ip_forward || echo forwarding cannot be set
for folder in /sys/fs/cgroup /sys/fs/cgroup/pids; do [ ! -e $folder/cgroup.procs ] || mkdir $folder/made; done
head -c 1 /dev/kmsg; ls /proc/self/fd > /dev/null";

fn a_machine_does_not_see_or_change_what_is_the_host_s() {
    let machine = Machine::launch_with_root("masked");
    assert_eq!(machine.command(&format!("({MASKED}) 2>&1")).run().unwrap().text(), "");
}

/// Tries to change a file: as it is, after remounts, and on a mount of its own.
const CHANGE: &str = "
change() {
    echo changed >> $1; chmod 777 $1; touch $1; setfattr -n user.x -v y $1
    mount -o remount,bind,rw $1; mount -o remount,rw $1; mount -o remount,rw $2; mount -o remount,bind,rw $2
    echo changed >> $1; chmod 777 $1; chown 1:1 $1; (: > $1); rm -f $1; mv /etc/hostname $1
    mkdir -p /again; mount --bind $2 /again; mount -o remount,bind,rw /again; echo changed >> /again; touch /again/more
}
change /shared/file /shared/file; change /shared/files/1/fs/program /shared/files; ls /shared/files/1/fs; cat /shared/file /shared/above";

/// A machine with a file and a directory of the host's inside.
fn sharing(name: &str, host: &Path, image: Option<PathBuf>) -> Machine {
    Machine::launch_with(name, |folder| {
        let bind = Bind { source: host.join("file"), target: "/shared/file".into(), read_only: true };
        // Above the machine's own directory, as a binary in a home directory is above the state directory.
        let above = folder.parent().unwrap().join(format!("above-{}", std::process::id()));
        fs::write(&above, "above").unwrap();
        let above = Bind { source: above, target: "/shared/above".into(), read_only: true };
        let shared = Shared { directory: host.join("files"), image, target: "/shared/files".into() };
        Some(machine::Spec { binds: vec![bind, above], shared: Some(shared), ..rooted(folder) })
    })
}

fn a_machine_cannot_change_what_it_shares() {
    use std::os::unix::fs::MetadataExt;
    let host = tempfile::tempdir().unwrap();
    let program = host.path().join("files/1/fs/program");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(host.path().join("file"), "a file of the host\n").unwrap();
    fs::write(&program, "a program\n").unwrap();
    let image = host.path().join("image");
    erofs::ensure(&host.path().join("files"), &image, "test").unwrap();
    let state = || {
        [host.path().join("file"), program.clone(), image.clone()].map(|path| {
            let metadata = fs::metadata(&path).unwrap();
            (
                fs::read(&path).unwrap(),
                metadata.mode(),
                metadata.uid(),
                metadata.mtime_nsec(),
                metadata.ctime_nsec(),
            )
        })
    };
    let before = state();
    // Hosts without EROFS show the directory itself.
    for image in [Some(image.clone()).filter(|_| erofs::is_supported()), None] {
        let machine = sharing("share", host.path(), image.clone());
        let seen = machine.command(&format!("({CHANGE}) 2>/dev/null")).run().unwrap().text();
        fs::remove_file(
            machine.folder.path().parent().unwrap().join(format!("above-{}", std::process::id())),
        )
        .unwrap();
        assert!(state() == before, "image: {image:?}; the machine sees {seen}");
        assert_eq!(seen, "program\na file of the host\nabove", "and it is there, all of it");
    }
}

/// Links may have been left at and above the targets of mounts, by the machine or in the directories themselves.
fn a_mount_stays_off_what_the_machine_uses_wherever_links_lead() {
    const OURS: &str = "/program";
    let host = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| host.path().join(name));
    for directory in [&one, &other] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "the user's\n").unwrap();
    }
    symlink("/own/data", one.join("link")).unwrap();
    // A machine with `/link`, and with a link of ours.
    let launch = |link: &str, mounts: &[(&Path, &str)], ours: &str| {
        let launch = || {
            Machine::launch_with("links", |folder| {
                let upper = folder.join("upper");
                fs::create_dir_all(upper.join("own/data")).unwrap();
                symlink(link, upper.join("link")).unwrap();
                let bind = |(source, target): &(&Path, &str)| {
                    let (source, target) = (source.to_path_buf(), PathBuf::from(target));
                    Bind { source, target, read_only: false }
                };
                let (mounts, links) =
                    (mounts.iter().map(bind).collect(), vec![(ours.into(), "/bin/true".into())]);
                Some(machine::Spec { mounts, links, own: vec!["/own/data".into()], ..rooted(folder) })
            })
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(launch))
            .map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    let refused = |link: &str, mounts: &[(&Path, &str)]| {
        let why = launch(link, mounts, OURS).map(drop).unwrap_err();
        assert!(why.contains("which the machine itself uses"), "{link} {mounts:?}: {why}");
    };
    refused("/own/data", &[(&one, "/link")]);
    refused("own", &[(&one, "/link/data/below")]);
    refused("/", &[(&one, "/link/own")]);
    refused("/none", &[(&one, "/mounted"), (&other, "/mounted/link")]);
    // What PID 1 holds is no place in the machine.
    for magic in ["/proc/self/root/own", "/proc/self/cwd"] {
        launch(magic, &[(&one, "/link/mounted")], OURS).map(drop).unwrap_err();
        launch(magic, &[], "/link/program").map(drop).unwrap_err();
    }
    let inside: [(&Path, &str); 2] = [(&one, "/link/mounted"), (&other, "/link/mounted/other")];
    let machine = launch("/own", &inside, "/link/program").unwrap();
    let seen = "cat /own/mounted/file /own/mounted/other/file; readlink /own/program";
    assert_eq!(machine.command(seen).run().unwrap().text(), "the user's\nthe user's\n/bin/true");
}

/// Root in a machine sees PID 1 and what enters it, and the kernel has a way from each process to its program.
fn a_process_in_a_machine_does_not_lead_to_our_binary() {
    use std::os::unix::fs::MetadataExt;
    let this = std::env::current_exe().unwrap();
    let state = || {
        fs::metadata(&this).map(|file| (file.mode(), file.uid(), file.mtime(), file.ctime_nsec())).unwrap()
    };
    let before = state();
    let machine = Machine::launch_with_root("exe");
    let attack = "for exe in /proc/1/exe /proc/self/exe; do chmod 777 $exe; touch $exe; chown 1:1 $exe; done; \
        (: >> /proc/1/exe) && echo opened; (exec 9<>/proc/1/exe) && echo opened; true";
    let said = machine.command(&format!("({attack}) 2>&1")).run().unwrap().text();
    assert_eq!(state(), before, "{said}");
    assert!(!said.contains("opened"), "{said}");
    // Whoever enters it is started in the same way.
    let device = |path: &str| fs::metadata(path).unwrap().dev();
    let entering = flotilla_linux::sealed::own_program();
    assert_ne!(device(entering.to_str().unwrap()), device(this.to_str().unwrap()));
}

/// Moves PID 1 to where the last release had it: no group of its own in the machine's.
fn as_of_the_last_release(machine: &Machine) {
    for group in support::groups_of(&machine.group_name) {
        let is_v2 = group.join("cgroup.controllers").exists();
        let leaf = if is_v2 { group.join("init") } else { group.clone() };
        if is_v2 {
            fs::create_dir(&leaf).unwrap();
        }
        fs::write(leaf.join("cgroup.procs"), machine.init.pid().to_string()).unwrap();
        for empty in ["in/init", "in"] {
            let _ = fs::remove_dir(group.join(empty));
        }
        assert!(!group.join("in").exists());
    }
}

fn a_machine_of_the_last_release() {
    let machine = Machine::launch("old");
    as_of_the_last_release(&machine);
    assert_eq!(machine.group.init().map(|init| init.pid()), Some(machine.init.pid()));
    assert_eq!(machine.command("echo in").run().unwrap().text(), "in");
    assert!(!machine.group.is_frozen());
    for path in support::groups_of(&machine.group_name) {
        support::freeze(&path);
    }
    support::wait_until("it is frozen", || machine.group.is_frozen());
    machine.group.thaw_itself().unwrap();
    assert!(!machine.group.is_frozen());
    assert_eq!(machine.command("echo in").run().unwrap().text(), "in");
    machine.group.kill().unwrap();
    assert!(machine.init.has_ended());
    machine.group.create_for_machine().unwrap();
}

fn folders_do_not_depend_on_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::launch("umask");
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
