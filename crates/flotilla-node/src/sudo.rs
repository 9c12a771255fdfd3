//! What answers to the name `sudo` in a node. Logins are root, and nothing in a node is setuid: so it runs a command as it is,
//! for people and scripts that know minikube's nodes. Root can also run one as another user.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Gid, Uid, geteuid};

mod call;
mod user;

use call::{Call, What};
use user::User;

/// What sudo(8) gives when it could not run the command.
const FAILED: i32 = 1;

const USERS: &str = "/etc/passwd";

const HELP: &str = "usage: sudo [-E] [-n] [-H] [-D DIR] [-u USER] [-g GROUP] [-i | -s] [VAR=VALUE …] [COMMAND …]\n\
                    Logins of a node are root: sudo runs the command as it is.";

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SudoError {
    #[error("unknown option {0}; `sudo --help` lists those that a node's sudo has")]
    Option(String),
    #[error("option {0} needs a value")]
    NoValue(String),
    #[error("a command is missing: sudo COMMAND, or `sudo -i` for a shell")]
    NoCommand,
    #[error("unknown {what} {name}")]
    Unknown { what: &'static str, name: String },
    #[error("cannot read {file}")]
    Read { file: &'static str, source: io::Error },
    #[error(
        "cannot become user {0}: nothing in a node is setuid, so only root can; `flotilla ssh` logs in as root"
    )]
    NotRoot(String),
    #[error("{0}: command not found")]
    NotFound(String),
    #[error("cannot run {program}")]
    Run { program: String, source: io::Error },
}

/// Runs `sudo` in a node; gives its exit status if the command could not be run. The arguments are without the program's own
/// name.
pub(crate) fn sudo(args: &[OsString]) -> i32 {
    let printed = |text: &str| {
        // Where nobody reads it, it is lost.
        drop(writeln!(io::stdout(), "{text}"));
        0
    };
    let error = match Call::parse(args) {
        Ok(What::Help) => return printed(HELP),
        Ok(What::Version) => return printed("sudo of flotilla-init: runs a command as it is"),
        Ok(What::Nothing) => return 0,
        Ok(What::Run(call)) => run(&call),
        Err(error) => error,
    };
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    drop(writeln!(io::stderr(), "sudo: {error}{cause}"));
    FAILED
}

/// Becomes the command; gives why it could not.
fn run(call: &Call) -> SudoError {
    let mut command = match prepare(call, geteuid()) {
        Ok(command) => command,
        Err(error) => return error,
    };
    let source = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    match source.kind() {
        io::ErrorKind::NotFound if call.directory.is_none() => SudoError::NotFound(program),
        _ => SudoError::Run { program, source },
    }
}

fn prepare(call: &Call, own: Uid) -> Result<Command, SudoError> {
    let users = std::fs::read_to_string(USERS).map_err(|source| SudoError::Read { file: USERS, source })?;
    let user = User::find(&users, call.user.as_deref().unwrap_or("root"))?;
    if user.uid != own.as_raw() && !own.is_root() {
        return Err(SudoError::NotRoot(user.name));
    }
    let gid = match &call.group {
        Some(group) => user::group(group)?,
        None => user.gid,
    };
    Ok(command(call, &user, gid, own))
}

#[expect(clippy::disallowed_methods, reason = "we become the command: there is no child to look after")]
fn command(call: &Call, user: &User, gid: u32, own: Uid) -> Command {
    let argv = argv(call);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).env("SUDO_UID", own.as_raw().to_string());
    if !own.is_root() || user.uid != own.as_raw() || call.is_login {
        command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
    }
    command.envs(call.variables.iter().map(|(name, value)| (name, value)));
    if call.is_login {
        command.current_dir(&user.home);
    }
    if let Some(directory) = &call.directory {
        command.current_dir(directory);
    }
    if user.uid != own.as_raw() || Gid::from_raw(gid) != rustix::process::getegid() {
        // The other groups of root are left behind as well.
        command.uid(user.uid).gid(gid);
    }
    command
}

