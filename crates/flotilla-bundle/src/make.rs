//! Making a bundle: parts, then the node's root, then the image store, then the manifest, then the name.
//!
//! Until the last step nothing looks like a bundle. Killed before it, a later run finds the parts that were finished
//! and goes on from there.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use flotilla_core::event::{Event, Outcome, Reporter, Step};
use flotilla_core::layout::{BIN, BundleLayout, ROOTFS, STORE};
use flotilla_core::{BuildRequest, Forecast, Origin, Prospect, SourceChoice};
use flotilla_linux::disk;

use crate::build::{BuildSource, Checkout};
use crate::bundle_store::{Bundle, BundleStore, UNFINISHED};
use crate::error::{At, BundleError, Result};
use crate::image::{self, Image};
use crate::inventory;
use crate::manifest::{self, Manifest, Sizes};
use crate::part::{PartCache, Parts};
use crate::source::{Component, Kind, Source};
use crate::{hash, rootfs, store};

/// A bundle, and whether it had been there before.
#[derive(Debug)]
pub struct Made {
    pub bundle: Bundle,
    pub outcome: Outcome,
    pub origin: Origin,
}

/// Steps that follow the components, with what they take.
const ASSEMBLY: [(&str, &str, u64); 3] = [
    ("rootfs", "the node's root file system", 1),
    ("images", "the image store", 15),
    ("manifest", "checksums of every file", 3),
];
/// What parts and bundle take while they are made, and what Go's caches take beside.
const SPACE_FOR_BUNDLE: u64 = 2_500_000_000;
const SPACE_FOR_KUBERNETES: u64 = 5_400_000_000;
const SPACE_FOR_COMPONENT: u64 = 400_000_000;

