//! The host's go, on a module proxy made here.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use flotilla_core::Cancel;
use flotilla_core::event::Reporter;
use flotilla_core::{Event, Explain};
use tempfile::TempDir;

use super::*;
use crate::build::Clients;
use crate::fixture::Events;
use crate::lock::Lock;

#[test]
fn versions_compare_by_number() {
    assert!(older("go1.9.7", "1.26.0"));
    assert!(older("go1.25.9", "1.26.0"));
    assert!(!older("go1.26.0", "1.26.0"));
    assert!(!older("go1.26.8", "1.26.0"));
    assert!(!older("go1.27", "1.26.0"));
    assert!(!older("go1.27rc1", "1.26.6"));
    assert!(older("go1.27rc1", "1.27.0"));
    assert!(!older("devel go1.28-0123456789", "1.26.6"));
    assert!(!older("go1.26.8 X:nodwarf5", "1.26.6"));
}

#[test]
fn stamps_are_filled_in() {
    let stamp = Stamp { version: "v1.37.1", date: "2026-09-23" };
    assert_eq!(stamp.fill("{version} {major} {minor} {date}"), "v1.37.1 1 37 2026-09-23");
}

#[test]
fn the_newest_language_of_all_components_is_the_one_needed() {
    let lock = Lock::parse(&recipe::lock_text()).unwrap();
    for version in lock.release.keys() {
        let components = Component::of_release(&lock, version).unwrap();
        let newest = newest_language(&components);
        let each: Vec<String> =
            components.iter().map(|one| newest_language(std::slice::from_ref(one))).collect();
        assert!(each.contains(&newest), "{newest} of {each:?}");
        assert!(each.iter().all(|one| !older(&newest, one)), "{newest} of {each:?}");
        assert!(older("go1.20.14", &newest) && !older("go2.0", &newest), "{newest}");
    }
    assert_eq!(newest_language(&[]), "");
}

#[test]
fn the_locks_checksum_must_be_the_one_in_go_sum() {
    let lock = Lock::parse(&recipe::lock_text()).unwrap();
    for component in Component::of_release(&lock, &lock.default).unwrap() {
        let Kind::Go { how, pin } = &component.kind else { continue };
        let files = recipe::go_module(&component.name, &component.version);
        check_sum(&component, how, pin, &files).unwrap();
        let forged = GoPin { sum: "h1:forged".into(), ..pin.clone() };
        let error = check_sum(&component, how, &forged, &files).unwrap_err();
        assert_eq!(error.code().exit_status, 40);
        let BundleError::Checksum { expected, actual, .. } = error else { panic!("{error}") };
        assert_eq!((expected.as_str(), &actual), ("h1:forged", &pin.sum));
        check_sum(&component, how, pin, &[]).unwrap_err();
    }
}

const MODULE: &str = "example.com/tool";
const VERSION: &str = "v1.0.0";
/// Imports nothing: less to compile.
const PROGRAM: &str =
    "package main\n\nvar version, major = \"none\", \"none\"\n\nfunc main() { println(version, major) }\n";

/// A module proxy in a directory, with one module, and a module of ours that pins it.
struct Workbench {
    dir: TempDir,
    source: BuildSource,
    cancel: Cancel,
}

