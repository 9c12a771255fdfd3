//! etcd, asked and told by its own tools in a control plane.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use flotilla_core::cluster::Node;
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Member, MemberStatus};
use futures::future::join_all;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::patience::{Cancelled, Patience};
use crate::phase::in_node;

mod copies;
mod file;
mod port;
mod restore;
mod snapshot;

pub(crate) use copies::set_aside;
#[cfg(test)]
pub(crate) use copies::tests::sh;

pub(crate) const DATA: &str = "/var/lib/etcd";
const DATABASE: &str = "/var/lib/etcd/member/snap/db";
const PKI: &str = "/etc/kubernetes/pki/etcd";
const CLIENT_PORT: u16 = 2379;
/// Where members speak to each other.
pub(crate) const PEER_PORT: u16 = 2380;
/// A member that is up answers in milliseconds: it is on this host. Only that may be busy.
const ANSWER: Duration = Duration::from_secs(3);
/// How much longer than it may wait for its answer its client may take: the node may be busy.
const MARGIN: Duration = Duration::from_secs(15);
/// For the removal of a member. The others let one go only when they have known each other for five seconds.
const AGREEMENT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(300);
/// Members of which a majority is up have a leader after a second or two, also if their last one has just ended.
const ELECTION: Duration = Duration::from_secs(5);

/// The members, as the member in this machine lists them, with the state that each reports itself. Waits only while an
/// election is going on.
async fn status(via: &dyn Machine) -> Result<Vec<MemberStatus>, BootstrapError> {
    let begun = Instant::now();
    loop {
        let seen = look(via).await?;
        if !is_electing(&seen) || begun.elapsed() > ELECTION {
            return Ok(seen);
        }
        sleep(POLL).await;
    }
}

async fn look(via: &dyn Machine) -> Result<Vec<MemberStatus>, BootstrapError> {
    let members = list(via, View::ItsOwn).await?;
    let asked = members.into_iter().map(|member| async move {
        let answer = tell(via, member.address, &["endpoint", "status"]).await;
        let status = answer.ok().and_then(|text| parse::<Vec<Endpoint>>(&text).ok()?.pop());
        (member, status.map(|endpoint| endpoint.status))
    });
    let asked = join_all(asked).await;
    // Every member tells the alarms of all.
    let answers = asked.iter().filter_map(|(_, status)| status.as_ref());
    let alarms: BTreeSet<_> = answers.flat_map(|status| &status.errors).filter_map(|it| alarm(it)).collect();
    let alarms_of = |id| alarms.iter().filter(move |(of, _)| *of == id).map(|(_, what)| what.clone());
    Ok(asked
        .into_iter()
        .map(|(member, status)| {
            let alarms = alarms_of(member.id).collect();
            status_of(member, status, alarms)
        })
        .collect())
}

/// Whether a majority answers, and one of them has no leader: they are about to choose one.
fn is_electing(members: &[MemberStatus]) -> bool {
    let voters: Vec<_> = members.iter().filter(|status| !status.member.learner).collect();
    let answering = voters.iter().filter(|status| status.member.answers).count();
    answering > voters.len() / 2 && voters.iter().any(|status| status.is_leaderless)
}

/// The member and the kind of an alarm, out of etcd's `memberID:123 alarm:NOSPACE`.
fn alarm(text: &str) -> Option<(u64, String)> {
    let word = |key| text.split_whitespace().find_map(|word| word.strip_prefix(key));
    Some((word("memberID:")?.parse().ok()?, word("alarm:")?.to_owned()))
}

/// The members with what the engine wants to know of them.
pub(crate) async fn members(via: &dyn Machine) -> Result<Vec<Member>, BootstrapError> {
    Ok(status(via).await?.into_iter().map(|status| status.member).collect())
}

/// Whether a node's etcd is a member. Asks until the members agree: a node that is no member is joined again.
pub(crate) async fn has_member(
    via: &dyn Machine,
    node: &Node,
    cancelled: &Cancelled,
) -> Result<bool, BootstrapError> {
    let patience = Patience::new("the list of etcd members", cancelled);
    Ok(agreed_list(via, &patience).await?.iter().any(|member| member.is_of(node)))
}

/// Takes out every member that is known by this name or this address.
pub(crate) async fn remove_node(
    via: &dyn Machine,
    name: &str,
    address: Ipv4Addr,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let is_it = |member: &Member| member.address == address || member.name == name;
    remove(via, name, is_it, cancelled).await
}

/// Takes out a member that no node of the cluster has.
pub(crate) async fn remove_member(
    via: &dyn Machine,
    stranger: &Member,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    remove(via, &stranger.name, |member| member.id == stranger.id, cancelled).await
}

/// If one of those that go leads, the one that is asked does so first: the rest would otherwise notice its end only after a
/// second. It is up, which the others may not be.
async fn remove(
    via: &dyn Machine,
    name: &str,
    is_it: impl Fn(&Member) -> bool,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let patience = Patience::within(format!("the removal of {name} from etcd"), AGREEMENT, cancelled);
    loop {
        let members = agreed_list(via, &patience).await?;
        let Some(leaving) = members.iter().find(|member| is_it(member)) else { return Ok(()) };
        let heir = members.iter().find(|member| member.up && !member.learner && !is_it(member));
        if let Some(heir) = heir {
            // Refused by all but the leader, and a member that is down leads nobody.
            let lead = ["move-leader", &format!("{:x}", heir.id)];
            drop(tell(via, leaving.address, &lead).await);
        }
        let remove = ["member", "remove", &format!("{:x}", leaving.id)];
        match tell(via, Ipv4Addr::LOCALHOST, &remove).await {
            Ok(_) => {}
            Err(GuestError::Failed { tail, .. }) => patience.pause_for(POLL, &tail).await?,
            Err(error) => return Err(in_node("remove a member from etcd", via)(error)),
        }
    }
}