impl BundleStore {
    /// Reports a request that no bundle could be made for, before anything is looked at.
    pub fn check(&self, request: &BuildRequest) -> Result<()> {
        match self.components(request) {
            Err(error) if self.foreign(request).is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// What [`Self::ensure`] will do, or what the host lacks for it. Changes nothing.
    pub fn prospect(&self, request: &BuildRequest) -> Result<Prospect> {
        if self.foreign(request).is_some() {
            return Ok(Prospect::Found);
        }
        let components = self.components(request)?;
        let source = BuildSource::new(self.cache(), self.cancel.clone());
        self.check_means(&source, &components)?;
        Ok(Prospect::Buildable)
    }

    /// The bundle that was asked for: the one that exists, else a new one.
    pub fn ensure(&self, request: &BuildRequest, reporter: &dyn Reporter) -> Result<Made> {
        if rustix::process::geteuid().is_root() {
            // Those of an older flotilla. Whoever cannot be helped asks for sudo.
            let _ = self.let_people_look();
        }
        let components = match self.components(request) {
            // A bundle from elsewhere may be for a version that this flotilla could not build.
            Err(error) => return self.foreign(request).ok_or(error),
            Ok(components) => components,
        };
        let version = component(&components, "kubernetes").version.clone();
        let source = BuildSource::new(self.cache(), self.cancel.clone());
        let recipe = recipe_of(&components, &source);
        if let Some(made) = self.kept(request, &components, &recipe)? {
            return Ok(made);
        }
        self.check_host(&source, &components)?;
        let _lock = self.acquire(&format!("build the bundle for {version}"), reporter)?;
        // Who held the lock may have made it meanwhile.
        if let Some(made) = self.kept(request, &components, &recipe)? {
            return Ok(made);
        }
        let cache = self.part_cache();
        cache.sweep()?;
        self.check_space(&source, &components, 0)?;
        let bundle = self.make(&components, &version, recipe, &source, &cache, reporter)?;
        // A checkout is built again and again, each time with what was compiled before.
        if !request.keep_cache && !components.iter().any(Component::may_change) {
            self.clean_after(&components).unwrap_or_else(|error| {
                let text = format!("cannot clean up {}: {error}", self.cache().display());
                reporter.report(Event::Warning { text });
            });
        }
        Ok(Made { bundle, outcome: Outcome::Done, origin: Origin::Own })
    }

    /// What building the bundle would take; none if it already exists.
    pub fn forecast(&self, request: &BuildRequest) -> Result<Option<Forecast>> {
        let components = match self.components(request) {
            Err(error) => return self.foreign(request).map(|_| None).ok_or(error),
            Ok(components) => components,
        };
        let source = BuildSource::new(self.cache(), self.cancel.clone());
        if self.kept(request, &components, &recipe_of(&components, &source))?.is_some() {
            return Ok(None);
        }
        let to_make = self.part_cache().to_make(&components, &source);
        let (time, disk) = (time_for(&to_make), space_for(&to_make));
        Ok(Some(Forecast { kubernetes: component(&components, "kubernetes").version.clone(), time, disk }))
    }

    /// The bundle that exists and does, if there is one.
    fn kept(&self, request: &BuildRequest, components: &[Component], recipe: &str) -> Result<Option<Made>> {
        let version = &component(components, "kubernetes").version;
        if components.iter().any(Component::may_change) {
            return Ok(None);
        }
        let mut found = self.list()?.bundles;
        found.retain(|bundle| bundle.manifest.kubernetes == *version);
        found.sort_by_key(|bundle| (bundle.manifest.recipe != recipe, bundle.manifest.imported));
        let made = found.into_iter().map(|bundle| {
            let origin = origin_of(&bundle.manifest, recipe);
            Made { bundle, outcome: Outcome::Kept, origin }
        });
        Ok(made.into_iter().find(|made| made.origin == Origin::Own || request.source == SourceChoice::Auto))
    }

    fn foreign(&self, request: &BuildRequest) -> Option<Made> {
        let wanted = request.kubernetes.as_deref().filter(|_| request.source == SourceChoice::Auto)?;
        let found =
            self.list().ok()?.bundles.into_iter().find(|bundle| bundle.manifest.kubernetes == with_v(wanted));
        // This flotilla has no recipe for it.
        found.map(|bundle| Made { origin: origin_of(&bundle.manifest, ""), bundle, outcome: Outcome::Kept })
    }

    fn components(&self, request: &BuildRequest) -> Result<Vec<Component>> {
        let Some(path) = &request.kubernetes_source else {
            let version = request.kubernetes.as_deref().unwrap_or(&self.lock.default);
            return Component::of_release(&self.lock, &with_v(version));
        };
        let checkout = Checkout::inspect(path, request.kubernetes.as_deref())?;
        // Everything beside Kubernetes is taken from the pinned release of the same minor version.
        let release = self.lock.release_like(&checkout.version)?;
        let mut components = Component::of_release(&self.lock, release)?;
        let kubernetes = components.iter_mut().find(|component| component.name == "kubernetes");
        let kubernetes = kubernetes.expect("every release has Kubernetes");
        let Kind::Go { how, .. } = kubernetes.kind.clone() else {
            unreachable!("Kubernetes is a Go component")
        };
        kubernetes.version.clone_from(&checkout.version);
        kubernetes.kind = Kind::Checkout { how, checkout };
        Ok(components)
    }

    /// Everything that would fail later is reported now.
    fn check_host(&self, source: &dyn Source, components: &[Component]) -> Result<()> {
        self.check_permission()?;
        self.check_means(source, components)
    }

    /// Programs and room.
    fn check_means(&self, source: &dyn Source, components: &[Component]) -> Result<()> {
        let missing = source.missing(components);
        if !missing.is_empty() {
            return Err(BundleError::SourceUnavailable { origin: source.name(), missing });
        }
        // What a killed run left is removed before the build.
        self.check_space(source, components, self.part_cache().leftover_bytes() + self.leftover_bytes())
    }

    /// `freeable` bytes are as good as free.
    fn check_space(&self, source: &dyn Source, components: &[Component], freeable: u64) -> Result<()> {
        let needed = space_for(&self.part_cache().to_make(components, source));
        let free = disk::free_bytes(self.home()).at("read", self.home())?;
        if free + freeable < needed {
            return Err(BundleError::DiskSpace { path: self.home().to_owned(), needed, free });
        }
        Ok(())
    }

    fn make(
        &self,
        components: &[Component],
        version: &str,
        recipe: String,
        source: &dyn Source,
        cache: &PartCache,
        reporter: &dyn Reporter,
    ) -> Result<Bundle> {
        announce(components, &cache.to_make(components, source), reporter);
        let mut parts = Parts::default();
        for component in components {
            cache.ensure(component, source, &mut parts, reporter)?;
        }
        let bundles = self.bundles();
        let work = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&bundles).at("make", &bundles)?;
        let start = |(name, title, seconds): (&str, &str, u64)| {
            Step::start(reporter, name, title, Some(Duration::from_secs(seconds)))
        };
        let [for_rootfs, for_images, for_manifest] = ASSEMBLY;

        let step = start(for_rootfs);
        let names = image::names_wanted(&parts, version, &self.cancel)?;
        let images = names.iter().map(|name| Image::compose(name, &parts)).collect::<Result<Vec<_>>>()?;
        let layout = BundleLayout::at(work.path());
        let root = layout.rootfs();
        rootfs::tree(&parts, image::pause_name(&names))?.write_to(&root)?;
        rootfs::host_programs(&parts).write_to(&layout.bin())?;
        step.done(Outcome::Done);

        let step = start(for_images);
        let images_directory = layout.store();
        DirBuilder::new().mode(0o700).create(&images_directory).at("make", &images_directory)?;
        let packed = cache.work_directory()?;
        let directories = store::Folders { rootfs: &root, store: &images_directory, work: packed.path() };
        store::make(&images, &parts, &directories, &self.cancel, &step)?;
        step.done(Outcome::Done);

        let step = start(for_manifest);
        let mut done = 0;
        let files = inventory::scan(work.path(), |bytes| {
            done += bytes;
            step.progress(done, None, flotilla_core::Unit::Bytes, "");
        })?;
        let within = |directory: &str| {
            inventory::bytes(files.iter().filter(|entry| Path::new(&entry.path).starts_with(directory)))
        };
        let on_disk = disk::allocated_bytes(work.path()).at("read", work.path())?;
        let sizes = Sizes { bin: within(BIN), rootfs: within(ROOTFS), store: within(STORE), on_disk };
        let mut manifest = Manifest {
            format: manifest::FORMAT,
            digest: String::new(),
            kubernetes: version.to_owned(),
            architecture: image::architecture().to_owned(),
            source: source.name().to_owned(),
            recipe,
            created: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            imported: false,
            components: manifest::component_records(&parts),
            images: names,
            sizes,
            varies: manifest::varying_files(),
            files,
        };
        manifest.digest = manifest.computed_digest();
        let bundle = self.add(work.path(), manifest)?;
        step.done(Outcome::Done);
        Ok(bundle)
    }

    pub(crate) fn part_cache(&self) -> PartCache {
        PartCache::new(self.cache().join("parts"))
    }
}

/// Tells how many steps there are, and how long those that are not kept will take.
fn announce(components: &[Component], to_make: &[&Component], reporter: &dyn Reporter) {
    let mut steps: Vec<String> = components.iter().map(|component| component.name.clone()).collect();
    steps.extend(ASSEMBLY.map(|(name, _, _)| name.to_owned()));
    let expected = Some(time_for(to_make));
    reporter.report(Event::Plan { steps, expected, work: expected });
}

/// How long it takes to make these components and a bundle of all of them.
fn time_for(to_make: &[&Component]) -> Duration {
    let assembly = ASSEMBLY.iter().map(|(_, _, seconds)| *seconds).sum();
    to_make.iter().map(|component| component.expected()).sum::<Duration>() + Duration::from_secs(assembly)
}

/// The room that it takes.
fn space_for(to_make: &[&Component]) -> u64 {
    let space = |component: &&Component| match component.name.as_str() {
        "kubernetes" => SPACE_FOR_KUBERNETES,
        _ => SPACE_FOR_COMPONENT,
    };
    SPACE_FOR_BUNDLE + to_make.iter().map(space).sum::<u64>()
}

fn origin_of(manifest: &Manifest, recipe: &str) -> Origin {
    match manifest {
        Manifest { imported: true, .. } => Origin::Imported,
        Manifest { recipe: made_from, .. } if made_from == recipe => Origin::Own,
        _ => Origin::OtherVersion,
    }
}

fn component<'a>(components: &'a [Component], name: &str) -> &'a Component {
    components.iter().find(|component| component.name == name).expect("every release has it")
}

/// A name for everything in the lock file, and beside it, that shapes a bundle.
fn recipe_of(components: &[Component], source: &dyn Source) -> String {
    let mut inputs = vec![format!("format {}", manifest::FORMAT), source.name().to_owned()];
    inputs.extend(components.iter().map(|component| format!("{} {}", component.title(), component.inputs())));
    let rootfs = crate::recipe::rootfs();
    inputs.push(crate::recipe::digest(&rootfs));
    hash::of_bytes(inputs.join("\n").as_bytes())
}

/// People write versions with and without the `v`.
fn with_v(version: &str) -> String {
    if version.starts_with('v') { version.to_owned() } else { format!("v{version}") }
}

#[cfg(test)]
mod tests;
