//! Scripts that run in the guest, as root: the host's end of `recipe/session`.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::wait_until;

/// What became of a script.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: usize,
    pub(super) output: String,
    pub(super) errors: String,
}

pub(super) struct Session {
    stream: BufReader<UnixStream>,
}

impl Session {
    /// Connects to the socket of a machine that has just been switched on.
    pub(super) fn connect(socket: &Path) -> Self {
        let connect = || UnixStream::connect(socket).map_err(|error| error.to_string());
        let stream = wait_until("the guest's session", Duration::from_secs(30), connect);
        Self { stream: BufReader::new(stream) }
    }

    /// Runs a script to its end, however it ends. An error is a guest that did not answer in time.
    #[expect(clippy::print_stdout, reason = "the harness shows it with a failure")]
    pub(super) fn run(&mut self, script: &str, limit: Duration) -> Result<Done, String> {
        let begun = Instant::now();
        println!("---- {script}");
        let done = self.ask(script, limit).map_err(|error| format!("{script}: {error}"));
        println!("     {:.1} s: {}", begun.elapsed().as_secs_f64(), shown(&done));
        done
    }

    fn ask(&mut self, script: &str, limit: Duration) -> Result<Done, String> {
        let failed = |error: std::io::Error| format!("no answer within {} s: {error}", limit.as_secs());
        self.stream.get_ref().set_read_timeout(Some(limit)).map_err(failed)?;
        self.stream.get_mut().write_all(format!("{}\n{script}", script.len()).as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).map_err(failed)?;
        let numbers: Vec<usize> = answer.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let [status, output, errors] = numbers[..] else {
            return Err(format!("the guest hung up after {answer:?}"));
        };
        let mut text = |length: usize| {
            let mut bytes = vec![0; length];
            self.stream.read_exact(&mut bytes).map_err(failed)?;
            Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Done { status, output: text(output)?, errors: text(errors)? })
    }
}

fn shown(done: &Result<Done, String>) -> String {
    match done {
        Ok(Done { status, output, errors }) => format!("exit status {status}\n{output}{errors}"),
        Err(error) => error.clone(),
    }
}
