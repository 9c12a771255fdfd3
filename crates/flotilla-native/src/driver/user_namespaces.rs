//! Whether nodes of this host can have user namespaces.

use std::path::{Path, PathBuf};

use flotilla_core::{Finding, MachineIsolation, MachineSpec, Refusal};
use flotilla_linux::disk;
use flotilla_linux::machine::{self, Lack, Trial};
use flotilla_linux::user::Ids;
use flotilla_spec::HostMount;
use rustix::process::geteuid;

use super::NativeDriver;
use crate::error::NativeError;
use crate::examine::Check;
use crate::refusal;

const LACKING: Check = Check::new("HOST_NO_USER_NAMESPACES", 36);
const NOT_MOUNTED: Check = Check::new("HOST_NO_MOUNT", 35);

/// To try with. A namespace that nobody else is in may have any ids.
const IDS: Ids = Ids { first: 0x7ffe_0000, count: 65536 };

/// Whether this host's nodes could have them.
pub(super) fn examine(home: &Path) -> Finding {
    if !geteuid().is_root() {
        return LACKING.good("user namespaces: root will try them");
    }
    judge(home, &try_home(home, &[]))
}

fn judge(home: &Path, trial: &Trial) -> Finding {
    match &trial.lack {
        None => LACKING.good("user namespaces: nodes can have `isolation: user`"),
        Some((lack, why)) => LACKING.warning(
            format!("user namespaces: nodes cannot have `isolation: user`: {why}"),
            cure(*lack, home),
        ),
    }
}

/// Tries it in the state directory, or in the nearest one above it that exists.
fn try_home(home: &Path, mounts: &[PathBuf]) -> Trial {
    match disk::nearest_existing(home) {
        Ok(folder) => machine::try_machine(folder, mounts, IDS),
        Err(error) => Trial { lack: Some((Lack::Other, error.to_string())), not_mounted: Vec::new() },
    }
}

impl NativeDriver {
    /// What machines with a user namespace want and the host does not have. Those that run have it already.
    pub(super) fn check_user_namespaces(&self, wanted: &[MachineSpec]) -> Result<Vec<Refusal>, NativeError> {
        let mut new = Vec::new();
        for spec in wanted.iter().filter(|spec| spec.isolation != MachineIsolation::None) {
            if self.init(&spec.id.cluster, &spec.id.node)?.is_none() {
                new.push(spec);
            }
        }
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let sources: Vec<_> = new.iter().flat_map(|spec| &spec.mounts).map(|it| it.source.clone()).collect();
        let trial = try_home(&self.home, &sources);
        Ok(new.into_iter().flat_map(|spec| refusals(spec, &self.home, &trial)).collect())
    }
}

fn refusals(spec: &MachineSpec, home: &Path, trial: &Trial) -> Vec<Refusal> {
    let node = &spec.id.node;
    if let Some((lack, why)) = &trial.lack {
        let text = format!("node {node} cannot have `isolation: user`: {why}");
        return vec![refusal(node, "isolation", None, LACKING.fatal(text, cure(*lack, home)))];
    }
    let refused = spec.mounts.iter().filter_map(|mount| {
        let (_, why) = trial.not_mounted.iter().find(|(source, _)| *source == mount.source)?;
        Some(refusal(node, "mounts", Some(mount.to_string()), not_mounted(spec, mount, why)))
    });
    refused.collect()
}

fn not_mounted(spec: &MachineSpec, mount: &HostMount, why: &str) -> Finding {
    NOT_MOUNTED.fatal(
        format!(
            "cannot mount {} into node {}, which has `isolation: user`: {why}",
            mount.source.display(),
            spec.id.node
        ),
        "mount a directory on a file system like ext4, xfs, btrfs or tmpfs, or give the node `isolation: none`",
    )
}

/// What to do about it.
fn cure(lack: Lack, home: &Path) -> String {
    let otherwise = "or use `isolation: none`";
    match lack {
        Lack::Namespaces => format!(
            "allow them (`sysctl user.max_user_namespaces=10000`; a container has to be privileged), {otherwise}"
        ),
        Lack::Owners => format!(
            "move the state directory {} to a file system with ID-mapped mounts, like ext4, xfs or btrfs on Linux 5.19 \
             (set FLOTILLA_HOME), {otherwise}",
            home.display()
        ),
        Lack::Overlay => format!("use Linux 5.19 or newer, {otherwise}"),
        Lack::Proc => format!("run it outside the container, or make the container privileged, {otherwise}"),
        Lack::Other => "use `isolation: none`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_core::{IdRange, Severity};
    use flotilla_testkit::fake;

    fn isolated(mounts: &[&str]) -> MachineSpec {
        let cluster = fake::cluster("10.213.0.0/24");
        let ids = Some(IdRange { first_id: 1 << 30, count: IdRange::SIZE });
        MachineSpec {
            mounts: mounts.iter().map(|mount| mount.parse().unwrap()).collect(),
            isolation: MachineIsolation::User { ids },
            ..MachineSpec::of(&cluster, &cluster.primary().unwrap())
        }
    }

    #[test]
    fn what_a_host_lacks_is_named_with_what_to_do() {
        let home = Path::new("/nfs/.flotilla");
        let lacks = [Lack::Namespaces, Lack::Owners, Lack::Overlay, Lack::Proc, Lack::Other];
        let said = lacks.map(|lack| {
            let trial = Trial { lack: Some((lack, "why".to_owned())), not_mounted: Vec::new() };
            let finding = judge(home, &trial);
            assert_eq!(finding.severity, Severity::Warning, "the default needs none of it");
            let [refusal] = &refusals(&isolated(&[]), home, &trial)[..] else { panic!("one") };
            assert_eq!((refusal.requirement.key, refusal.finding.severity), ("isolation", Severity::Fatal));
            assert_eq!(
                (refusal.finding.cure.clone(), refusal.finding.code),
                (finding.cure.clone(), finding.code)
            );
            assert_eq!(refusal.finding.text, "node demo cannot have `isolation: user`: why");
            format!("{}\n  {}", finding.text, finding.cure)
        });
        insta::assert_snapshot!(said.join("\n"));
        let works = Trial { lack: None, not_mounted: Vec::new() };
        assert_eq!(judge(home, &works).severity, Severity::Good);
        assert_eq!(refusals(&isolated(&["/usr:/data"]), home, &works), []);
    }

    #[test]
    fn a_mount_that_cannot_be_translated_is_refused_by_name() {
        let trial = Trial { lack: None, not_mounted: vec![("/nfs".into(), "Invalid argument".to_owned())] };
        let refused = refusals(&isolated(&["/usr:/data", "/nfs:/srv:ro"]), Path::new("/"), &trial);
        let [refusal] = &refused[..] else { panic!("one: {refused:?}") };
        assert_eq!(refusal.requirement.item.as_deref(), Some("/nfs:/srv:ro"));
        assert_eq!(
            refusal.finding.text,
            "cannot mount /nfs into node demo, which has `isolation: user`: Invalid argument"
        );
    }
}
