//! The audit log: who ran which command, one line of JSON each, like minikube's. And the log files of single commands.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use flotilla_bundle::hash;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::owned::Directory;
use crate::settings::Settings;

/// minikube's names: its tools look for them.
const AUDIT: &str = "audit.json";
const BEFORE: &str = "audit.1.json";
const LAST_START: &str = "lastStart.txt";
/// A log that is as large is continued in another file.
const LARGE: u64 = 1 << 20;
/// How many commands `logs` shows.
const SHOWN: usize = 30;
/// What stands behind these words is for another program.
const PASSED_ON: [&str; 2] = ["kubectl", "ssh"];
/// Values of settings that are named like this are not written.
const SECRET: [&str; 4] = ["secret", "token", "password", "credential"];

/// A command as it was typed.
#[derive(Debug)]
pub(crate) struct Typed {
    /// The first word: `start`, `node`.
    pub(crate) command: String,
    words: Vec<String>,
    began: Timestamp,
}

impl Typed {
    /// `arguments` begin with the program's name. What stands behind `--` is for another program.
    pub(crate) fn new(command: &str, arguments: &[OsString]) -> Self {
        let own = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        let words = own.take_while(|word| word != "--").collect();
        Self { command: command.to_owned(), words, began: Timestamp::now() }
    }

