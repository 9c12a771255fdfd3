//! `flotilla ssh`: a program in a node, and somebody who talks to it.

use flotilla_core::{Cluster, Cmd, DriverError, Machine, Node, Session, TtySize};
use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    /// By its full or short name. If none is named, the first word of the command may name it: `flotilla ssh m02`.
    pub node: Option<String>,
    /// A login shell if it is empty.
    pub command: Vec<String>,
    /// The kind of terminal.
    pub term: Option<String>,
    pub streams: Streams,
}

/// Where whoever asks for a program has its streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// On a terminal of this size: the program gets one as well.
    Terminal(TtySize),
    /// Standard output and error in the same place: they come in one stream, in their order.
    Joined,
    #[default]
    Apart,
}

/// Opens the session.
pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Session, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let (node, command) = target(&cluster, request)?;
    let machine = cx.engine(cluster.name()).machine(&cluster, &node.spec.name).await?;
    let words = if command.is_empty() {
        ["-l".to_owned()].to_vec()
    } else {
        vec!["-c".to_owned(), command.join(" ")]
    };
    let mut cmd = Cmd::new(std::iter::once("bash".to_owned()).chain(words));
    cmd.env.extend(request.term.iter().map(|term| ("TERM".to_owned(), term.clone())));
    open(machine.as_ref(), cmd, request.streams).await
}

pub(crate) async fn open(machine: &dyn Machine, cmd: Cmd, streams: Streams) -> Result<Session, OpError> {
    let (cmd, tty) = match streams {
        Streams::Terminal(size) => (cmd, Some(size)),
        Streams::Joined => (joined(cmd), None),
        Streams::Apart => (cmd, None),
    };
    let session = machine.guest().open(cmd, tty).await;
    Ok(session.map_err(|error| EngineError::Driver(DriverError::Guest(error)))?)
}

/// The same program with its errors in its output.
fn joined(cmd: Cmd) -> Cmd {
    let shell = ["sh", "-c", "exec \"$@\" 2>&1", "sh"].map(str::to_owned);
    Cmd { argv: shell.into_iter().chain(cmd.argv).collect(), ..cmd }
}

fn target<'a>(cluster: &Cluster, request: &'a Request) -> Result<(Node, &'a [String]), OpError> {
    if let (None, Some((first, rest))) = (&request.node, request.command.split_first())
        && (looks_like_a_node(cluster, first) || lookup::node(cluster, Some(first)).is_ok())
    {
        let node = lookup::node(cluster, Some(first))?;
        // After the node's name, the command line's parser takes `--` for a word of the command.
        let separated = rest.split_first().filter(|(first, _)| *first == "--");
        return Ok((node, separated.map_or(rest, |(_, command)| command)));
    }
    Ok((lookup::node(cluster, request.node.as_deref())?, &request.command))
}

/// Whether a word has the form of the names that nodes get: `m02`, `demo-m02`. No program has such a name.
fn looks_like_a_node(cluster: &Cluster, word: &str) -> bool {
    let short = word.strip_prefix(&format!("{}-", cluster.name())).unwrap_or(word);
    let number = short.strip_prefix('m').unwrap_or_default();
    number.len() >= 2 && number.bytes().all(|byte| byte.is_ascii_digit())
}
