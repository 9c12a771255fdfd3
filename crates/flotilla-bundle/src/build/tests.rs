//! What a part is named after, and what compilers see of the user's environment.

use std::fs;
use std::path::Path;

use flotilla_testkit::write_program;

use super::*;
use crate::fixture;
use crate::lock::Lock;
use crate::recipe;

fn components() -> Vec<Component> {
    let lock = Lock::parse(&recipe::lock_text()).unwrap();
    Component::of_release(&lock, &lock.default).unwrap()
}

fn tools(source: &BuildSource, name: &str) -> BTreeMap<String, String> {
    source.tools(components().iter().find(|component| component.name == name).unwrap())
}

fn names(tools: &BTreeMap<String, String>) -> Vec<&str> {
    tools.keys().map(String::as_str).collect()
}

#[test]
fn a_part_is_named_after_what_leaves_its_mark_in_it() {
    let source = BuildSource::new("/nowhere".into(), Cancel::new());
    // Whatever is added here makes everybody build Kubernetes again.
    assert_eq!(names(&tools(&source, "kubernetes")), ["arch", "flotilla-build", "go"]);
    assert_eq!(tools(&source, "kubernetes")["flotilla-build"], "2");
    assert_eq!(names(&tools(&source, "runc")), ["arch", "flotilla-build", "gcc", "go", "libc"]);
    assert_eq!(names(&tools(&source, "pause")), ["arch", "flotilla-build", "gcc", "libc"]);
    assert_eq!(names(&tools(&source, "userland")), ["arch", "flotilla-build", "packages"]);
}

/// A directory with a gcc that has this C library.
fn compiler_with_library(directory: &Path, library: &str) -> BuildSource {
    fs::write(directory.join("libc.a"), library).unwrap();
    let answer =
        format!("case $1 in *=libc.a) echo {}/libc.a;; *=*) echo ${{1#*=}};; esac", directory.display());
    write_program(&directory.join("gcc"), &format!("#!/bin/sh\n{answer}\n"));
    let path = format!("{}:/usr/bin:/bin", directory.display());
    let clients = Clients { cancel: Cancel::new(), env: vec![("PATH".into(), path)] };
    BuildSource::with_clients(directory.join("cache"), clients)
}

#[test]
fn another_c_library_makes_another_runc_and_pause() {
    let dir = fixture::directory();
    let library = |content: &str, component: &str| {
        tools(&compiler_with_library(dir.path(), content), component)["libc"].clone()
    };
    for component in ["runc", "pause"] {
        assert_eq!(library("old", component), library("old", component));
        assert_ne!(library("old", component), library("fixed", component));
    }
}

/// Prints the variables that a compiler gets, and Go's own settings.
#[test]
#[ignore = "run by the next test, in an environment of its own"]
fn print_what_a_compiler_sees() {
    let dir = fixture::directory();
    let source = BuildSource::new(dir.path().to_owned(), Cancel::new());
    let at = Workplace { files: dir.path(), scratch: dir.path() };
    for name in source.compiler("env").run().unwrap().text().lines() {
        println!("gcc sees {name}");
    }
    if let Ok(settings) = source.go("/", &at).arg("env").run() {
        settings.text().lines().for_each(|line| println!("go has {line}"));
    }
}

#[test]
fn nothing_of_a_persons_settings_reaches_a_compiler_but_the_way_to_the_network() {
    let home = fixture::directory();
    let settings = home.path().join(".config/go");
    fs::create_dir_all(&settings).unwrap();
    let file = "GOPROXY=file:///my/proxy\nGOPRIVATE=my.example.com\nGOAMD64=v3\nGOFLAGS=-tags=mine\n";
    fs::write(settings.join("env"), file).unwrap();
    let foreign = [
        ("GOAMD64", "v4"),
        ("GOARM64", "v9.5"),
        ("GOOS", "plan9"),
        ("GOARCH", "mips"),
        ("GOEXPERIMENT", "mine"),
        ("GODEBUG", "mine=1"),
        ("CGO_CFLAGS", "-DMINE"),
        ("CC", "my-compiler"),
        ("CPATH", "/my/include"),
        ("LIBRARY_PATH", "/my/lib"),
        ("GCC_EXEC_PREFIX", "/my/gcc/"),
    ];
    let network = [("HTTPS_PROXY", "http://127.0.0.1:9"), ("SSL_CERT_FILE", "/my/certificates")];
    let program = std::env::current_exe().unwrap();
    let helper = "build::tests::print_what_a_compiler_sees";
    let command = Command::new(program).args(["--exact", helper, "--ignored", "--nocapture"]);
    let command = command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env_remove("GOENV");
    let command = command.env_remove("GOPROXY").env_remove("GOPRIVATE");
    let command =
        foreign.iter().chain(&network).fold(command, |command, (name, value)| command.env(name, value));
    let seen = command.run().unwrap().text();
    for (name, _) in foreign {
        assert!(!seen.contains(&format!("gcc sees {name}=")), "{seen}");
    }
    for (name, value) in network {
        assert!(seen.contains(&format!("gcc sees {name}={value}")), "{seen}");
    }
    assert!(seen.contains("gcc sees PATH=") && seen.contains("gcc sees HOME="), "{seen}");
    if !seen.contains("go has ") {
        flotilla_testkit::skip("there is no go");
        return;
    }
    for expected in [
        "GOPROXY='file:///my/proxy'",
        "GOPRIVATE='my.example.com'",
        "GOFLAGS='-modcacherw'",
        "GOOS='linux'",
        "GOENV=''",
        "GOTOOLCHAIN='local'",
        "CC='gcc'",
        "GOEXPERIMENT=''",
    ] {
        assert!(seen.contains(&format!("go has {expected}")), "no {expected} in {seen}");
    }
    let variant = if crate::image::architecture() == "arm64" { "GOARM64='v8.0'" } else { "GOAMD64='v1'" };
    assert!(seen.contains(variant) && !seen.contains("MINE"), "{seen}");
}
