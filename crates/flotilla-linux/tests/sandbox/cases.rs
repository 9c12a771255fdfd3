//! The cases, one function each.

use std::fs;
use std::path::Path;
use std::thread;

use flotilla_core::Cancel;
use flotilla_linux::host::{Command, CommandError};
use flotilla_linux::sandbox::{self, Bind, EXIT_NOT_MADE, STAGE_OUTER, Spec};

use crate::support::{self, Fixture, HELPER_PROGRAM, MARKER};

pub(crate) type Case = (&'static str, fn());

macro_rules! cases {
    ($($name:ident,)*) => { &[$((stringify!($name), $name as fn()),)*] };
}

pub(crate) const ALL: &[Case] = cases![
    exit_status_passes_through,
    death_by_signal_is_128_and_the_signal,
    the_program_is_alone,
    hostname_network_and_environment_are_its_own,
    standard_streams_pass_through,
    devices_are_there,
    writes_do_not_reach_the_host,
    orphans_are_reaped,
    what_the_program_left_running_dies_with_it,
    binds_are_seen_and_read_only_is_kept,
    links_in_a_bind_target_lead_to_the_sandbox_not_to_the_host,
    odd_characters_in_paths_are_no_problem,
    the_group_bounds_what_is_seen_and_is_removed,
    without_a_group_none_can_be_made,
    a_missing_root_is_named,
    a_missing_program_is_named,
    an_unknown_binary_is_not_found,
    cancel_ends_it_and_cleans_up,
    a_program_that_does_not_listen_is_killed_in_the_end,
    killing_the_caller_leaves_nothing,
    killing_the_supervisor_leaves_no_process_and_the_next_run_cleans_up,
    a_plain_program_dies_with_its_killed_caller,
];

fn exit_status_passes_through() {
    assert_eq!(Fixture::new("exit 0").exit_code(), Some(0));
    assert_eq!(Fixture::new("exit 42").exit_code(), Some(42));
}

fn death_by_signal_is_128_and_the_signal() {
    assert_eq!(Fixture::new("kill -9 $$").exit_code(), Some(137));
    assert_eq!(Fixture::new("kill -15 $$").exit_code(), Some(143));
}

fn the_program_is_alone() {
    let output = Fixture::new("echo $$; ls -d /proc/[0-9]*; readlink /proc/1/exe").run().unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() < 10, "{output}");
    let processes = lines.iter().filter(|line| line.starts_with("/proc/")).count();
    assert!((2..=4).contains(&processes), "{output}");
}

fn hostname_network_and_environment_are_its_own() {
    let script = "uname -n; cat /sys/class/net/*/operstate /sys/class/net/lo/flags; echo $PATH; echo $A";
    let mut fixture = Fixture::new(script);
    fixture.spec.env.push(("A".into(), "a b".into()));
    let output = fixture.run().unwrap();
    // One link only, and it is up (bit 0x1); what it works with is called "unknown" as ever.
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(output, format!("box\nunknown\n0x9\n{path}\na b"));
    let output = Fixture::new("env | sort | cut -d= -f1 | tr '\\n' ' '").run().unwrap();
    assert_eq!(output.trim(), "FLOTILLA_TEST_MARKER PATH PWD", "nothing of ours");
}

fn standard_streams_pass_through() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    fs::write(&input, "hello").unwrap();
    let fixture = Fixture::new("cat; echo bad >&2");
    let output = sandbox::command(&fixture.spec).stdin(fs::File::open(&input).unwrap()).run().unwrap();
    assert_eq!((output.text().as_str(), output.stderr.as_slice()), ("hello", &b"bad\n"[..]));
}

fn devices_are_there() {
    let script = "set -e; echo x >/dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c
        test -c /dev/full; test -c /dev/random; test -c /dev/tty; test -c /dev/ptmx; touch /dev/shm/a
        test -d /dev/mqueue; ls /dev/fd/0 >/dev/stdout; stat -c %a /dev/null /tmp /run /dev/shm";
    assert_eq!(Fixture::new(script).run().unwrap(), "4\n4\n/dev/fd/0\n666\n1777\n755\n1777");
}

fn writes_do_not_reach_the_host() {
    let fixture = Fixture::new(
        "set -e; for d in / /etc /tmp /run /var /dev; do echo x >$d/$0; done; rm /etc/passwd; stat -c %a /",
    );
    assert_eq!(fixture.run().unwrap(), "755");
    for dir in ["/", "/etc", "/tmp", "/run", "/var", "/dev"] {
        assert!(!support::exists(Path::new(dir).join(&fixture.marker)), "{dir}");
    }
    assert!(support::exists("/etc/passwd"));
    fixture.assert_no_traces();
}

fn orphans_are_reaped() {
    // Each subshell leaves a child behind, which then belongs to PID 1.
    let script = "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; sleep 0.5; cat /proc/[0-9]*/stat";
    let output = Fixture::new(script).run().unwrap();
    assert!(output.lines().count() >= 2, "{output}");
    assert!(output.lines().all(|line| !line.contains(") Z ")), "{output}");
}

