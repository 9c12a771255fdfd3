//! What a node says to commands of the host: on the terminal, in files that are copied, without end.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use super::field::{Field, reached};
use super::watched::Watched;
use super::{Attack, Stopped, Tried};
use crate::lab::Terminal;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "escape sequences in a log",
        none: Stopped,
        user: Stopped,
        why: "`logs` escapes control characters on a terminal",
        run: escapes,
    },
    Attack {
        name: "a log of 200 GB",
        none: Stopped,
        user: Stopped,
        why: "only the end of a log is read",
        run: |field| {
            let log = "/var/log/flotilla/attack.log";
            field.ssh(&format!("truncate -s 200G {log}"));
            let tried = Watched::run(field.cluster.command(&["node", "logs", &field.worker])).tried();
            field.ssh(&format!("rm {log}"));
            tried
        },
    },
    Attack {
        name: "output of `ssh` without end",
        none: Stopped,
        user: Stopped,
        why: "it is passed on, not kept",
        run: |field| {
            let line = "dd if=/dev/zero bs=1M count=400 2>/dev/null";
            Watched::run(field.cluster.command(&["ssh", "-n", &field.worker, "--", line])).tried()
        },
    },
    Attack {
        name: "programs of the node that print without end, where commands run them",
        none: Stopped,
        user: Stopped,
        why: "output is limited",
        run: |field| replaced_programs(field, "exec yes attack"),
    },
    Attack {
        name: "programs of the node that never end, where commands run them",
        none: Stopped,
        user: Stopped,
        why: "each has a time limit on the host's side",
        run: |field| replaced_programs(field, "trap \"\" TERM INT HUP; sleep 1000"),
    },
    Attack {
        name: "names, links and modes that `cp` meets",
        none: Stopped,
        user: Stopped,
        why: "`cp` writes plain files below the target, without special modes",
        run: copies,
    },
    Attack {
        name: "names outside the target from a program that `cp` runs",
        none: Stopped,
        user: Stopped,
        why: "`cp` takes plain names only",
        run: forged_names,
    },
    Attack {
        name: "a program to run on the host, in the node's kubeconfig",
        none: Stopped,
        user: Stopped,
        why: "only certificates and keys are taken from it",
        run: kubeconfig,
    },
];

fn escapes(field: &Field) -> Tried {
    field.ssh("printf 'attack \\033]0;attack\\007\\033[41m\\033[2J\\n' > /var/log/flotilla/attack.log");
    let terminal = Terminal::run(&field.cluster.command(&["node", "logs", &field.worker]), (40, 200));
    let (_, seen) = terminal.end();
    field.ssh("rm /var/log/flotilla/attack.log");
    assert!(seen.contains("attack "), "the log is not shown: {seen}");
    reached(seen.contains("\x1b]0;") || seen.contains("\x1b[2J"), "the terminal's title and screen")
}

