//! `flotilla bundle show`

use flotilla_bundle::BundleStore;
use flotilla_bundle::manifest::Sizes;
use flotilla_bundle::source::Provenance;
use flotilla_core::event::size;
use flotilla_ops::OpError;

use crate::args::WhichArgs;
use crate::screen::{Screen, table};

pub(crate) fn run(bundle_store: &BundleStore, args: &WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let bundle = bundle_store.find(&args.which)?;
    if screen.is_json() {
        screen.json(&bundle);
        return Ok(());
    }
    let manifest = &bundle.manifest;
    screen.line(&format!("Kubernetes:  {} ({})", manifest.kubernetes, manifest.architecture));
    screen.line(&format!("Digest:      sha256:{}", manifest.digest));
    screen.line(&format!("Built:       {}, from source '{}'", manifest.created, manifest.source));
    if manifest.imported {
        screen.line("Imported:    yes: its sources are not verified");
    }
    screen.line(&format!("Directory:   {}", bundle.path.display()));
    screen.line(&format!("On disk:     {}", size(bundle.on_disk())));
    screen.line("");
    screen.line(&table(
        &["DIRECTORY", "SIZE", "WHAT"],
        folders(manifest.sizes, bundle.image_bytes()).into_iter(),
    ));
    let components = manifest.components.iter().map(|component| {
        let from = match &component.provenance {
            Provenance::GoModule { module, .. } => format!("Go module {module}"),
            Provenance::Checkout { path, commit, modified } => {
                let note = if *modified { ", modified" } else { "" };
                format!("checkout {path} at {}{note}", commit.get(..12).unwrap_or(commit))
            }
            Provenance::OwnProgram { .. } => "flotilla's own program".into(),
            Provenance::Debian { packages } => {
                let unpinned = packages.iter().filter(|package| !package.pinned).count();
                let note =
                    if unpinned > 0 { format!(", {unpinned} not in the lock file") } else { String::new() };
                format!("{} Debian packages{note}", packages.len())
            }
        };
        vec![component.name.clone(), component.version.clone(), size(component.bytes), from]
    });
    screen.line("");
    screen.line(&table(&["COMPONENT", "VERSION", "SIZE", "FROM"], components));
    screen.line("");
    screen.line(&table(&["IMAGE"], manifest.images.iter().map(|image| vec![image.clone()])));
    if !manifest.varies.is_empty() {
        let varies = manifest.varies.iter().map(|varies| vec![varies.path.clone(), varies.why.clone()]);
        screen.line("");
        screen.line(&table(&["VARIES BETWEEN BUILDS", "WHY"], varies));
    }
    Ok(())
}

/// Where the bytes are.
fn folders(sizes: Sizes, image: u64) -> Vec<Vec<String>> {
    let row = |folder: &str, bytes: String, what: &str| vec![folder.to_owned(), bytes, what.to_owned()];
    let mut rows = vec![
        row("rootfs", size(sizes.rootfs), "root file system of the nodes"),
        row("store", size(sizes.store), "images, unpacked for containerd"),
        row("bin", size(sizes.bin), "kubectl for this machine"),
    ];
    if image > 0 {
        rows.push(row("", size(image), "images once more, as nodes mount them"));
    }
    let shared = (sizes.rootfs + sizes.store + sizes.bin).saturating_sub(sizes.on_disk);
    if shared > 0 {
        rows.push(row("", format!("-{}", size(shared)), "in two places, on disk once"));
    }
    rows
}