fn what_the_program_left_running_dies_with_it() {
    // The pipes are closed, so that only the processes themselves could stay.
    let fixture = Fixture::new("setsid sh -c 'sleep 60' $0 >/dev/null 2>&1 & exit 3");
    assert_eq!(fixture.exit_code(), Some(3));
    fixture.assert_no_traces();
}

fn binds_are_seen_and_read_only_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (open, closed, file) = (dir.path().join("open"), dir.path().join("closed"), dir.path().join("file"));
    fs::create_dir(&open).unwrap();
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("data"), "data").unwrap();
    fs::write(&file, "file").unwrap();
    let script = "set -e; cat /mnt/new/closed/data /tmp/new/file; echo written >/var/open/out
        for target in /mnt/new/closed/data /mnt/new/closed/more /tmp/new/file; do
            (echo x >$target) 2>/dev/null && echo $target is writable; done; true";
    let mut fixture = Fixture::new(script);
    let bind = |source: &Path, target: &str, read_only| Bind {
        source: source.to_owned(),
        target: target.into(),
        read_only,
    };
    fixture.spec.binds = vec![
        bind(&open, "/var/open", false),
        bind(&closed, "/mnt/new/closed", true),
        bind(&file, "/tmp/new/file", true),
    ];
    assert_eq!(fixture.run().unwrap(), "datafile");
    assert_eq!(fs::read_to_string(open.join("out")).unwrap(), "written\n");
    assert!(!support::exists("/var/open") && !support::exists("/mnt/new"));
    // Read-only inside only.
    fs::write(closed.join("data"), "changed").unwrap();
}

fn links_in_a_bind_target_lead_to_the_sandbox_not_to_the_host() {
    // Not in /tmp, which is another one inside.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, source) = (dir.path().join("root"), dir.path().join("source"));
    let host_folder = dir.path().join("host");
    for folder in [&root, &source, &host_folder] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(source.join("it"), "is here").unwrap();
    // Seen from the host, the link leads to a directory of the host.
    std::os::unix::fs::symlink(&host_folder, root.join("link")).unwrap();
    let mut fixture = Fixture::new("");
    fixture.spec.root = root;
    // This root is empty: show it a program of the host.
    fixture.spec.binds = vec![
        Bind { source, target: "/link/below".into(), read_only: false },
        Bind { source: "/bin".into(), target: "/bin".into(), read_only: true },
        Bind { source: "/lib".into(), target: "/lib".into(), read_only: true },
    ];
    if support::exists("/lib64") {
        fixture.spec.binds.push(Bind { source: "/lib64".into(), target: "/lib64".into(), read_only: true });
    }
    fixture.spec.argv = vec!["/bin/cat".into(), host_folder.join("below/it").to_str().unwrap().into()];
    // The target directory is missing inside: making it follows the link inside the sandbox, where it dangles.
    let error = fixture.run().unwrap_err();
    assert!(error.tail()[0].starts_with("sandbox: cannot make the mount point /link/below: "), "{error:?}");
    assert_eq!(fs::read_dir(&host_folder).unwrap().count(), 0, "nothing was made on the host");
    // With the directory there, inside, it works.
    fs::create_dir_all(fixture.spec.root.join(host_folder.strip_prefix("/").unwrap())).unwrap();
    assert_eq!(fixture.run().unwrap(), "is here");
    assert_eq!(fs::read_dir(&host_folder).unwrap().count(), 0);
}

fn odd_characters_in_paths_are_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join(r"a:b,c\d e=f");
    fs::create_dir_all(odd.join("scratch")).unwrap();
    fs::create_dir_all(odd.join("data")).unwrap();
    fs::write(odd.join("data/it"), "is here").unwrap();
    let mut fixture = Fixture::new("cat '/mnt/x:y,z/it'");
    fixture.spec.scratch = odd.join("scratch");
    fixture.spec.binds =
        vec![Bind { source: odd.join("data"), target: "/mnt/x:y,z".into(), read_only: true }];
    assert_eq!(fixture.run().unwrap(), "is here");
}

fn the_group_bounds_what_is_seen_and_is_removed() {
    let script = "set -e; cat /proc/self/cgroup; cd /sys/fs/cgroup; ls -d * | tr '\\n' ' '
        for d in */; do test -e $d/cgroup.procs && mkdir -p $d/inner/most; done
        mkdir -p inner 2>/dev/null || true; test -e cpuset && cat cpuset/inner/cpuset.cpus; true";
    let fixture = Fixture::new(script).with_cgroup();
    let output = fixture.run().unwrap();
    for line in output.lines().filter(|line| line.matches(':').count() == 2 && !line.starts_with("0:")) {
        assert!(line.ends_with(":/"), "its group is the root inside: {line}");
    }
    fixture.assert_no_traces();
}

fn without_a_group_none_can_be_made() {
    let script =
        "for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do mkdir $d/$0 2>/dev/null && echo $d; done; true";
    assert_eq!(Fixture::new(script).run().unwrap(), "");
}

