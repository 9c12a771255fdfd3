//! An etcd whose data is a number and a revision in a file of the machine.

use std::io::{Read, Seek, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use flotilla_core::{
    BootstrapError, Cluster, Cmd, Content, Etcd, Machine, Member, MemberStatus, Node, Power, Snapshot,
    SnapshotError, SnapshotFile, SnapshotOrigin, Source, Writer,
};
use flotilla_spec::ClusterName;

use super::bootstrapper::{ADMIN, API, CA, COMPLETE, SERVES, in_node, mark, reset, timed_out};
use super::{FakeBootstrapper, FakeMachine};

/// Where a member has its data: which it is, and its revision.
pub(super) const DATA: &str = "/var/lib/etcd/member";
const COPY: &str = "/var/lib/etcd.before-";
/// How a snapshot begins, and the line of one that has a checksum.
const HEAD: &str = "etcd snapshot";
const CHECKSUM: &str = "checksum";
const KEYS: u64 = 7;
/// The revision of an etcd that nobody has written to.
const EMPTY: u64 = 1;

/// The text of a snapshot with a checksum, of a cluster with this authority. Fakes have `ca`.
pub fn snapshot(authority: &str, revision: u64) -> String {
    format!("{HEAD}\nauthority {authority}\nrevision {revision}\n{CHECKSUM}\n")
}

/// What a member `mID` says of itself.
pub fn member_status(id: u64, answers: bool, has_leader: bool, alarms: &[&str]) -> MemberStatus {
    let address = std::net::Ipv4Addr::new(10, 213, 77, 1);
    let up = answers && has_leader && alarms.is_empty();
    MemberStatus {
        member: Member { name: format!("m{id}"), id, address, answers, up, learner: false },
        is_leader: false,
        version: None,
        agreed: None,
        revision: None,
        size: None,
        is_leaderless: answers && !has_leader,
        alarms: alarms.iter().map(|alarm| (*alarm).to_owned()).collect(),
        complaints: Vec::new(),
    }
}

impl FakeBootstrapper {
    /// Sets how much the member in a machine knows.
    pub async fn set_revision(&self, machine: &dyn Machine, revision: u64) {
        let (id, _) = self.data(machine).await.ok().flatten().expect("it has data");
        self.put_data(machine, id, revision).await.expect("it is on");
    }

    /// Lets a member of etcd raise an alarm.
    pub fn raise_alarm(&self, cluster: &ClusterName, node: &str, alarm: &str) {
        self.set_unhealthy(cluster, node);
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.entry(node.to_owned()).or_default().push(alarm.to_owned());
    }

    /// The members as one of them sees them.
    pub(super) fn seen_by(&self, cluster: &Cluster, via: &str) -> Vec<Member> {
        let mut members = self.etcd().get(cluster.name()).cloned().unwrap_or_default();
        for member in members.iter_mut().filter(|member| member.name != via) {
            let is_heard = !self.is_cut_off(via) && !self.is_cut_off(&member.name);
            (member.answers, member.up) = (member.answers && is_heard, member.up && is_heard);
        }
        members
    }

    /// Gives a machine data of its own, unless it has some: what `from` has, or that of an empty cluster.
    pub(super) async fn make_data(
        &self,
        machine: &dyn Machine,
        from: Option<&dyn Machine>,
    ) -> Result<(), BootstrapError> {
        if self.data(machine).await?.is_some() {
            return Ok(());
        }
        let known = match from {
            Some(from) => self.data(from).await?,
            None => None,
        };
        let id = self.made.fetch_add(1, Ordering::Relaxed);
        self.put_data(machine, id, known.map_or(EMPTY, |(_, revision)| revision)).await
    }

    async fn put_data(&self, machine: &dyn Machine, id: u64, revision: u64) -> Result<(), BootstrapError> {
        let text = format!("{id} {revision}");
        let put = machine.guest().write(DATA, 0o600, text.as_bytes()).await;
        put.map_err(in_node("write data", machine))
    }

    /// Which data a machine has, and its revision.
    async fn data(&self, machine: &dyn Machine) -> Result<Option<(u64, u64)>, BootstrapError> {
        let bytes = machine.guest().read(DATA).await.map_err(in_node("read data", machine))?;
        Ok(bytes.and_then(|bytes| parse(&String::from_utf8(bytes).ok()?)))
    }

    /// What is in the data of a machine, which it must have.
    async fn examine(&self, machine: &dyn Machine) -> Result<Snapshot, BootstrapError> {
        let data = self.data(machine).await?;
        data.map(|(_, revision)| Snapshot { revision, keys: KEYS, bytes: 20 })
            .ok_or_else(|| timed_out("reading a database that does not exist"))
    }

    /// Moves the data of a machine to where copies are kept.
    async fn set_aside(&self, machine: &dyn Machine) -> Result<(), BootstrapError> {
        let Some((id, revision)) = self.data(machine).await? else { return Ok(()) };
        let number = self.copies_in(machine).await?.len() + 1;
        let text = format!("{id} {revision}");
        let kept = machine.guest().write(&format!("{COPY}{number}"), 0o600, text.as_bytes()).await;
        kept.map_err(in_node("keep data", machine))?;
        self.remove(machine, &[DATA]).await
    }

    async fn copies_in(&self, machine: &dyn Machine) -> Result<Vec<String>, BootstrapError> {
        let mut copies = Vec::new();
        for path in (1..).map(|number| format!("{COPY}{number}")) {
            let copy = machine.guest().read(&path).await.map_err(in_node("look for copies", machine))?;
            if copy.is_none() {
                break;
            }
            copies.push(path);
        }
        Ok(copies)
    }

    /// Stops the control plane in a machine: neither its API nor its etcd answers.
    async fn silence(&self, machine: &dyn Machine) -> Result<(), BootstrapError> {
        self.remove(machine, &[SERVES, API, COMPLETE]).await?;
        let mut etcd = self.etcd();
        let members = etcd.values_mut().flatten().filter(|it| it.name == machine.name().as_ref());
        members.for_each(|member| (member.answers, member.up) = (false, false));
        Ok(())
    }

    async fn remove(&self, machine: &dyn Machine, paths: &[&str]) -> Result<(), BootstrapError> {
        let remove = Cmd::new(["rm", "-f"].iter().chain(paths).copied());
        machine.guest().run(remove).await.map(drop).map_err(in_node("remove files", machine))
    }
}

#[async_trait]
impl Etcd for FakeBootstrapper {
    async fn member_status(
        &self,
        cluster: &Cluster,
        via: &dyn Machine,
    ) -> Result<Vec<MemberStatus>, BootstrapError> {
        let call = self.calls.begin(format!("member-status {}", via.name())).await?;
        let data = self.data(via).await?;
        let members = self.seen_by(cluster, via.name().as_ref());
        let is_own = |member: &Member| member.name == via.name().as_ref();
        call.end()?;
        if data.is_none() || !members.iter().any(|member| is_own(member) && member.answers) {
            return Err(timed_out("an answer of etcd"));
        }
        let leader = members.iter().find(|member| member.up).map(|member| member.id);
        let alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |member: Member| {
            let revision = data.filter(|_| is_own(&member)).map(|(_, revision)| revision);
            let alarms = alarms.get(&member.name).cloned().unwrap_or_default();
            MemberStatus {
                is_leader: leader == Some(member.id),
                version: member.answers.then(|| "3.6.0".to_owned()),
                agreed: revision,
                revision,
                size: member.answers.then_some(20_000_000),
                is_leaderless: member.answers && leader.is_none(),
                alarms,
                complaints: Vec::new(),
                member,
            }
        };
        Ok(members.into_iter().map(status).collect())
    }

    async fn has_data(&self, _: &Node, machine: &dyn Machine) -> Result<Option<bool>, BootstrapError> {
        match machine.state().power {
            // One that is unknown says why.
            Power::On | Power::Unknown(_) => Ok(Some(self.data(machine).await?.is_some())),
            Power::Off => Ok(machine.is_on_disk(DATA).expect("a test does not break it")),
        }
    }

    async fn data_id(&self, machine: &dyn Machine) -> Result<String, BootstrapError> {
        let call = self.calls.begin(format!("data-id {}", machine.name())).await?;
        let data = self.data(machine).await?;
        call.end()?;
        Ok(data.map(|(id, _)| id.to_string()).unwrap_or_default())
    }

    async fn copies(&self, machine: &dyn Machine) -> Result<Vec<String>, BootstrapError> {
        self.copies_in(machine).await
    }

    async fn stop_and_examine(&self, machine: &dyn Machine) -> Result<Snapshot, BootstrapError> {
        let call = self.calls.begin(format!("stop-and-examine {}", machine.name())).await?;
        self.silence(machine).await?;
        let found = self.examine(machine).await?;
        call.end()?;
        Ok(found)
    }

    async fn save_snapshot(&self, via: &dyn Machine, mut target: Writer) -> Result<Snapshot, BootstrapError> {
        let call = self.calls.begin(format!("save-snapshot {}", via.name())).await?;
        let found = self.examine(via).await?;
        let text = snapshot(&String::from_utf8_lossy(CA), found.revision);
        target.write_all(text.as_bytes()).expect("a test's file can be written");
        call.end()?;
        Ok(found)
    }

    fn check_snapshot(&self, mut content: Box<dyn Content>) -> Result<SnapshotFile, SnapshotError> {
        let mut text = String::new();
        content.read_to_string(&mut text)?;
        if !text.starts_with(HEAD) {
            return Err(SnapshotError::NotSnapshot);
        }
        let authorities = text.lines().filter_map(|line| line.strip_prefix("authority "));
        let authorities = authorities.map(|authority| authority.as_bytes().to_vec()).collect();
        Ok(SnapshotFile { content, has_checksum: text.lines().any(|line| line == CHECKSUM), authorities })
    }

    async fn snapshot_origin(
        &self,
        snapshot: &SnapshotFile,
        machine: &dyn Machine,
    ) -> Result<Option<SnapshotOrigin>, BootstrapError> {
        if machine.read_disk(ADMIN).is_ok_and(|file| file.is_none()) {
            return Ok(None);
        }
        Ok(Some(match &snapshot.authorities[..] {
            [] => SnapshotOrigin::Unknown,
            [authority] if authority == CA => SnapshotOrigin::ThisCluster,
            _ => SnapshotOrigin::AnotherCluster,
        }))
    }

    /// In as many calls as it can be killed between.
    async fn restore(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        source: Source,
    ) -> Result<Snapshot, BootstrapError> {
        let found = match source {
            Source::Own => self.examine(machine).await?,
            Source::File(file) => revision_of(file),
        };
        for other in others {
            let call = self.calls.begin(format!("reset {}", other.name())).await?;
            self.silence(other.as_ref()).await?;
            self.set_aside(other.as_ref()).await?;
            reset(other.as_ref()).await?;
            call.end()?;
        }
        let call = self.calls.begin(format!("exchange {}", node.spec.name)).await?;
        self.silence(machine).await?;
        self.set_aside(machine).await?;
        let id = self.made.fetch_add(1, Ordering::Relaxed);
        self.put_data(machine, id, found.revision).await?;
        self.etcd().remove(cluster.name());
        self.add_member(cluster, node);
        call.end()?;
        self.finish_restore(cluster, machine, others).await?;
        Ok(found)
    }

    async fn finish_restore(
        &self,
        _: &Cluster,
        machine: &dyn Machine,
        _: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError> {
        let call = self.calls.begin(format!("finish-restore {}", machine.name())).await?;
        mark(machine, API).await?;
        Ok(call.end()?)
    }
}

/// Which data a file has, and its revision.
fn parse(text: &str) -> Option<(u64, u64)> {
    let (id, revision) = text.split_once(' ')?;
    Some((id.parse().ok()?, revision.parse().ok()?))
}

/// The revision of the data on the disk of a machine, on or off.
pub(super) fn revision_on(machine: &FakeMachine) -> Option<u64> {
    parse(&machine.file(DATA)?).map(|(_, revision)| revision)
}

fn revision_of(SnapshotFile { mut content, .. }: SnapshotFile) -> Snapshot {
    let mut text = String::new();
    content.rewind().and_then(|()| content.read_to_string(&mut text)).expect("a test's file can be read");
    let revision = text.lines().find_map(|line| line.strip_prefix("revision ")?.parse().ok());
    Snapshot { revision: revision.expect("a snapshot has one"), keys: KEYS, bytes: text.len() as u64 }
}
