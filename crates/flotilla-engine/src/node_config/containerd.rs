//! The settings of containerd that its bundle does not have.

use std::fmt::Write;

use flotilla_core::GuestFacts;

pub(super) fn render(guest: &GuestFacts, sandbox_image: Option<&str>) -> String {
    let mut text = String::from("version = 4\n");
    if !guest.lowers_oom_scores {
        // Else no sandbox starts: runc fails to protect them from the out-of-memory killer.
        text.push_str("\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n");
    }
    if let Some(image) = sandbox_image {
        write!(text, "\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"{image}\"\n")
            .expect("a string can be written to");
    }
    text
}
