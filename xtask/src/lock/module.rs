//! The module of ours that builds one version of a Go component.
//!
//! Go takes `go`, `godebug` and `replace` from the main module alone. Ours is the main module, so what upstream
//! says there has to be said again.

use std::collections::BTreeSet;
use std::fmt::Write;

use flotilla_bundle::lock::GoComponent;
use serde::Deserialize;

/// Where Kubernetes keeps the modules that it publishes one by one.
const STAGING: &str = "./staging/src/";

/// What is taken over from upstream's go.mod, as `go mod edit -json` prints it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Upstream {
    go: String,
    // `go help mod edit` spells it Godebug, go 1.26 prints GoDebug.
    #[serde(alias = "GoDebug")]
    godebug: Option<Vec<Godebug>>,
    replace: Option<Vec<Replace>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Godebug {
    key: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Replace {
    old: Target,
    new: Target,
}

/// A module, or a directory if there is no version on the right-hand side of a replacement.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Target {
    path: String,
    version: Option<String>,
}

/// The go.mod from which `go mod tidy` makes the whole.
pub(super) fn render(name: &str, component: &GoComponent, version: &str, upstream: &Upstream) -> String {
    let module = format!("flotilla.dev/bundle/{name}");
    let mut text = format!("module {module}\n\ngo {}\n", upstream.go);
    for Godebug { key, value } in upstream.godebug.iter().flatten() {
        let _ = write!(text, "\ngodebug {key}={value}\n");
    }
    let tools: Vec<_> = component.programs.iter().filter(|program| **program != module).collect();
    // A program outside the component's module is a module itself (etcdctl), of the same version.
    let main = &component.module;
    let modules: BTreeSet<_> =
        tools.iter().copied().filter(|tool| !tool.starts_with(main)).chain([main]).collect();
    block(&mut text, "require", modules.into_iter().map(|path| format!("{path} {version}")));
    block(&mut text, "tool", tools.into_iter().cloned());
    block(
        &mut text,
        "replace",
        upstream.replace.iter().flatten().filter_map(|line| replacement(line, version)),
    );
    text
}

/// One line of upstream's `replace`, as it holds outside upstream's source tree.
fn replacement(Replace { old, new }: &Replace, version: &str) -> Option<String> {
    let left = match &old.version {
        Some(version) => format!("{} {version}", old.path),
        None => old.path.clone(),
    };
    if let Some(path) = new.path.strip_prefix(STAGING) {
        // v1.37.1 of Kubernetes publishes them as v0.37.1.
        let published = version.strip_prefix("v1.")?;
        return Some(format!("{left} => {path} v0.{published}"));
    }
    // Any other directory is a module of the same repository: the published one is required in its own version.
    Some(format!("{left} => {} {}", new.path, new.version.as_ref()?))
}

fn block(text: &mut String, keyword: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        let _ = write!(text, "\n{keyword} (\n\t{}\n)\n", lines.join("\n\t"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(text: &str) -> GoComponent {
        toml::from_str(&format!("seconds = 1\n{text}")).unwrap()
    }

    fn upstream(json: &str) -> Upstream {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn kubernetes_takes_its_staging_modules_as_published() {
        let component = component(
            r#"module = "k8s.io/kubernetes"
            programs = ["k8s.io/kubernetes/cmd/kubeadm", "k8s.io/kubernetes/cmd/kubelet"]"#,
        );
        let upstream = upstream(
            r#"{"Go": "1.26.0", "GoDebug": [{"Key": "default", "Value": "go1.26"}], "Replace": [
                {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}}]}"#,
        );
        assert_eq!(
            render("kubernetes", &component, "v1.37.1", &upstream),
            "module flotilla.dev/bundle/kubernetes

go 1.26.0

godebug default=go1.26

require (
\tk8s.io/kubernetes v1.37.1
)

tool (
\tk8s.io/kubernetes/cmd/kubeadm
\tk8s.io/kubernetes/cmd/kubelet
)

replace (
\tk8s.io/api => k8s.io/api v0.37.1
)
"
        );
    }

    #[test]
    fn programs_that_are_modules_are_required_and_local_replacements_left_out() {
        let component = component(
            r#"module = "go.etcd.io/etcd/server/v3"
            programs = ["go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3"]"#,
        );
        let upstream = upstream(
            r#"{"Go": "1.26", "GoDebug": null, "Replace": [
                {"Old": {"Path": "go.etcd.io/etcd/api/v3"}, "New": {"Path": "../api"}}]}"#,
        );
        assert_eq!(
            render("etcd", &component, "v3.7.0", &upstream),
            "module flotilla.dev/bundle/etcd

go 1.26

require (
\tgo.etcd.io/etcd/etcdctl/v3 v3.7.0
\tgo.etcd.io/etcd/server/v3 v3.7.0
)

tool (
\tgo.etcd.io/etcd/server/v3
\tgo.etcd.io/etcd/etcdctl/v3
)
"
        );
    }

    #[test]
    fn our_own_program_is_no_tool_and_forks_are_kept() {
        let component = component(
            r#"module = "github.com/coredns/coredns"
            programs = ["flotilla.dev/bundle/coredns"]"#,
        );
        let upstream = upstream(
            r#"{"Go": "1.25.0", "Replace": [
                {"Old": {"Path": "a.b/c", "Version": "v1.0.0"}, "New": {"Path": "d.e/f", "Version": "v1.0.1"}}]}"#,
        );
        assert_eq!(
            render("coredns", &component, "v1.14.6", &upstream),
            "module flotilla.dev/bundle/coredns

go 1.25.0

require (
\tgithub.com/coredns/coredns v1.14.6
)

replace (
\ta.b/c v1.0.0 => d.e/f v1.0.1
)
"
        );
    }
}
