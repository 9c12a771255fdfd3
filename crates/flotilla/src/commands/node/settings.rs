//! What a node may have of its own: from what was typed to its spec.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flotilla_spec::error::SpecError;
use flotilla_spec::quantity::parse_disk;
use flotilla_spec::{Cpus, HostMount, HostPort, Labels, Memory, NodeSpec, Taint};

use crate::args::NodeSettingsArgs;
use crate::commands::start::request::parsed;

/// Whether there is anything yet that can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    NewNode,
    KnownNode,
}

/// What is to be different about a node. What is not named stays.
#[derive(Debug)]
pub(super) struct Settings {
    cpus: Option<Cpus>,
    memory: Option<Memory>,
    disk: Option<u64>,
    labels: Edits<Labels, String>,
    taints: Edits<Taint, GoneTaint>,
    mounts: Edits<HostMount, PathBuf>,
    ports: Edits<HostPort, HostPort>,
}

/// What comes, and what goes.
#[derive(Debug)]
struct Edits<Come, Go> {
    come: Vec<Come>,
    go: Vec<Go>,
}

/// Taints with a key; with one effect, or with any.
#[derive(Debug)]
struct GoneTaint {
    key: String,
    effect: Option<&'static str>,
}

impl Settings {
    /// Reads every argument; what is wrong with them joins the other problems.
    pub(super) fn parse(args: &NodeSettingsArgs, of: Of, problems: &mut Vec<SpecError>) -> Self {
        Self {
            cpus: parsed(problems, args.cpus.as_deref(), str::parse),
            memory: parsed(problems, args.memory.as_deref(), str::parse),
            disk: parsed(problems, args.disk_size.as_deref(), parse_disk),
            labels: edits(problems, of, &args.labels, str::parse, gone_label),
            taints: edits(problems, of, &args.taints, str::parse, gone_taint),
            mounts: edits(problems, of, &args.mount, str::parse, gone_mount),
            ports: edits(problems, of, &args.port, str::parse, str::parse),
        }
    }

    pub(super) fn apply_to(&self, node: &mut NodeSpec) -> Result<(), SpecError> {
        node.cpus = self.cpus.unwrap_or(node.cpus);
        node.memory = self.memory.unwrap_or(node.memory);
        node.disk = self.disk.or(node.disk);

        let mut labels = BTreeMap::from(node.labels.clone());
        labels.retain(|key, _| !self.labels.go.contains(key));
        labels.extend(self.labels.come.iter().cloned().flat_map(BTreeMap::from));
        node.labels = labels.try_into()?;

        node.taints.retain(|taint| !self.taints.go.iter().any(|gone| gone.is(taint)));
        for taint in &self.taints.come {
            let place = |known: &Taint| (known.key(), known.effect()) == (taint.key(), taint.effect());
            match node.taints.iter_mut().find(|known| place(known)) {
                Some(known) => known.clone_from(taint),
                None => node.taints.push(taint.clone()),
            }
        }
        // Two new ones in one place are not settled here: the check of the spec tells.
        let Edits { come, go } = &self.mounts;
        let replaced =
            |target: &PathBuf| go.contains(target) || come.iter().any(|mount| mount.target == *target);
        node.mounts.retain(|mount| !replaced(&mount.target));
        node.mounts.extend_from_slice(come);

        let Edits { come, go } = &self.ports;
        let closes =
            |gone: &HostPort, known: &HostPort| (gone.host, gone.protocol) == (known.host, known.protocol);
        node.ports.retain(|known| !go.iter().any(|gone| closes(gone, known)));
        node.ports.retain(|known| !come.iter().any(|port| port.collides(known)));
        node.ports.extend_from_slice(come);
        Ok(())
    }
}

impl GoneTaint {
    fn is(&self, taint: &Taint) -> bool {
        self.key == taint.key() && self.effect.is_none_or(|effect| effect == taint.effect())
    }
}

/// Reads words of which those that end with `-` take something away, as kubectl has it; a folder may end with it as well.
fn edits<Come, Go>(
    problems: &mut Vec<SpecError>,
    of: Of,
    words: &[String],
    come: impl Fn(&str) -> Result<Come, SpecError>,
    go: impl Fn(&str) -> Result<Go, SpecError>,
) -> Edits<Come, Go> {
    let mut edits = Edits { come: Vec::new(), go: Vec::new() };
    for word in words.iter().filter(|word| !word.is_empty()) {
        match word.strip_suffix('-').filter(|_| of == Of::KnownNode && come(word).is_err()) {
            Some(gone) => edits.go.extend(parsed(problems, Some(gone), &go)),
            None => edits.come.extend(parsed(problems, Some(word), &come)),
        }
    }
    edits
}

fn gone_label(key: &str) -> Result<String, SpecError> {
    // A key is good if it can be that of a label; `key=value-` was a slip.
    let is_key = !key.contains('=') && format!("{key}=").parse::<Labels>().is_ok();
    if is_key { Ok(key.to_owned()) } else { Err(SpecError::Label { given: format!("{key}-") }) }
}

