//! What commands about a cluster's file share.

use std::io;
use std::path::Path;

use flotilla_core::Event;
use flotilla_ops::OpError;
use flotilla_ops::change::{FileError, Plan};
use flotilla_ops::file::{FileText, read_file, read_text};
use serde_json::{Value, json};

use crate::cluster::Cx;
use crate::screen::Screen;
use crate::wiring::Wiring;

/// Reads a file, and prepares for a command about its cluster. Touches nothing.
pub(crate) fn open<'a>(
    profile: Option<&str>,
    path: &Path,
    screen: &'a Screen,
    wiring: &'a Wiring,
) -> Result<(Cx<'a>, FileText), OpError> {
    let text = read(path)?;
    let cluster = text.parse(&wiring.bundles.default_version(), &wiring.host)?.name;
    if let Some(given) = profile.filter(|given| *given != cluster.as_ref()) {
        let (file, given) = (cluster.to_string(), given.to_owned());
        return Err(FileError::OtherCluster { file, given }.into());
    }
    Ok((Cx::new(cluster.as_ref(), screen, wiring)?, text))
}

/// A file, or standard input.
fn read(path: &Path) -> Result<FileText, FileError> {
    let directory = path.parent().unwrap_or(path).to_owned();
    if path.as_os_str() == "-" {
        let name = "standard input".to_owned();
        return Ok(FileText { text: read_text(&name, io::stdin())?, name, directory });
    }
    Ok(FileText { text: read_file(path)?, name: path.display().to_string(), directory })
}

/// A line for each change.
pub(crate) fn lines(plan: &Plan) -> String {
    plan.changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(crate) fn to_json(plan: &Plan) -> Value {
    let changes = plan.changes.iter().map(|change| {
        let mut value = json!(change);
        value["text"] = json!(change.to_string());
        value["possible"] = json!(change.obstacle().is_none());
        value
    });
    json!({"cluster": plan.wanted.name.as_ref(), "changes": changes.collect::<Vec<_>>()})
}

/// A person has to know when nobody can write.
pub(crate) fn tell_outages(cx: &Cx, plan: &Plan) {
    for text in plan.outages() {
        cx.screen.reporter().report(Event::Note { text });
    }
}

/// Shows what would change, and asks unless `yes` was given.
pub(crate) fn agreed(cx: &Cx, yes: bool, plan: &Plan) -> Result<bool, OpError> {
    if !cx.screen.is_json() {
        cx.screen.line(&lines(plan));
    }
    tell_outages(cx, plan);
    if yes {
        return Ok(true);
    }
    let yes = cx
        .screen
        .ask(&format!("Apply these changes to cluster {}?", cx.name))
        .ok_or(FileError::NobodyToAsk)?;
    if !yes {
        cx.screen.line("nothing was changed");
    }
    Ok(yes)
}
