//! The arguments of `sudo`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::SudoError;

/// What the arguments ask for.
#[derive(Debug)]
pub(super) enum What {
    Run(Call),
    /// There are no credentials to forget or to check.
    Nothing,
    Help,
    Version,
}

/// A command to run; none is a shell.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) directory: Option<OsString>,
    /// A login shell runs the command.
    pub(super) is_login: bool,
    /// A shell runs the command.
    pub(super) is_shell: bool,
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) command: Vec<OsString>,
}

/// Options with their long names.
const OPTIONS: [(char, &str, Kind); 19] = [
    ('A', "askpass", Kind::Harmless),
    ('B', "bell", Kind::Harmless),
    ('E', "preserve-env", Kind::Harmless),
    ('H', "set-home", Kind::Harmless),
    ('N', "no-update", Kind::Harmless),
    ('P', "preserve-groups", Kind::Harmless),
    ('S', "stdin", Kind::Harmless),
    ('n', "non-interactive", Kind::Harmless),
    ('C', "close-from", Kind::HarmlessValue),
    ('p', "prompt", Kind::HarmlessValue),
    ('D', "chdir", Kind::Directory),
    ('g', "group", Kind::Group),
    ('u', "user", Kind::User),
    ('i', "login", Kind::Login),
    ('s', "shell", Kind::Shell),
    ('K', "remove-timestamp", Kind::Credentials),
    ('k', "reset-timestamp", Kind::Credentials),
    ('v', "validate", Kind::Credentials),
    ('V', "version", Kind::Version),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It changes nothing for somebody who is root already.
    Harmless,
    HarmlessValue,
    Directory,
    Group,
    User,
    Login,
    Shell,
    Credentials,
    Version,
}

impl Kind {
    fn has_value(self) -> bool {
        matches!(self, Self::HarmlessValue | Self::Directory | Self::Group | Self::User)
    }
}

impl Call {
    pub(super) fn parse(args: &[OsString]) -> Result<What, SudoError> {
        let mut call = Self::default();
        let (mut credentials, mut version) = (false, false);
        let mut args = args.iter().map(OsString::as_os_str);
        let mut words: Vec<OsString> = Vec::new();
        while let Some(arg) = args.next() {
            let text = arg.to_string_lossy();
            if text == "--help" || text == "-h" {
                return Ok(What::Help);
            }
            if text == "--" || !text.starts_with('-') || text == "-" {
                words.extend((text != "--").then(|| arg.to_owned()));
                break;
            }
            for (kind, value) in options(&text)? {
                let value = match value {
                    None if kind.has_value() => {
                        let next =
                            args.next().ok_or_else(|| SudoError::NoValue(text.clone().into_owned()))?;
                        next.to_owned()
                    }
                    value => value.unwrap_or_default().into(),
                };
                let name = || value.to_string_lossy().into_owned();
                match kind {
                    Kind::Harmless | Kind::HarmlessValue => {}
                    Kind::Directory => call.directory = Some(value),
                    Kind::Group => call.group = Some(name()),
                    Kind::User => call.user = Some(name()),
                    Kind::Login => call.is_login = true,
                    Kind::Shell => call.is_shell = true,
                    Kind::Credentials => credentials = true,
                    Kind::Version => version = true,
                }
            }
        }
        words.extend(args.map(OsStr::to_owned));
        let variables = words.iter().map_while(|word| variable(word)).collect::<Vec<_>>();
        call.command = words.split_off(variables.len());
        call.variables = variables;
        let has_command = !call.command.is_empty() || call.is_login || call.is_shell;
        match (has_command, version, credentials) {
            (true, ..) => Ok(What::Run(call)),
            (false, true, _) => Ok(What::Version),
            (false, false, true) => Ok(What::Nothing),
            (false, false, false) => Err(SudoError::NoCommand),
        }
    }
}

/// The options in one argument, with the value that stands in it: `-nE`, `-uroot`, `--user=root`.
fn options(text: &str) -> Result<Vec<(Kind, Option<String>)>, SudoError> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let (.., kind) = OPTIONS.iter().find(|(_, known, _)| *known == name).ok_or_else(|| unknown(text))?;
        return Ok(vec![(*kind, value)]);
    }
    let mut found = Vec::new();
    let mut letters = text[1..].chars();
    while let Some(letter) = letters.next() {
        let (.., kind) = OPTIONS.iter().find(|(known, ..)| *known == letter).ok_or_else(|| unknown(text))?;
        if kind.has_value() {
            let rest = letters.as_str();
            found.push((*kind, Some(rest.to_owned()).filter(|rest| !rest.is_empty())));
            break;
        }
        found.push((*kind, None));
    }
    Ok(found)
}

fn unknown(option: &str) -> SudoError {
    SudoError::Option(option.to_owned())
}

/// `NAME=VALUE`.
fn variable(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&bytes[..at], &bytes[at + 1..]);
    let is_name = name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name.then(|| (OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<What, String> {
        Call::parse(&args.iter().map(OsString::from).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_end_at_the_command() {
        let Ok(What::Run(call)) = parsed(&["-n", "ls", "-u", "x"]) else { panic!() };
        assert_eq!((call.command, call.user), (vec!["ls".into(), "-u".into(), "x".into()], None));
        let Ok(What::Run(call)) = parsed(&["-nu", "root", "-D", "/tmp", "--", "-x"]) else { panic!() };
        assert_eq!((call.command, call.directory), (vec!["-x".into()], Some("/tmp".into())));
    }

    #[test]
    fn what_asks_for_no_command_needs_none() {
        assert!(matches!(parsed(&["-v"]), Ok(What::Nothing)));
        assert!(matches!(parsed(&["-k"]), Ok(What::Nothing)));
        assert!(matches!(parsed(&["-V"]), Ok(What::Version)));
        assert!(matches!(parsed(&["--help"]), Ok(What::Help)));
        assert!(matches!(parsed(&["-k", "ls"]), Ok(What::Run(_))));
    }

    #[test]
    fn what_it_does_not_know_is_an_error() {
        let hint = "`sudo --help` lists those that a node's sudo has";
        assert_eq!(parsed(&["-nb", "ls"]).unwrap_err(), format!("unknown option -nb; {hint}"));
        assert_eq!(parsed(&["--list"]).unwrap_err(), format!("unknown option --list; {hint}"));
        assert_eq!(parsed(&["-u"]).unwrap_err(), "option -u needs a value");
        let missing = "a command is missing: sudo COMMAND, or `sudo -i` for a shell";
        assert_eq!(parsed(&[]).unwrap_err(), missing);
        assert_eq!(parsed(&["A=b"]).unwrap_err(), missing);
    }
}
