//! `flotilla ssh`: what to run in which node.

use std::sync::Arc;

use flotilla_core::{Cluster, Machine, Node};
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
}

/// A program to run in a machine that is on, with the streams of whoever asked for it.
pub struct Program {
    pub machine: Arc<dyn Machine>,
    pub argv: Vec<String>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("node", self.machine.name()).field("argv", &self.argv).finish()
    }
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Program, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let (node, command) = target(&cluster, request)?;
    let machine = cx.engine().machine(cluster.name(), &node.spec.name).await?;
    let words = if command.is_empty() {
        ["-l".to_owned()].to_vec()
    } else {
        vec!["-c".to_owned(), command.join(" ")]
    };
    Ok(Program { machine, argv: std::iter::once("bash".to_owned()).chain(words).collect() })
}

fn target<'a>(cluster: &Cluster, request: &'a Request) -> Result<(Node, &'a [String]), OpError> {
    if let (None, Some((first, rest))) = (&request.node, request.command.split_first())
        && let Ok(node) = lookup::node(cluster, Some(first))
    {
        // After the node's name, the command line's parser takes `--` for a word of the command.
        let separated = rest.split_first().filter(|(first, _)| *first == "--");
        return Ok((node, separated.map_or(rest, |(_, command)| command)));
    }
    Ok((lookup::node(cluster, request.node.as_deref())?, &request.command))
}
