//! Everything that reaches the terminal: data on stdout, all else on stderr.

mod bars;
mod console;
mod escape;
mod events;
mod lines;
mod log;
mod pace;
mod streams;
mod template;

pub use console::{Captured, Console};
pub(crate) use escape::Escape;
pub(crate) use lines::Stream;
pub(crate) use streams::Sink;
pub(crate) use template::fill_in;

use std::ffi::OsString;
use std::io;
use std::iter;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use anstyle::{AnsiColor, Style};
use flotilla_bundle::BundleError;
use flotilla_core::explain::{DEFAULT_CLUSTER, about, named, profile_flag, with_typed};
use flotilla_core::{Code, Event, Reporter};
use flotilla_ops::OpError;
use flotilla_spec::ClusterName;
use serde::Serialize;

use crate::args::Output;
use crate::foreign::Answer;
use crate::settings::Settings;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();
const DONE: Style = AnsiColor::Green.on_default();

/// Where a command's answers, progress and errors go.
pub(crate) struct Screen {
    settings: Settings,
    console: Console,
    reader: Reader,
    /// The command line, for hints that repeat it.
    typed: String,
    log: log::Log,
    /// What the command is about, once that is known.
    cluster: OnceLock<ClusterName>,
    /// The cluster of commands that name none.
    default: String,
    /// Why data could not be written.
    lost: Mutex<Option<io::Error>>,
}

/// Who reads the event stream.
enum Reader {
    Bars(bars::Bars),
    Lines(lines::Lines),
    Json(events::CloudEvents),
}

impl Screen {
    /// `arguments` begin with the program's own name.
    pub(crate) fn new(
        output: Output,
        progress: Stream,
        arguments: &[OsString],
        settings: &Settings,
        console: &Console,
    ) -> Self {
        let reader = match output {
            Output::Json => Reader::Json(events::CloudEvents::to(console)),
            Output::Text if settings.progress && console.has_terminal() => Reader::Bars(bars::Bars::new()),
            Output::Text => Reader::Lines(lines::Lines::to(console, progress)),
        };
        let (settings, console) = (settings.clone(), console.clone());
        let typed = command_line(&settings.program, arguments);
        Self {
            settings,
            console,
            reader,
            typed,
            log: log::Log::default(),
            cluster: OnceLock::new(),
            default: DEFAULT_CLUSTER.to_owned(),
            lost: Mutex::default(),
        }
    }

    /// Commands in hints are about this cluster if they name none.
    pub(crate) fn with_default(mut self, cluster: &str) -> Self {
        cluster.clone_into(&mut self.default);
        self
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn console(&self) -> &Console {
        &self.console
    }

    /// The name of the cluster that the command is about.
    pub(crate) fn cluster(&self) -> Option<&ClusterName> {
        self.cluster.get()
    }

    /// What the command has said so far, for a log file.
    pub(crate) fn logged(&self) -> String {
        self.log.all()
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.reader, Reader::Json(_))
    }

    pub(crate) fn reporter(&self) -> &dyn Reporter {
        self
    }

    /// From here on, commands in hints, notes and warnings are about this cluster.
    pub(crate) fn is_about(&self, cluster: &ClusterName) {
        self.cluster.get_or_init(|| cluster.clone());
    }

    /// A text with commands that can be pasted.
    pub(crate) fn named(&self, text: &str) -> String {
        let text = with_typed(text, &self.typed);
        match self.cluster.get() {
            // Without its name a command would be about another one.
            Some(cluster) if self.default != DEFAULT_CLUSTER => named(cluster, &text),
            Some(cluster) => about(cluster, &text),
            None => text,
        }
    }

    /// What a command about this cluster needs: ` -p NAME`, or nothing for the default cluster, unless
    /// a user has selected another one.
    pub(crate) fn profile_flag(&self, cluster: &ClusterName) -> String {
        if self.default == DEFAULT_CLUSTER { profile_flag(cluster) } else { format!(" -p {cluster}") }
    }

    /// A line of data.
    pub(crate) fn line(&self, text: &str) {
        match self.console.out(text) {
            // A reader that went away is a quiet end.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            _ => {}
        }
    }

    /// A line of data that somebody else wrote. On a terminal only what is visible text is shown as it is.
    pub(crate) fn foreign_line(&self, text: &str) {
        if self.console.shows_data() { self.line(&escape::text(text)) } else { self.line(text) }
    }

    /// Data for scripts.
    pub(crate) fn json(&self, value: &impl Serialize) {
        self.line(&serde_json::to_string_pretty(value).expect("what we print is plain data"));
    }

    /// Something a user may want to know beside the data, and what can be done about it.
    pub(crate) fn note(&self, text: &str, hint: &str) {
        self.say(&format!("{text}\n{HINT}hint{HINT:#}: {}", self.named(hint)));
    }

    /// What can be done next.
    pub(crate) fn hint(&self, hint: &str) {
        self.say(&format!("{HINT}hint{HINT:#}: {}", self.named(hint)));
    }

