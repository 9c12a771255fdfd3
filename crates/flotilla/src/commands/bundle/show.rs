//! `flotilla bundle show`

use flotilla_core::event::size;
use flotilla_core::{BundleDetails, BundleSizes, ComponentOrigin, short_digest};
use flotilla_ops::bundles::show::{self, Request};
use flotilla_ops::{Context, OpError};

use crate::args::WhichArgs;
use crate::screen::{Screen, table};

pub(crate) fn run(cx: &Context<'_>, args: WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let BundleDetails { summary, image_bytes, components, images, varies, record } =
        show::run(cx, &Request { which: args.which })?;
    if screen.is_json() {
        screen.line(&record);
        return Ok(());
    }
    screen.line(&format!("Kubernetes:  {} ({})", summary.kubernetes, summary.architecture));
    screen.line(&format!("Digest:      sha256:{}", summary.digest));
    screen.line(&format!("Built:       {}, from source '{}'", summary.created, summary.source));
    if summary.imported {
        screen.line("Imported:    yes: its sources are not verified");
    }
    screen.line(&format!("Directory:   {}", summary.path.display()));
    screen.line(&format!("On disk:     {}", size(summary.sizes.on_disk)));
    screen.line("");
    screen.line(&table(&["DIRECTORY", "SIZE", "WHAT"], directories(summary.sizes, image_bytes).into_iter()));
    let components = components.into_iter().map(|component| {
        vec![component.name, component.version, size(component.bytes), origin(&component.from)]
    });
    screen.line("");
    screen.line(&table(&["COMPONENT", "VERSION", "SIZE", "FROM"], components));
    screen.line("");
    screen.line(&table(&["IMAGE"], images.into_iter().map(|image| vec![image])));
    if !varies.is_empty() {
        screen.line("");
        let varies = varies.into_iter().map(|(path, why)| vec![path, why]);
        screen.line(&table(&["VARIES BETWEEN BUILDS", "WHY"], varies));
    }
    Ok(())
}

fn origin(from: &ComponentOrigin) -> String {
    match from {
        ComponentOrigin::GoModule(module) => format!("Go module {module}"),
        ComponentOrigin::Checkout { path, commit, modified } => {
            let note = if *modified { ", modified" } else { "" };
            format!("checkout {path} at {}{note}", short_digest(commit))
        }
        ComponentOrigin::OwnProgram => "flotilla's own program".to_owned(),
        ComponentOrigin::Debian { packages, unpinned } => {
            let note =
                if *unpinned > 0 { format!(", {unpinned} not in the lock file") } else { String::new() };
            format!("{packages} Debian packages{note}")
        }
    }
}

/// Where the bytes are.
fn directories(sizes: BundleSizes, image: u64) -> Vec<Vec<String>> {
    let row = |directory: &str, bytes: String, what: &str| vec![directory.to_owned(), bytes, what.to_owned()];
    let mut rows = vec![
        row("rootfs", size(sizes.rootfs), "root file system of the nodes"),
        row("store", size(sizes.store), "images, unpacked for containerd"),
        row("bin", size(sizes.bin), "kubectl for this machine"),
    ];
    if image > 0 {
        rows.push(row("", size(image), "images once more, as nodes mount them"));
    }
    let shared = (sizes.rootfs + sizes.store + sizes.bin + image).saturating_sub(sizes.on_disk);
    if shared > 0 {
        rows.push(row("", format!("-{}", size(shared)), "in two places, on disk once"));
    }
    rows
}
