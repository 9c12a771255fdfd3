//! The pages docs/start/from-*.md are made from the tables, and are kept so by a test.

use std::fmt::Write;

use flotilla_spec::foreign::{FIELDS, Field, Tool};

use super::typed::Token;
use super::{Row, k3d, kind, minikube};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/start");

/// What is typed here as it is typed there.
pub(super) const SAME: [(&str, &[&str]); 3] = [
    (
        "minikube",
        &[
            "start --nodes 3",
            "start --ha",
            "start --cpus 2 --memory 4g",
            "start --kubernetes-version v1.36.4",
            "start --extra-config kubelet.max-pods=50",
            "start --wait all",
            "status",
            "start --apiserver-port 8441",
            "start -c containerd",
            "profile demo",
            "profile list",
            "node add",
            "node add --control-plane",
            "node list",
            "node stop m02",
            "node start m02",
            "node delete m02",
            "pause",
            "unpause",
            "stop",
            "delete",
            "delete --all",
            "kubectl -- get pods -A",
            "ssh -n m02",
            "ip",
            "logs -f",
            "logs --file logs.txt",
            "cp app.conf m02:/etc/app.conf",
            "update-context",
            "version --short",
            "completion bash",
        ],
    ),
    ("kind", &["get clusters", "version", "completion bash"]),
    (
        "k3d",
        &[
            "node list",
            "node create batch",
            "node start m02",
            "node stop m02",
            "node delete m02",
            "version",
            "completion bash",
        ],
    ),
];

struct Page {
    tool: &'static str,
    rows: &'static [Row],
    /// What differs beyond the words.
    differences: &'static [&'static str],
    /// The tool whose config files are translated.
    file: Option<Tool>,
}

const PAGES: [Page; 3] = [
    Page {
        tool: "minikube",
        rows: minikube::ROWS,
        differences: &[
            "Clusters, nodes, flags, `-o json` and exit codes are minikube's where minikube has them; `-p` names the \
             cluster.",
            "Nodes are Linux namespaces of your host instead of containers or virtual machines. `start` needs root.",
            "Each node can have its own size, labels, taints and kubelet. `--control-planes N` creates any number of \
             control planes, and a [file](../cluster-file.md) describes the whole cluster.",
            "`start` builds a [bundle](../bundles.md) of Kubernetes once instead of downloading images.",
            "Flags that change nothing here, such as `--alsologtostderr`, are accepted: \
             [minikube's flags](../reference/minikube-flags.md).",
            "A link named `minikube` to the program makes `minikube` the default cluster, one named `kubectl` is \
             kubectl. With `MINIKUBE_HOME` set, [logs and profiles](../reference/audit-log.md) are where tools for \
             minikube look.",
        ],
        file: None,
    },
    Page {
        tool: "kind",
        rows: kind::ROWS,
        differences: &[
            "Nodes are Linux namespaces of your host and need no Docker. `start` needs root.",
            "Clusters can be stopped and started, and nodes come and go while the cluster runs ([nodes](../nodes.md)).",
            "The context in your kubeconfig is named like the cluster, without `kind-`.",
            "Nodes have addresses that the host reaches, so NodePorts work without port mappings.",
        ],
        file: Some(Tool::Kind),
    },
    Page {
        tool: "k3d",
        rows: k3d::ROWS,
        differences: &[
            "Nodes run Kubernetes as kubeadm builds it, with etcd, instead of k3s: no Traefik, no ServiceLB, no \
             local-path storage.",
            "Nodes are Linux namespaces of your host and need no Docker. `start` needs root.",
            "A server is a control plane, an agent is a worker. Several control planes share a virtual IP instead of a \
             load balancer ([control planes](../control-planes.md)).",
            "The context in your kubeconfig is named like the cluster, without `k3d-`.",
        ],
        file: Some(Tool::K3d),
    },
];

impl Page {
    fn render(&self) -> String {
        let tool = self.tool;
        let mut page = format!(
            "# Coming from {tool}\n\nGenerated from the tables in crates/flotilla/src/foreign; see CONTRIBUTING.md.\n\n\
             Type a line of the left column with `flotilla` instead of `{tool}`, and the error shows the right one.\n\n## What is different\n\n"
        );
        for difference in self.differences {
            let _ = writeln!(page, "- {difference}");
        }
        let (flags, commands): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().filter(|row| !self.has_same_below(row)).partition(|row| row.has_flags());
        self.table(&mut page, "Commands", &commands);
        self.table(&mut page, "Flags", &flags);
        if let Some(file) = self.file {
            let _ = write!(
                page,
                "\n## Files\n\n`flotilla start -f` recognises a config file of {tool}: it changes nothing and prints \
                 the same cluster as a [cluster file](../cluster-file.md).\n\n| {tool} | flotilla |\n| --- | --- |\n"
            );
            for Field { theirs, ours, .. } in FIELDS.iter().filter(|field| field.tool == file) {
                let _ = writeln!(page, "| `{theirs}` | {} |", cell(ours));
            }
        }
        let _ = write!(page, "\n## The same in both\n\n");
        for line in SAME.iter().filter(|(name, _)| *name == tool).flat_map(|(_, lines)| *lines) {
            let _ = writeln!(page, "    flotilla {line}");
        }
        page
    }

    /// Whether a longer command line has the same answer: `addons` and `addons enable`.
    fn has_same_below(&self, row: &Row) -> bool {
        let prefix = format!("{} ", row.typed);
        let is_same = |other: &Row| other.why == row.why && other.here == row.here;
        self.rows.iter().any(|other| other.typed.starts_with(&prefix) && is_same(other))
    }

    fn table(&self, page: &mut String, heading: &str, rows: &[&Row]) {
        let tool = self.tool;
        let _ = write!(page, "\n## {heading}\n\n| {tool} | flotilla | |\n| --- | --- | --- |\n");
        for row in rows {
            let here: Vec<String> = row.here.iter().map(|line| format!("`{}`", cell(line))).collect();
            // In an error the program's name stands before it.
            let why = row.why.strip_prefix("it ").map_or(row.why.to_owned(), |why| format!("flotilla {why}"));
            let _ = writeln!(
                page,
                "| `{tool} {}` | {} | {} |",
                cell(&row.example()),
                here.join("<br>"),
                cell(&why)
            );
        }
    }
}

/// Text that does not end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

impl Row {
    fn has_flags(&self) -> bool {
        self.tokens().iter().any(|token| matches!(token, Token::Flag { .. }))
    }

    /// A command line as the other tool takes it, with the first name of each flag.
    fn example(&self) -> String {
        let words = self.typed.split(' ').map(|word| match word.strip_prefix('<') {
            Some(example) => example.trim_end_matches('>'),
            None if word.starts_with('-') => word.split('/').next().unwrap_or(word),
            None => word,
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the developer asks for the pages to be written")]
fn the_reference_pages_of_other_tools_are_fresh() {
    for page in PAGES {
        let (path, text) = (format!("{DIRECTORY}/from-{}.md", page.tool), page.render());
        if std::env::var_os("FLOTILLA_UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(DIRECTORY).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{path} is stale: FLOTILLA_UPDATE_DOCS=1 cargo test -p flotilla reference");
    }
}