fn gone_taint(text: &str) -> Result<GoneTaint, SpecError> {
    if let Ok(taint) = text.parse::<Taint>() {
        return Ok(GoneTaint { key: taint.key().to_owned(), effect: Some(taint.effect()) });
    }
    let is_key = format!("{text}:NoSchedule").parse::<Taint>().is_ok() && !text.contains('=');
    let bad = || SpecError::Taint { given: format!("{text}-") };
    if is_key { Ok(GoneTaint { key: text.to_owned(), effect: None }) } else { Err(bad()) }
}

/// By the folder in the node.
fn gone_mount(text: &str) -> Result<PathBuf, SpecError> {
    if text.starts_with('/') && !text.contains(':') {
        return Ok(PathBuf::from(text));
    }
    Err(SpecError::Mount { given: format!("{text}-") })
}

#[cfg(test)]
mod tests {
    use flotilla_spec::Role;

    use super::*;

    fn args(labels: &str, taints: &str, mount: &[&str], port: &[&str]) -> NodeSettingsArgs {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let split = |words: &str| words.split(',').map(str::to_owned).collect();
        NodeSettingsArgs {
            cpus: None,
            memory: None,
            disk_size: None,
            labels: split(labels),
            taints: split(taints),
            mount: owned(mount),
            port: owned(port),
        }
    }

    fn changed(node: &NodeSpec, of: Of, args: &NodeSettingsArgs) -> Result<NodeSpec, Vec<SpecError>> {
        let mut problems = Vec::new();
        let settings = Settings::parse(args, of, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut node = node.clone();
        settings.apply_to(&mut node).unwrap();
        Ok(node)
    }

    fn told(node: &NodeSpec) -> String {
        let listed = |items: Vec<String>| items.join(",");
        format!(
            "{}\n{}\n{}\n{}",
            node.labels,
            listed(node.taints.iter().map(ToString::to_string).collect()),
            listed(node.mounts.iter().map(ToString::to_string).collect()),
            listed(node.ports.iter().map(ToString::to_string).collect()),
        )
    }

    #[test]
    fn what_is_named_comes_changes_or_goes_and_the_rest_stays() {
        let plain = NodeSpec::plain("a".parse().unwrap(), Role::Worker);
        let new = args(
            "disk=hdd,zone=a,rack=",
            "gpu=yes:NoSchedule,gpu=yes:NoExecute,batch:NoSchedule,old:NoExecute",
            &["/srv:/www", "/usr:/host/usr:ro", "/a:/b-"],
            &["8080:80", "5353:53/udp", "0.0.0.0:9090:90", "5353:53"],
        );
        let node = changed(&plain, Of::NewNode, &new).unwrap();
        insta::assert_snapshot!(told(&node), @"
        disk=hdd,rack=,zone=a
        gpu=yes:NoSchedule,gpu=yes:NoExecute,batch:NoSchedule,old:NoExecute
        /srv:/www,/usr:/host/usr:ro,/a:/b-
        8080:80,5353:53/udp,0.0.0.0:9090:90,5353:53
        ");
        let update = args(
            "disk=ssd,zone-,nothing-",
            "gpu=no:NoSchedule,batch:NoSchedule-,old-",
            &["/other:/www:ro", "/host/usr-"],
            &["8080:81", "5353/udp-", "9090-"],
        );
        let node = changed(&node, Of::KnownNode, &update).unwrap();
        insta::assert_snapshot!(told(&node), @"
        disk=ssd,rack=
        gpu=no:NoSchedule,gpu=yes:NoExecute
        /a:/b-,/other:/www:ro
        5353:53,8080:81
        ");
        // Once more it changes nothing.
        assert_eq!(changed(&node, Of::KnownNode, &update).unwrap().labels, node.labels);
        assert_eq!(changed(&node, Of::KnownNode, &args("", "", &[], &[])).unwrap(), node);
    }

    #[test]
    fn from_a_new_node_nothing_can_be_taken_away() {
        let plain = NodeSpec::plain("a".parse().unwrap(), Role::Worker);
        let problems =
            changed(&plain, Of::NewNode, &args("disk-", "gpu-", &["/www-"], &["8080-"])).unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let plain = NodeSpec::plain("a".parse().unwrap(), Role::Worker);
        let bad = args("a=b-,a b-", "gpu=yes-,gpu:Never-", &["www-"], &["x-", "70000:1"]);
        let problems = changed(&plain, Of::KnownNode, &bad).unwrap_err();
        let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        "a=b-" is not a label
        "a b-" is not a label
        "gpu=yes-" is not a taint
        "gpu:Never-" is not a taint
        "www-" is not a mount of a host's folder
        "x" is not a port to forward
        "70000:1" is not a port to forward
        "#);
    }
}