fn a_missing_root_is_named() {
    let mut fixture = Fixture::new("true").with_cgroup();
    fixture.spec.root = "/not/there".into();
    let error = fixture.run().unwrap_err();
    assert!(
        matches!(error, CommandError::Failed { exit, .. } if i32::from(exit.status()) == EXIT_NOT_MADE),
        "{error:?}"
    );
    let expected = "sandbox: cannot find /not/there to bind it: No such file or directory (os error 2)";
    assert_eq!(error.tail(), [expected]);
    fixture.assert_no_traces();
}

fn a_missing_program_is_named() {
    let mut fixture = Fixture::new("");
    fixture.spec.argv = vec!["no-such-program".into()];
    let error = fixture.run().unwrap_err();
    assert_eq!(error.to_string(), "`no-such-program` failed with exit status 125");
    assert!(error.tail()[0].starts_with("sandbox: cannot start no-such-program: "), "{error:?}");
    fixture.spec.argv = Vec::new();
    assert_eq!(fixture.run().unwrap_err().tail(), ["sandbox: there is no program to run"]);
}

fn an_unknown_binary_is_not_found() {
    let spec: Spec = Fixture::new("true").spec;
    let error = sandbox::command_with(Path::new("/not/there"), &spec).run().unwrap_err();
    assert!(matches!(&error, CommandError::NotFound { program } if program == "/not/there"), "{error:?}");
}

fn cancel_ends_it_and_cleans_up() {
    let fixture = Fixture::new("echo ready; sleep 60").with_cgroup();
    let cancel = Cancel::new();
    let error = sandbox::command(&fixture.spec)
        .cancel(&cancel)
        .stream(|_| {
            let groups = fixture.groups();
            let in_use = |path: &Path| !fs::read_to_string(path.join("cgroup.procs")).unwrap().is_empty();
            assert!(!groups.is_empty() && groups.iter().all(|path| in_use(path)), "{groups:?}");
            let cancel = cancel.clone();
            thread::spawn(move || cancel.cancel()).join().unwrap();
        })
        .unwrap_err();
    assert!(matches!(&error, CommandError::Cancelled { program } if program == "sh"), "{error:?}");
    fixture.assert_no_traces();
}

fn a_program_that_does_not_listen_is_killed_in_the_end() {
    let fixture = Fixture::new("trap '' TERM; echo ready; while :; do sleep 1; done").with_cgroup();
    let cancel = Cancel::new();
    let error = sandbox::command(&fixture.spec).cancel(&cancel).stream(|_| cancel.cancel()).unwrap_err();
    assert!(matches!(error, CommandError::Cancelled { .. }), "{error:?}");
    fixture.assert_no_traces();
}

fn killing_the_caller_leaves_nothing() {
    let fixture = Fixture::new("(sleep 60 &); echo ready; sleep 60").with_cgroup();
    let mut caller = None;
    let error = support::helper(&fixture)
        .stream(|line| match caller {
            None => caller = line.text.parse::<i32>().ok(),
            Some(caller) => {
                assert_eq!(line.text, "ready");
                assert!(!fixture.groups().is_empty() && !fixture.processes().is_empty());
                support::kill(caller);
            }
        })
        .unwrap_err();
    assert!(error.to_string().ends_with("signal 9"), "{error}");
    fixture.assert_no_traces();
}

fn killing_the_supervisor_leaves_no_process_and_the_next_run_cleans_up() {
    let fixture = Fixture::new("mkdir -p /sys/fs/cgroup/pids/inner; echo ready; sleep 60").with_cgroup();
    let error = sandbox::command(&fixture.spec)
        .stream(|_| {
            let is_outer = |pid: &i32| {
                let line = support::words_of(*pid, "cmdline");
                line.split(' ').nth(1) == Some(STAGE_OUTER)
            };
            let outer: Vec<_> = fixture.processes().into_iter().filter(is_outer).collect();
            assert_eq!(outer.len(), 1);
            support::kill(outer[0]);
        })
        .unwrap_err();
    assert!(error.to_string().ends_with("signal 9"), "{error}");
    support::wait_until("its processes are gone", || fixture.processes().is_empty());
    assert!(!fixture.groups().is_empty(), "nobody was left to remove them");

    let mut next = Fixture::new("true");
    next.spec.cgroup.clone_from(&fixture.spec.cgroup);
    next.run().unwrap();
    fixture.assert_no_traces();
}

fn a_plain_program_dies_with_its_killed_caller() {
    let fixture = Fixture::new("");
    let script = "echo ready; exec sleep 60";
    let mut caller = None;
    let helper = Command::new("/proc/self/exe").arg(HELPER_PROGRAM);
    let error = helper
        .args(["sh", "-c", script])
        .env(MARKER, &fixture.marker)
        .stream(|line| match caller {
            None => caller = line.text.parse::<i32>().ok(),
            Some(caller) => support::kill(caller),
        })
        .unwrap_err();
    assert!(error.to_string().ends_with("signal 9"), "{error}");
    fixture.assert_no_traces();
}