impl Workbench {
    /// None if the host has no go.
    fn new(program: &str) -> Option<Self> {
        if Command::new("go").arg("version").run().is_err() {
            flotilla_testkit::skip("there is no go");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let cancel = Cancel::new();
        let proxy = format!("file://{}", dir.path().join("proxy").display());
        let env = [("GOPROXY", proxy.as_str()), ("GOSUMDB", "off"), ("GONOPROXY", ""), ("GOPRIVATE", "")];
        let env = env.into_iter().chain([("GOTOOLCHAIN", "local"), ("GOENV", "off")]);
        let clients =
            Clients { cancel: cancel.clone(), env: env.map(|(k, v)| (k.into(), v.into())).collect() };
        let source = BuildSource::with_clients(dir.path().join("cache"), clients);
        let bench = Self { dir, source, cancel };
        for directory in ["module", "out", "scratch", "cache/go"] {
            fs::create_dir_all(bench.path(directory)).unwrap();
        }
        // What go compiles of itself is the same for all tests, and for the next run of them.
        let shared = std::env::current_exe().unwrap().with_file_name("flotilla-bundle-test-go-cache");
        fs::create_dir_all(&shared).unwrap();
        std::os::unix::fs::symlink(shared, bench.path("cache/go/build")).unwrap();
        // Another program each time: it is in no cache and must be compiled.
        bench.publish(&format!("{program}\n// {:?}\n", std::time::SystemTime::now()));
        bench.pin();
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts the module into the proxy.
    fn publish(&self, program: &str) {
        let directory = self.path("proxy").join(MODULE).join("@v");
        fs::create_dir_all(&directory).unwrap();
        let go_mod = format!("module {MODULE}\n\ngo 1.20\n");
        let files = [("go.mod", go_mod.as_str()), ("cmd/hello/main.go", program)];
        let files = files.map(|(name, content)| (format!("{MODULE}@{VERSION}/{name}"), content));
        fs::write(directory.join("list"), format!("{VERSION}\n")).unwrap();
        let info = format!(r#"{{"Version":"{VERSION}","Time":"2026-11-05T10:00:00Z"}}"#);
        fs::write(directory.join(format!("{VERSION}.info")), info).unwrap();
        fs::write(directory.join(format!("{VERSION}.mod")), &go_mod).unwrap();
        fs::write(directory.join(format!("{VERSION}.zip")), zip(&files)).unwrap();
    }

    /// Writes our go.mod and go.sum, with the checksums that go itself computes.
    fn pin(&self) {
        let go_mod = format!("module flotilla.dev/bundle/test\n\ngo 1.20\n\nrequire {MODULE} {VERSION}\n");
        fs::write(self.path("module/go.mod"), go_mod).unwrap();
        let download = self.go().args(["mod", "download", "-json", &format!("{MODULE}@{VERSION}")]);
        let answer: serde_json::Value = serde_json::from_slice(&download.run().unwrap().stdout).unwrap();
        let sum = |name: &str| answer[name].as_str().unwrap().to_owned();
        let go_sum =
            format!("{MODULE} {VERSION} {}\n{MODULE} {VERSION}/go.mod {}\n", sum("Sum"), sum("GoModSum"));
        fs::write(self.path("module/go.sum"), go_sum).unwrap();
        fs::remove_dir_all(self.path("cache/go/mod")).unwrap();
    }

    fn go(&self) -> Command {
        let (files, scratch) = (self.path("out"), self.path("scratch"));
        let at = Workplace { files: &files, scratch: &scratch };
        self.source.go(self.path("module"), &at).env("CGO_ENABLED", "0")
    }

    fn compile(&self, how: &GoComponent, reporter: &dyn Reporter) -> Result<(), CommandError> {
        let stamp = Stamp { version: VERSION, date: "2026-11-05T10:00:00Z" };
        compile(&|| self.go(), how, &stamp, &self.path("out"), &Step::start(reporter, "go", "", None))
    }

    /// Whether the module is in go's cache: as it was downloaded, or unpacked.
    fn keeps_module(&self) -> bool {
        let cache = self.path("cache/go/mod");
        let zip = cache.join("cache/download").join(MODULE).join(format!("@v/{VERSION}.zip"));
        zip.exists() || cache.join(format!("{MODULE}@{VERSION}")).exists()
    }
}

fn hello() -> GoComponent {
    GoComponent {
        module: MODULE.into(),
        programs: vec![format!("{MODULE}/cmd/hello")],
        rename: BTreeMap::new(),
        tags: vec!["netgo".into()],
        cgo: false,
        stamp: BTreeMap::new(),
        seconds: 1,
        versions: BTreeMap::new(),
    }
}

fn component() -> Component {
    let pin = GoPin { sum: String::new(), recipe: String::new(), date: String::new() };
    Component { name: "tool".into(), version: VERSION.into(), kind: Kind::Go { how: hello(), pin } }
}

#[test]
fn a_program_is_built_stamped_and_renamed() {
    let Some(bench) = Workbench::new(PROGRAM) else { return };
    let stamps = [("main.version", "{version}"), ("main.major", "{major}")];
    let stamp = stamps.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let rename = BTreeMap::from([("hello".to_owned(), "tool".to_owned())]);
    let how = GoComponent { stamp: stamp.into(), rename, ..hello() };
    let events = Events::default();
    bench.compile(&how, &events).unwrap();
    assert_eq!(crate::fixture::names_in(&bench.path("out")), ["tool"]);
    let output = Command::new(bench.path("out/tool")).run().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "v1.0.0 1\n");

    let events = events.into_inner().unwrap();
    let details = events.iter().filter_map(|event| match event {
        Event::StepProgress { detail, .. } => Some(detail.as_str()),
        _ => None,
    });
    let details: Vec<&str> = details.collect();
    assert_eq!(details.first(), Some(&"downloading example.com/tool v1.0.0"));
    assert_eq!(details.last(), Some(&"linking example.com/tool/cmd/hello"));
    assert!(bench.keeps_module());
}

#[test]
fn a_module_that_is_not_what_go_sum_says_is_refused_and_not_kept() {
    let Some(bench) = Workbench::new(PROGRAM) else { return };
    let go_sum = fs::read_to_string(bench.path("module/go.sum")).unwrap();
    let pinned = go_sum.lines().next().unwrap().rsplit(' ').next().unwrap();
    let zip = bench.path("proxy").join(MODULE).join(format!("@v/{VERSION}.zip"));
    let good = fs::read(&zip).unwrap();
    bench.publish(&PROGRAM.replace("none", "evil"));
    let error = checksum_error(&component(), bench.compile(&hello(), &Events::default()).unwrap_err());
    assert_eq!(error.code().exit_status, 40, "{error:?}");
    let BundleError::Checksum { component, what, expected, actual } = &error else { panic!("{error:?}") };
    assert_eq!((component.as_str(), what.as_str()), ("tool v1.0.0", "the module example.com/tool@v1.0.0"));
    assert_eq!(expected, pinned);
    assert!(actual.starts_with("h1:") && actual != expected, "{actual}");
    assert!(!bench.keeps_module());
    assert!(crate::fixture::names_in(&bench.path("out")).is_empty());

    // When the right one is offered again, nothing is in its way.
    fs::write(zip, good).unwrap();
    bench.compile(&hello(), &Events::default()).unwrap();
}

#[test]
fn a_module_whose_go_mod_is_not_what_go_sum_says_is_refused() {
    let Some(bench) = Workbench::new(PROGRAM) else { return };
    let go_mod = bench.path("proxy").join(MODULE).join(format!("@v/{VERSION}.mod"));
    fs::write(go_mod, format!("module {MODULE}\n\ngo 1.21\n")).unwrap();
    let error = checksum_error(&component(), bench.compile(&hello(), &Events::default()).unwrap_err());
    let BundleError::Checksum { what, .. } = &error else { panic!("{error:?}") };
    assert_eq!(what, "the module example.com/tool@v1.0.0/go.mod");
}

#[test]
fn a_program_that_does_not_compile_is_reported_in_gos_words() {
    let Some(bench) = Workbench::new("package main\n\nfunc main() { undefined() }\n") else { return };
    let error = checksum_error(&component(), bench.compile(&hello(), &Events::default()).unwrap_err());
    assert_eq!(error.code().exit_status, 10);
    assert!(error.details().iter().any(|line| line.contains("undefined: undefined")), "{error:?}");
}

/// Cancels when the compiler has begun with the program.
struct CancelAtCompile {
    cancel: Cancel,
    seen: Mutex<bool>,
}

impl Reporter for CancelAtCompile {
    fn report(&self, event: Event) {
        if matches!(event, Event::StepProgress { detail, .. } if detail.ends_with("cmd/hello")) {
            *self.seen.lock().unwrap() = true;
            self.cancel.cancel();
        }
    }
}

#[test]
fn a_cancelled_build_ends_at_once_as_an_interruption() {
    // Takes the compiler long enough to be met at work, if nothing stopped it.
    let functions =
        (0..20_000).map(|n| format!("func f{n}(a, b int) int {{ return a*{n} + f{}(b, a) }}\n", n / 2));
    let program =
        format!("{PROGRAM}\n{}\nfunc init() {{ println(f19999(1, 2)) }}\n", functions.collect::<String>());
    let Some(bench) = Workbench::new(&program) else { return };
    let reporter = CancelAtCompile { cancel: bench.cancel.clone(), seen: Mutex::new(false) };
    let error = checksum_error(&component(), bench.compile(&hello(), &reporter).unwrap_err());
    assert!(*reporter.seen.lock().unwrap(), "cancelled before the compiler began");
    assert_eq!((error.code().name, error.code().exit_status), ("INTERRUPTED", 130), "{error}");
    assert!(crate::fixture::names_in(&bench.path("out")).is_empty());
}

/// A zip of these files, not compressed.
fn zip(files: &[(String, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let offset = number(out.len());
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]; // version 2.0, plain, stored, 1980-01-01
        fields.extend(crc32(content.as_bytes()).to_le_bytes());
        fields.extend([number(content.len()), number(content.len())].concat());
        fields.extend(&number(name.len())[..2]);
        fields.extend([0, 0]); // nothing extra
        out.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), content.as_bytes()].concat());
        // No comment, first disk, no attributes.
        directory.extend([b"PK\x01\x02\x14\x00", &fields[..], &[0; 10], &offset, name.as_bytes()].concat());
    }
    let start = number(out.len());
    let count = &number(files.len())[..2];
    out.extend(&directory);
    out.extend([b"PK\x05\x06\0\0\0\0", count, count, &number(directory.len()), &start, &[0, 0]].concat());
    out
}

fn number(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap().to_le_bytes()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}