/// The command itself, or a shell that gets it.
fn argv(call: &Call) -> Vec<OsString> {
    if !call.is_login && !call.is_shell {
        return call.command.clone();
    }
    let mut argv = vec![OsString::from("/bin/bash")];
    argv.extend(call.is_login.then(|| "-l".into()));
    if !call.command.is_empty() {
        let words: Vec<_> = call.command.iter().map(|word| quoted(word)).collect();
        argv.extend(["-c".into(), words.join(OsStr::new(" "))]);
    }
    argv
}

/// As sudo(8) does it: what means something to a shell is escaped, apart from `$`.
fn quoted(word: &OsStr) -> OsString {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte) || !byte.is_ascii();
    let escaped = |byte: &u8| if is_plain(*byte) { vec![*byte] } else { vec![b'\\', *byte] };
    let bytes: Vec<u8> = word.as_bytes().iter().flat_map(escaped).collect();
    OsStr::from_bytes(&bytes).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Uid = Uid::ROOT;
    const USERS: &str =
        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

    fn call(args: &[&str]) -> Call {
        match Call::parse(&args.iter().map(OsString::from).collect::<Vec<_>>()).unwrap() {
            What::Run(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// The command as it is run by this user, with what is added to its environment.
    fn as_run(args: &[&str], own: Uid) -> String {
        let call = call(args);
        let user = User::find(USERS, call.user.as_deref().unwrap_or("root")).unwrap();
        let command = command(&call, &user, user.gid, own);
        let env = command.get_envs().filter_map(|(name, value)| {
            Some(format!("{}={} ", name.to_str()?, value?.to_str()?)).filter(|it| !it.starts_with("SUDO_"))
        });
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        env.collect::<String>() + &words.join(" ")
    }

    #[test]
    fn root_runs_a_command_as_it_is() {
        for args in [
            &["cat", "/home/docker/x"][..],
            &["-E", "-n", "cat", "/home/docker/x"],
            &["-nEH", "--", "cat", "/home/docker/x"],
            &["-u", "root", "cat", "/home/docker/x"],
            &["--user=0", "cat", "/home/docker/x"],
        ] {
            assert_eq!(as_run(args, ROOT), "cat /home/docker/x", "{args:?}");
        }
    }

    #[test]
    fn variables_before_the_command_are_its_environment() {
        assert_eq!(as_run(&["A=b c", "D=", "env", "E=f"], ROOT), "A=b c D= env E=f");
    }

    #[test]
    fn a_shell_gets_the_words_as_they_are() {
        let home = "HOME=/root LOGNAME=root USER=root ";
        assert_eq!(as_run(&["-i"], ROOT), format!("{home}/bin/bash -l"));
        let expected = format!(r"{home}/bin/bash -l -c echo a\ \|\ b $HOME");
        assert_eq!(as_run(&["-i", "echo", "a | b", "$HOME"], ROOT), expected);
        assert_eq!(as_run(&["-s", "id"], ROOT), "/bin/bash -c id");
    }

    #[test]
    fn another_user_has_a_home_of_its_own() {
        let expected = "HOME=/nonexistent LOGNAME=nobody USER=nobody id -u";
        assert_eq!(as_run(&["-u", "nobody", "id", "-u"], ROOT), expected);
        assert_eq!(as_run(&["-unobody", "id", "-u"], ROOT), expected);
        assert_eq!(as_run(&["-u", "#65534", "id", "-u"], ROOT), expected);
    }

    #[test]
    fn only_root_becomes_somebody_else() {
        let error = prepare(&call(&["-u", "nobody", "id"]), Uid::from_raw(1000)).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot become user nobody: nothing in a node is setuid"),
            "{error}"
        );
        assert!(prepare(&call(&["id"]), Uid::from_raw(1000)).is_err());
        assert!(prepare(&call(&["id"]), ROOT).is_ok());
    }
}
