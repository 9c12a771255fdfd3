//! The settings of containerd that its bundle does not have.

use std::fmt::Write;

use flotilla_core::{HostFacts, Node, RootFacts};

pub(super) fn render(node: &Node, host: &HostFacts, root: &RootFacts) -> String {
    let mut text = String::from("version = 4\n");
    // Only root of the host may lower them.
    if !host.lowers_oom_scores || !node.spec.isolation.is_none() {
        // Else no sandbox starts: runc fails to protect them from the out-of-memory killer.
        text.push_str("\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n");
    }
    if let Some(image) = &root.sandbox_image {
        write!(text, "\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"{image}\"\n")
            .expect("a string can be written to");
    }
    text
}
