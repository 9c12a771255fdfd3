//! The bundle does what it is for: its containerd, started on a hard-linked store, runs every image kubeadm asks for.

use std::fs;
use std::path::Path;

use flotilla_linux::sandbox::{self, Bind, Spec};
use serde_json::Value;

use crate::lab;

/// Runs in the bundle's own root. Every line that begins with `==` names what follows.
const SCRIPT: &str = r#"
set -u
containerd --log-level=warn 2>/tmp/containerd.log & daemon=$!
until ctr version >/dev/null 2>&1; do kill -0 $daemon || { cat /tmp/containerd.log; exit 1; }; sleep 0.05; done
echo "== wanted"; kubeadm config images list --kubernetes-version "$VERSION"
echo "== cri"; crictl images -o json
echo "== check"; ctr -n k8s.io images check
i=0
for image in $(kubeadm config images list --kubernetes-version "$VERSION"); do
  i=$((i + 1))
  name=${image##*/}; name=${name%%:*}
  case $name in
    pause) program="/pause -v" ;;
    coredns) program="/coredns -version" ;;
    *) program="$name --version" ;;
  esac
  echo "== run $image"
  ctr -n k8s.io run --rm --cgroup "/run-$i" "$image" "run-$i" $program 2>&1
  echo "exit $?"
done
echo "== end"
kill $daemon; wait $daemon
"#;

pub(crate) fn every_image_kubeadm_asks_for_is_there_unpacked_and_starts() {
    let bundle = lab::bundle();
    let home = lab::home();
    let store = home.path().join("store");
    link_store(&bundle.join("store"), &store);
    let scratch = home.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let spec = Spec {
        root: bundle.join("rootfs"),
        scratch,
        binds: vec![Bind { source: store, target: "/var/lib/containerd".into(), read_only: false }],
        hostname: "boot".into(),
        cgroup: Some(format!("flotilla/e2e-{}", std::process::id())),
        argv: ["/bin/bash", "-c", SCRIPT].map(str::to_owned).into(),
        env: vec![("VERSION".into(), lab::VERSION.into())],
    };
    let program = Path::new(env!("CARGO_BIN_EXE_flotilla"));
    let text = sandbox::command_with(program, &spec).run().unwrap().text();
    let section = |name: &str| -> Vec<&str> {
        let lines = text.lines().skip_while(|line| *line != format!("== {name}")).skip(1);
        lines.take_while(|line| !line.starts_with("== ")).collect()
    };

    let wanted = section("wanted");
    assert_eq!(wanted.len(), 7, "{text}");
    let images: Value = serde_json::from_str(&section("cri").join("\n")).unwrap();
    let known: Vec<&str> = images["images"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|image| image["repoTags"].as_array().unwrap())
        .map(|tag| tag.as_str().unwrap())
        .collect();
    for image in wanted {
        assert!(known.contains(&image), "the kubelet's runtime does not know {image}: {known:?}");
        let check = section("check").into_iter().find(|line| line.starts_with(image)).unwrap().to_owned();
        assert!(check.ends_with("true"), "not unpacked: {check}");
        let run = section(&format!("run {image}")).join("\n");
        assert!(run.ends_with("exit 0"), "{image}: {run}");
        let tag = image.rsplit(':').next().unwrap().trim_start_matches('v').trim_end_matches("-0");
        assert!(run.contains(tag), "{image} says another version: {run}");
    }
    // Nothing was written to the bundle through the links.
    lab::succeed(&lab::real_home(), &["bundle", "verify", lab::digest()]);
}

/// Images as hard links, and copies of the databases: nothing is written to the bundle but by programs in its images.
fn link_store(from: &Path, to: &Path) {
    lab::link_tree(from, to);
    for database in
        ["io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"]
    {
        lab::replace(&to.join(database), |_| ());
    }
}
