//! Who leads among the controllers and schedulers of all control planes. A new one would wait twenty seconds for a leader
//! that is dead, and until then the services' endpoints would stay as they were.

use std::collections::BTreeMap;

use flotilla_engine::port::{BootstrapError, Cmd, Machine};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;
use kube::{Api, Client};

use crate::api::{self, SYSTEM, insist};
use crate::patience::Cancelled;
use crate::phase::run;

/// Those of which one among all control planes is at work.
const LEADERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// A leader that cannot renew its lease for ten seconds ends.
const GIVEN_UP: SignedDuration = SignedDuration::from_secs(11);

/// Clock ticks in a second, in what the kernel tells programs.
const TICKS: i64 = 100;

/// Takes the leadership from all.
pub(crate) async fn release_all(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    release_if(client, |_| true, cancelled).await
}

/// Takes it from those in a node that is no more.
pub(crate) async fn release_of(
    client: &Client,
    node: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    release_if(client, |lease| holder(lease) == Some(node), cancelled).await
}

/// Takes it from those that cannot have it any longer. `machines` are those of all control planes that are on.
pub(crate) async fn release_void<'a>(
    client: &Client,
    machines: impl Iterator<Item = &'a dyn Machine>,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let mut ages = BTreeMap::new();
    for machine in machines {
        let asked = run(machine, "ask how long it is on", Cmd::new(["cat", "/proc/1/stat", "/proc/uptime"]));
        ages.extend(age(&asked.await?.text()).map(|age| (machine.name().to_string(), age)));
    }
    release_if(client, |lease| is_void(lease, &ages), cancelled).await
}

async fn release_if(
    client: &Client,
    is_over: impl Fn(&Lease) -> bool,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM);
    for name in LEADERS {
        insist(format!("take the leadership from a {name} that is gone"), cancelled, || async {
            match leases.get_opt(name).await? {
                Some(lease) if is_over(&lease) => api::delete(&leases, name, &DeleteParams::default()).await,
                _ => Ok(()),
            }
        })
        .await?;
    }
    Ok(())
}

/// The node of the one that leads: it is called after its host, with a number.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()?.rsplit_once('_').map(|(host, _)| host)
}

/// Whether the one that leads has stopped by itself, is in a machine that is off, or was in an earlier life of one that is
/// on. `ages`: for how long machines are on.
fn is_void(lease: &Lease, ages: &BTreeMap<String, SignedDuration>) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let Some(silent) = renewed.map(|renewed| Timestamp::now().duration_since(renewed.0)) else {
        return false;
    };
    let age = holder(lease).and_then(|node| ages.get(node));
    silent > GIVEN_UP || age.is_none_or(|age| silent > *age)
}

/// For how long a machine is on: from when its PID 1 was started, in ticks since the kernel was, and how old that is.
fn age(text: &str) -> Option<SignedDuration> {
    let (stat, uptime) = text.trim_end().rsplit_once('\n')?;
    // The second field is a name, which may have anything in it.
    let started: i64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    let now = seconds.parse::<i64>().ok()? * TICKS + hundredths.parse::<i64>().ok()?;
    Some(SignedDuration::from_millis((now - started) * (1000 / TICKS)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flotilla_testkit::fake::FakeMachine;
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    /// On for 7.5 seconds.
    const PROC: &str = "1 (flotilla-init (1)) S 0 1 1 0 -1 4194560 900 0 0 0 1 2 3 4 20 0 1 0 123450 5000000 300\n1242.00 2000.00\n";

    fn never() -> Cancelled {
        Arc::new(|| false)
    }

    fn lease(node: &str, seconds: i64) -> serde_json::Value {
        let time = Timestamp::now() - SignedDuration::from_secs(seconds);
        let time = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let spec = json!({"holderIdentity": format!("{node}_4a1"), "renewTime": time});
        json!({"metadata": {}, "spec": spec})
    }

    /// The leases that are there after a start of `demo`, which is on for 7.5 seconds.
    async fn left(leases: &[(&str, serde_json::Value)]) -> Vec<String> {
        let leases: Vec<_> =
            leases.iter().map(|(name, lease)| (format!("{LEASES}/{name}"), lease.clone())).collect();
        let api = FakeApi::new(
            &leases.iter().map(|(path, lease)| (path.as_str(), lease.clone())).collect::<Vec<_>>(),
        );
        // The second time nothing is left to release, which is no failure.
        for _ in 0..2 {
            let machine = FakeMachine::new(&[], &[("/proc/uptime", Ok(PROC))]);
            release_void(&api.client(), [&machine as &dyn Machine].into_iter(), &never()).await.unwrap();
        }
        let names = leases.into_iter().filter(|(path, _)| api.object(path).is_some());
        names.map(|(path, _)| path[LEASES.len() + 1..].to_owned()).collect()
    }

    #[test]
    fn the_age_of_a_machine_is_that_of_its_first_process() {
        assert_eq!(age(PROC), Some(SignedDuration::from_millis(7500)));
        assert_eq!(age(""), None);
        assert_eq!(age("1 (init) S 0\n1242.00 2000.00"), None);
    }

    #[tokio::test]
    async fn nobody_waits_for_leaders_of_an_earlier_life_of_the_machine() {
        let leases = [
            ("kube-controller-manager", lease("demo", 9)),
            ("kube-scheduler", lease("demo", 3)),
            ("another", lease("demo", 9)),
        ];
        assert_eq!(left(&leases).await, ["kube-scheduler", "another"]);
    }

    #[tokio::test]
    async fn nobody_waits_for_leaders_in_machines_that_are_off_or_that_have_given_up() {
        let leases =
            [("kube-controller-manager", lease("demo-m02", 1)), ("kube-scheduler", lease("demo", 20))];
        assert_eq!(left(&leases).await, [] as [&str; 0]);
    }

    #[tokio::test]
    async fn the_leaders_of_a_node_that_is_no_more_are_released_and_others_lead_on() {
        let (gone, other) = (format!("{LEASES}/kube-scheduler"), format!("{LEASES}/kube-controller-manager"));
        let api = FakeApi::new(&[(&gone, lease("demo-m02", 1)), (&other, lease("demo", 1))]);
        release_of(&api.client(), "demo-m02", &never()).await.unwrap();
        assert_eq!([&gone, &other].map(|path| api.object(path).is_some()), [false, true]);
        release_all(&api.client(), &never()).await.unwrap();
        assert!(api.object(&other).is_none());
    }
}