    /// The arguments without the command, and without secrets.
    fn arguments(&self) -> String {
        let mut words = self.words.clone();
        if let Some(at) = words.iter().position(|word| PASSED_ON.contains(&word.as_str())) {
            words.truncate(at + 1);
        }
        if let Some(at) = words.iter().position(|word| *word == self.command) {
            words.remove(at);
        }
        words.iter().map(|word| without_secret(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Who ran it, about which cluster, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran<'a> {
    pub(crate) user: &'a str,
    pub(crate) profile: &'a str,
    pub(crate) status: u8,
}

fn without_secret(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let named = SECRET.iter().filter_map(|secret| lower.find(secret)).min();
    let value = named.and_then(|at| Some(at + word.get(at..)?.find('=')?));
    value.map_or_else(|| word.to_owned(), |at| format!("{}=***", &word[..at]))
}

/// Where logs are. They are created where minikube's tools look for them, or in a state directory that exists.
fn logs(settings: &Settings) -> io::Result<Directory> {
    match settings.minikube_home {
        Some(_) => settings.minikube_directory()?.below("logs"),
        None => Directory::open(&settings.home, settings.owner)?.below("logs"),
    }
}

/// Adds a line to the audit log. A log that cannot be written fails no command.
pub(crate) fn add(settings: &Settings, typed: &Typed, ran: &Ran<'_>) {
    let now = Timestamp::now();
    let id = format!("{}-{}", std::process::id(), now.as_millisecond());
    let event = json!({
        "specversion": "1.0",
        "id": id,
        "source": "https://flotilla.dev/",
        "type": "io.k8s.sigs.minikube.audit",
        "datacontenttype": "application/json",
        "time": now.to_string(),
        "data": {
            "command": typed.command,
            "args": typed.arguments(),
            "profile": ran.profile,
            "user": ran.user,
            "startTime": typed.began.to_string(),
            "endTime": now.to_string(),
            "exitcode": ran.status.to_string(),
            "version": concat!("v", env!("CARGO_PKG_VERSION")),
            "id": id,
        },
    });
    let append = || -> io::Result<()> {
        let logs = logs(settings)?;
        // A directory of minikube's may have lines of minikube's, which are not ours to drop.
        let is_ours = settings.minikube_home.is_none();
        if is_ours && logs.size(AUDIT).is_some_and(|size| size >= LARGE) {
            logs.rename(AUDIT, BEFORE)?;
        }
        // One write, so that lines of commands at the same time do not mix.
        logs.append(AUDIT)?.write_all(format!("{event}\n").as_bytes())
    };
    let _ = append();
}

/// Keeps what a start said, for `logs`.
pub(crate) fn keep_last_start(settings: &Settings, text: &str) {
    let _ = logs(settings).and_then(|logs| logs.replace(LAST_START, text.as_bytes()));
}

/// What a command said, with its beginning and its end.
pub(crate) fn text(typed: &Typed, said: &str, status: u8) -> String {
    format!(
        "{} flotilla {} {}\n{said}{} exit status {status}\n",
        typed.began,
        typed.command,
        typed.arguments(),
        Timestamp::now()
    )
}

/// Appends to the log file that this command line has in a directory.
pub(crate) fn write_log_file(
    directory: &Path,
    settings: &Settings,
    typed: &Typed,
    text: &str,
) -> io::Result<()> {
    let directory = Directory::open_or_create(directory, settings.owner)?;
    let digest = hash::of_bytes(typed.words.join("\0").as_bytes());
    let prefix = format!("minikube_{}_{}_", typed.command, &digest[..40]);
    let number = |name: &String| name.strip_prefix(&prefix)?.strip_suffix(".log")?.parse::<u32>().ok();
    let last = directory.names()?.iter().filter_map(number).max().unwrap_or_default();
    let name = |number: u32| format!("{prefix}{number}.log");
    let is_large = directory.size(&name(last)).is_some_and(|size| size >= LARGE);
    let name = name(last.saturating_add(u32::from(is_large)));
    directory.append(&name)?.write_all(text.as_bytes())
}

/// Appends to the log file that the user named.
pub(crate) fn append_to(file: &Path, settings: &Settings, text: &str) -> io::Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    Directory::open(parent, settings.owner)?.append(name)?.write_all(text.as_bytes())
}

/// The last commands and the last start, as sections of `logs`.
pub(crate) fn sections(settings: &Settings) -> String {
    let read = |name| logs(settings).and_then(|logs| logs.read(name)).unwrap_or_default();
    let audit = read(AUDIT);
    let lines: Vec<String> = audit.lines().filter_map(line).collect();
    let shown = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    format!("==> Audit <==\n{shown}\n\n==> Last Start <==\n{}", read(LAST_START))
}

fn line(json: &str) -> Option<String> {
    let event: Value = serde_json::from_str(json).ok()?;
    let of = |key| event["data"][key].as_str().unwrap_or_default();
    let (began, user, profile) = (of("startTime"), of("user"), of("profile"));
    Some(format!("{began} {user} {profile}: {} {} ({})", of("command"), of("args"), of("exitcode")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Typed {
        Typed::new("start", &line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn secrets_and_what_is_for_other_programs_are_left_out() {
        let secret = "flotilla -p demo start --extra-config apiserver.oidc-client-Secret=x=y --ha -- more";
        assert_eq!(typed(secret).arguments(), "-p demo --extra-config apiserver.oidc-client-Secret=*** --ha");
        let passed_on = "flotilla --log_dir d kubectl create secret generic x --from-literal a=b";
        assert_eq!(typed(passed_on).arguments(), "--log_dir d kubectl");
    }

    #[test]
    fn a_command_line_has_one_log_file_until_it_is_large() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("logs");
        let settings = Settings::from_environment();
        let count = |line: &str| {
            write_log_file(&path, &settings, &typed(line), "text\n").unwrap();
            std::fs::read_dir(&path).unwrap().count()
        };
        assert_eq!(
            [count("flotilla start"), count("flotilla start"), count("flotilla start -n 2")],
            [1, 1, 2]
        );
        for file in std::fs::read_dir(&path).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!((name.len(), name.ends_with("_0.log")), ("minikube_start__0.log".len() + 40, true));
            std::fs::File::options().write(true).open(path).unwrap().set_len(LARGE).unwrap();
        }
        assert_eq!([count("flotilla start"), count("flotilla start")], [3, 3]);
    }
}
