//! What a node may have of its own: from what was typed to its settings.

use std::path::PathBuf;

use flotilla_ops::node::settings::{Edits, GoneTaint, Settings};
use flotilla_spec::error::SpecError;
use flotilla_spec::quantity::parse_disk;
use flotilla_spec::{Labels, Taint};

use crate::args::NodeSettingsArgs;
use crate::commands::start::request::parsed;

/// Whether there is anything yet that can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    NewNode,
    KnownNode,
}

/// Reads every argument; what is wrong with them joins the other problems.
pub(super) fn parse(args: &NodeSettingsArgs, of: Of, problems: &mut Vec<SpecError>) -> Settings {
    Settings {
        cpus: parsed(problems, args.cpus.as_deref(), str::parse),
        memory: parsed(problems, args.memory.as_deref(), str::parse),
        disk: parsed(problems, args.disk_size.as_deref(), parse_disk),
        labels: edits(problems, of, &args.labels, str::parse, gone_label),
        taints: edits(problems, of, &args.taints, str::parse, gone_taint),
        mounts: edits(problems, of, &args.mount, str::parse, gone_mount),
        ports: edits(problems, of, &args.port, str::parse, str::parse),
    }
}

/// Reads words of which those that end with `-` take something away, as kubectl has it; a directory may end with it as well.
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
        return Ok(GoneTaint { key: taint.key().to_owned(), effect: Some(taint.effect().to_owned()) });
    }
    let is_key = format!("{text}:NoSchedule").parse::<Taint>().is_ok() && !text.contains('=');
    let bad = || SpecError::Taint { given: format!("{text}-") };
    if is_key { Ok(GoneTaint { key: text.to_owned(), effect: None }) } else { Err(bad()) }
}

/// By the directory in the node.
fn gone_mount(text: &str) -> Result<PathBuf, SpecError> {
    if text.starts_with('/') && !text.contains(':') {
        return Ok(PathBuf::from(text));
    }
    Err(SpecError::Mount { given: format!("{text}-") })
}

#[cfg(test)]
mod tests {
    use flotilla_spec::{NodeSpec, Role};

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
        let settings = parse(args, of, &mut problems);
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
        "www-" is not a mount
        "x" is not a port to publish
        "70000:1" is not a port to publish
        "#);
    }
}