    /// Something that is wrong beside the data. On stderr even with `-o json`: stdout is for the data alone.
    pub(crate) fn warning(&self, text: &str, hint: &str) {
        self.note(&format!("{WARNING}warning{WARNING:#}: {text}"), hint);
    }

    /// Asks a user, yes or no. None where there is nobody to ask.
    pub(crate) fn ask(&self, question: &str) -> Option<bool> {
        if self.is_json() {
            return None;
        }
        if let Reader::Bars(bars) = &self.reader {
            bars.clear();
        }
        self.console.ask(question)
    }

    /// Takes the progress bars off the terminal. For a thread that ends the program.
    pub(crate) fn bars_remover(&self) -> impl Fn() + Send + 'static {
        let bars = match &self.reader {
            Reader::Bars(bars) => Some(bars.remover()),
            _ => None,
        };
        move || {
            if let Some(remove) = &bars {
                remove();
            }
        }
    }

    /// The end of a command that went well, unless its data did not arrive where it was sent.
    pub(crate) fn finish(&self) -> Result<(), OpError> {
        match self.lost.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(source) => {
                Err(BundleError::Io { action: "write to", path: "standard output".into(), source }.into())
            }
            None => Ok(()),
        }
    }

    /// How a command that changes things ended: a sentence, or with `-o json` the last event.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let text = text();
        self.log.text(&text);
        match &self.reader {
            Reader::Json(events) => events.result(value),
            Reader::Bars(bars) => {
                bars.clear();
                self.line(&text);
            }
            Reader::Lines(_) => self.line(&text),
        }
    }

    /// `error[CODE]: …`, then the causes, the details and what can be done.
    pub(crate) fn failure(&self, failure: &OpError) {
        let hints: Vec<_> = failure.hints().iter().map(|hint| self.named(hint)).collect();
        let details: Vec<_> = failure.details().iter().map(|detail| self.named(detail)).collect();
        let chain = failure.chain();
        let mut lines = vec![format!("{ERROR}error[{}]{ERROR:#}: {}", failure.code().name, chain[0])];
        lines.extend(chain[1..].iter().map(|cause| format!("  caused by: {cause}")));
        lines.extend(details.iter().map(|detail| format!("    {detail}")));
        lines.extend(hints.iter().map(|hint| format!("{HINT}hint{HINT:#}: {hint}")));
        let text = lines.join("\n");
        self.log.text(&text);
        match &self.reader {
            Reader::Json(events) => events.failure(failure, &details, &hints),
            _ => self.say(&text),
        }
    }

    /// Writes to stderr, where there may be bars.
    fn say(&self, text: &str) {
        if let Reader::Bars(bars) = &self.reader {
            bars.clear();
        }
        self.console.err(text);
    }
}

impl Reporter for Screen {
    fn report(&self, event: Event) {
        let event = match event {
            Event::Note { text } => Event::Note { text: self.named(&text) },
            Event::Warning { text } => Event::Warning { text: self.named(&text) },
            other => other,
        };
        self.log.event(&event);
        match &self.reader {
            Reader::Bars(bars) => bars.report(event),
            Reader::Lines(lines) => lines.report(event),
            Reader::Json(events) => events.report(event),
        }
    }
}

/// A command as a shell reads it, with the program's path.
fn command_line(program: &Path, arguments: &[OsString]) -> String {
    let arguments = arguments.iter().skip(1).map(|argument| argument.to_string_lossy());
    let words = std::iter::once(program.to_string_lossy()).chain(arguments);
    words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A command line that cannot be read, for a script that asked for JSON.
pub(crate) fn usage_error(code: Code, error: &clap::Error, console: &Console) {
    let text = error.render().to_string();
    let (message, advice) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = message.trim().trim_start_matches("error: ");
    events::CloudEvents::to(console).error(code, message, advice.trim());
}

/// A command line of another tool, and what to type instead.
pub(crate) fn foreign_words(code: Code, answer: &Answer, wants_json: bool, console: &Console) {
    if wants_json {
        events::CloudEvents::to(console).error(code, &answer.message, &answer.hints.join("\n"));
        return;
    }
    let error = format!("{ERROR}error[{}]{ERROR:#}: {}", code.name, answer.message);
    let hints = answer.hints.iter().map(|hint| format!("{HINT}hint{HINT:#}: {hint}"));
    console.err(&iter::once(error).chain(hints).collect::<Vec<_>>().join("\n"));
}

/// Columns between lines, as minikube shows them.
pub(crate) fn bordered_table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(heading.to_vec());
    for row in rows {
        table.add_row(row);
    }
    let table = table.to_string();
    // The line below the heading, also above and below all.
    let border = table.lines().nth(1).unwrap_or_default();
    format!("{border}\n{table}\n{border}")
}

/// Columns under a heading, as `kubectl get` shows them.
pub(crate) fn table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(heading.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_command_line_can_be_pasted() {
        let typed = ["flotilla", "ssh", "-p", "demo", "--", "echo it's $HOME", ""].map(OsString::from);
        let line = command_line(Path::new("/opt/flotilla"), &typed);
        assert_eq!(line, r"/opt/flotilla ssh -p demo -- 'echo it'\''s $HOME' ''");
    }
}