/// Waits until etcd has quorum and accepts writes.
pub(crate) async fn wait_until_healthy(
    via: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let patience = Patience::new("quorum of etcd", cancelled);
    loop {
        match tell(via, Ipv4Addr::LOCALHOST, &["endpoint", "health"]).await {
            Ok(_) => return Ok(()),
            Err(GuestError::Failed { tail, .. }) => patience.pause_for(POLL, &tail).await?,
            Err(error) => return Err(in_node("check the health of etcd", via)(error)),
        }
    }
}

/// Whose word on the members is taken.
#[derive(Clone, Copy)]
enum View {
    /// That of the member that is asked, even without quorum.
    ItsOwn,
    /// That of a majority.
    Agreed,
}

/// The members as most of them know them, as soon as they can be asked.
async fn agreed_list(via: &dyn Machine, patience: &Patience) -> Result<Vec<Member>, BootstrapError> {
    loop {
        match list(via, View::Agreed).await {
            Err(BootstrapError::Node { source: GuestError::Failed { tail, .. }, .. }) => {
                patience.pause_for(POLL, &tail).await?;
            }
            listed => return listed,
        }
    }
}

/// The members. Nobody is asked whether it is up: that is known of the one that answers.
async fn list(via: &dyn Machine, view: View) -> Result<Vec<Member>, BootstrapError> {
    let consistency = match view {
        View::ItsOwn => "--consistency=s",
        View::Agreed => "--consistency=l",
    };
    let list = tell(via, Ipv4Addr::LOCALHOST, &["member", "list", consistency]).await;
    let text = list.map_err(in_node("ask for etcd's members", via))?;
    parse_list(&text).map_err(|source| BootstrapError::Api {
        action: "read the list of etcd's members".to_owned(),
        source: source.into(),
    })
}

async fn tell(via: &dyn Machine, member: Ipv4Addr, words: &[&str]) -> Result<String, GuestError> {
    Ok(via.guest().run(etcdctl(member, ANSWER, words)).await?.text())
}

/// etcd's own client, speaking to one member.
fn etcdctl(member: Ipv4Addr, limit: Duration, words: &[&str]) -> Cmd {
    let endpoint = format!("--endpoints=https://{member}:{CLIENT_PORT}");
    let settings = [
        ("CACERT", format!("{PKI}/ca.crt")),
        ("CERT", format!("{PKI}/healthcheck-client.crt")),
        ("KEY", format!("{PKI}/healthcheck-client.key")),
        ("DIAL_TIMEOUT", format!("{}s", ANSWER.as_secs())),
        ("COMMAND_TIMEOUT", format!("{}s", limit.as_secs())),
        ("WRITE_OUT", "json".to_owned()),
    ];
    let env = settings.map(|(name, value)| (format!("ETCDCTL_{name}"), value)).to_vec();
    Cmd { env, ..Cmd::new(["etcdctl", &endpoint].iter().chain(words).copied()) }.within(limit + MARGIN)
}

/// A member with what it answers, if it does.
fn status_of(member: Member, status: Option<Status>, alarms: Vec<String>) -> MemberStatus {
    let answers = status.is_some();
    let mut status = status.unwrap_or_default();
    let has_leader = status.leader != 0;
    // Told by fields of their own.
    status.errors.retain(|error| alarm(error).is_none() && !error.contains("no leader"));
    MemberStatus {
        is_leader: has_leader && status.leader == member.id,
        version: status.version,
        agreed: status.agreed,
        revision: status.header.revision,
        size: status.size,
        is_leaderless: answers && !has_leader,
        complaints: status.errors,
        member: Member { answers, up: answers && has_leader && alarms.is_empty(), ..member },
        alarms,
    }
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    header: Header,
    members: Vec<Listed>,
}

#[derive(Default, Deserialize)]
struct Header {
    /// Of the one that answers.
    #[serde(default)]
    member_id: u64,
    revision: Option<u64>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "ID")]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "peerURLs")]
    peers: Vec<String>,
    #[serde(default, rename = "isLearner")]
    learner: bool,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "Status")]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    header: Header,
    version: Option<String>,
    #[serde(rename = "raftIndex")]
    agreed: Option<u64>,
    #[serde(rename = "dbSize")]
    size: Option<u64>,
    #[serde(default)]
    leader: u64,
    #[serde(default)]
    errors: Vec<String>,
}

/// What etcd's tools say that we cannot read.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error("it is not the JSON of etcd's tools")]
    Malformed(#[from] serde_json::Error),
    #[error("member {id:x} has no address")]
    NoAddress { id: u64 },
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, AnswerError> {
    Ok(serde_json::from_str(text)?)
}

fn parse_list(text: &str) -> Result<Vec<Member>, AnswerError> {
    let List { header, members } = parse(text)?;
    members
        .into_iter()
        .map(|Listed { id, name, peers, learner }| {
            let address =
                peers.iter().find_map(|url| address_in(url)).ok_or(AnswerError::NoAddress { id })?;
            let answers = id == header.member_id;
            Ok(Member { name, id, address, answers, up: answers, learner })
        })
        .collect()
}

/// The address in `https://10.213.0.3:2380`.
fn address_in(url: &str) -> Option<Ipv4Addr> {
    url.rsplit('/').next()?.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