/// Programs that commands run in a node, before the real ones on the path.
fn replaced_programs(field: &Field, script: &str) -> Tried {
    const PROGRAMS: &str = "sh bash find tail tar stat ip curl crictl";
    // They are the real ones again when the host says so: there is no shell left to ask.
    field.ssh(&format!(
        "rm -f off; cat > fake <<'END'
#!/usr/bin/busybox sh
name=${{0##*/}}; test $name != bash || name=sh
test ! -e /var/attack/off || exec /usr/bin/busybox $name \"$@\"
{script}
END
        chmod 755 fake; mount --bind fake {}; for program in {PROGRAMS}; do cp fake /usr/local/sbin/$program; done",
        field.init()
    ));
    // Not `logs` and `cp`, which go on for as long as the node has something to show or to copy, until Ctrl-C.
    let commands: [&[&str]; 2] = [&["status"], &["node", "list"]];
    let mut seen = Vec::new();
    for args in commands {
        match Watched::run(field.cluster.command(args)).tried() {
            Tried::Works(how) => seen.push(format!("{args:?}: {how}")),
            Tried::Stopped(how) | Tried::Impossible(how) => println_(args, &how),
        }
    }
    fs::write(field.disk().join("var/attack/off"), "").unwrap();
    field.ssh(&format!("cd /usr/local/sbin; umount {}; rm -f {PROGRAMS}", field.init()));
    reached(!seen.is_empty(), seen.join("; "))
}

#[expect(clippy::print_stdout, reason = "the harness shows it with a failure")]
fn println_(args: &[&str], how: &str) {
    println!("    {args:?}: {how}");
}

fn copies(field: &Field) -> Tried {
    let outside = field.host.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let out = outside.to_str().unwrap();
    field.ssh(&format!(
        "rm -rf /var/attack/out; mkdir /var/attack/out; cd /var/attack/out
        printf x > 'a\nb'; printf x > -rf; printf x > \"$(printf 'e\\033[2J')\"; printf x > '..x'; printf x > 'back\\slash'
        cp /bin/busybox setuid; chmod 6755 setuid; mkfifo pipe; mknod zero c 1 5
        ln -s {out} linked; ln -s /dev/null device; ln -s ../../../../../../../../etc/shadow shadow; mkdir -m 7777 sub; printf x > sub/file"
    ));
    let [target, trap] = ["target", "trap"].map(|name| field.host.path().join(name));
    // Something of the name of a directory that is to come, which leads out.
    fs::create_dir_all(trap.join("out")).unwrap();
    std::os::unix::fs::symlink(&outside, trap.join("out/sub")).unwrap();
    fs::create_dir(&target).unwrap();
    let source = format!("{}:/var/attack/out", field.worker);
    let into =
        |target: &Path| Watched::run(field.cluster.command(&["cp", &source, target.to_str().unwrap()]));
    into(&trap);
    let copy = into(&target);
    assert!(target.join("out/setuid").exists(), "nothing was copied: {}", copy.output);
    let mut wrong = Vec::new();
    if let Tried::Works(how) = copy.tried() {
        wrong.push(how);
    }
    // What was a link is a directory or a file by the time that it is copied to where its link is.
    field
        .ssh("cd /var/attack/out; rm linked device; mkdir linked; printf x > linked/evil; printf x > device");
    let copied = target.join("out");
    for name in ["linked", "device"] {
        let source = format!("{}:/var/attack/out/{name}", field.worker);
        Watched::run(field.cluster.command(&["cp", &source, copied.to_str().unwrap()]));
    }
    if copied.join("device").is_symlink() {
        wrong.push("a device of the host through a link".to_owned());
    }
    if fs::read_dir(&outside).unwrap().next().is_some() {
        wrong.push("a file outside the target".to_owned());
    }
    let mut directories = vec![target.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let kind = metadata.file_type();
            if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
                wrong.push(format!("special: {}", path.display()));
            }
            if !kind.is_symlink() && metadata.permissions().mode() & 0o7000 != 0 {
                wrong.push(format!("mode {:o}: {}", metadata.permissions().mode(), path.display()));
            }
            if kind.is_dir() {
                directories.push(path);
            }
        }
    }
    fs::remove_dir_all(&target).unwrap();
    field.ssh("rm -rf /var/attack/out");
    reached(!wrong.is_empty(), format!("{wrong:?}; {}", copy.output.replace('\n', " ")))
}

/// Whatever program lists a directory, it prints what the node wants.
fn forged_names(field: &Field) -> Tried {
    let outside = field.host.path().join("forged");
    let out = outside.to_str().unwrap();
    field.ssh(&format!(
        "mkdir -p /var/attack/src; echo x > /var/attack/src/file
        cat > /var/attack/fake <<'END'
#!/bin/busybox sh
case $* in
*-print0*) printf '.\\0../../forged\\0{out}\\0' ;;
*) printf '41ed\\n81a4\\n81a4\\n' ;;
esac
END
        chmod 755 /var/attack/fake; cp /var/attack/fake /usr/local/sbin/find"
    ));
    let target = field.host.path().join("into");
    fs::create_dir(&target).unwrap();
    let source = format!("{}:/var/attack/src", field.worker);
    let copy = Watched::run(field.cluster.command(&["cp", &source, target.to_str().unwrap()]));
    field.ssh("rm /usr/local/sbin/find");
    let is_out =
        outside.exists() || Path::new("/forged").exists() || field.host.path().join("../forged").exists();
    fs::remove_dir_all(&target).unwrap();
    reached(is_out, copy.output.replace('\n', " "))
}

/// In the primary, whose administrator's file is read.
fn kubeconfig(field: &Field) -> Tried {
    let mark = field.host.path().join("ran");
    let cluster = field.cluster;
    cluster.ssh(&format!(
        "cp /etc/kubernetes/admin.conf /root/admin.conf
        printf '    exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{}], interactiveMode: Never}}\\n' >> /etc/kubernetes/admin.conf",
        mark.display()
    ));
    fs::remove_file(cluster.kubeconfig()).unwrap();
    cluster.run(&["update-context"]);
    let written = fs::read_to_string(cluster.kubeconfig()).unwrap_or_default();
    let _ = cluster.try_kubectl(&["get", "nodes"]);
    cluster.ssh("mv /root/admin.conf /etc/kubernetes/admin.conf");
    fs::write(cluster.kubeconfig(), crate::faults::KUBECONFIG).unwrap();
    cluster.succeed(&["update-context"]);
    reached(mark.exists() || written.contains("exec:"), "a program of the node's choice")
}
