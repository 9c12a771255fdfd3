//! Everything that reaches the terminal: data on stdout, all else on stderr.

mod bars;
mod console;
mod events;
mod lines;
mod pace;
mod template;

pub use console::{Captured, Console};
pub(crate) use template::fill_in;

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use anstyle::{AnsiColor, Style};
use flotilla_bundle::BundleError;
use flotilla_core::explain::about;
use flotilla_core::{Code, Event, Reporter};
use flotilla_ops::OpError;
use flotilla_spec::ClusterName;
use serde::Serialize;

use crate::args::Output;
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
    /// What the command is about, once that is known.
    cluster: OnceLock<ClusterName>,
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
    pub(crate) fn new(output: Output, settings: &Settings, console: &Console) -> Self {
        let reader = match output {
            Output::Json => Reader::Json(events::CloudEvents::to(console)),
            Output::Text if settings.progress && console.has_terminal() => Reader::Bars(bars::Bars::new()),
            Output::Text => Reader::Lines(lines::Lines::to(console)),
        };
        let (settings, console) = (settings.clone(), console.clone());
        Self { settings, console, reader, cluster: OnceLock::new(), lost: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
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

    fn named(&self, text: &str) -> String {
        self.cluster.get().map_or_else(|| text.to_owned(), |cluster| about(cluster, text))
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
        match &self.reader {
            Reader::Json(events) => events.result(value),
            Reader::Bars(bars) => {
                bars.clear();
                self.line(&text());
            }
            Reader::Lines(_) => self.line(&text()),
        }
    }

    /// `error[CODE]: …`, then the causes, the details and what can be done.
    pub(crate) fn failure(&self, failure: &OpError) {
        let hints: Vec<_> = failure.hints().iter().map(|hint| self.named(hint)).collect();
        if let Reader::Json(events) = &self.reader {
            return events.failure(failure, &hints);
        }
        let chain = failure.chain();
        let mut lines = vec![format!("{ERROR}error[{}]{ERROR:#}: {}", failure.code().name, chain[0])];
        lines.extend(chain[1..].iter().map(|cause| format!("  caused by: {cause}")));
        lines.extend(failure.details().iter().map(|detail| format!("    {detail}")));
        lines.extend(hints.iter().map(|hint| format!("{HINT}hint{HINT:#}: {hint}")));
        self.say(&lines.join("\n"));
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
        match &self.reader {
            Reader::Bars(bars) => bars.report(event),
            Reader::Lines(lines) => lines.report(event),
            Reader::Json(events) => events.report(event),
        }
    }
}

/// A command line that cannot be read, for a script that asked for JSON.
pub(crate) fn usage_error(code: Code, error: &clap::Error, console: &Console) {
    let text = error.render().to_string();
    let (message, advice) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = message.trim().trim_start_matches("error: ");
    events::CloudEvents::to(console).error(code, message, advice.trim());
}

/// Columns between lines, as minikube shows them.
pub(crate) fn bordered_table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(heading.to_vec());
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
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
