//! A client that writes and reads through the virtual IP all the time, and remembers what it was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::lab::{Cluster, PATIENCE, wait_until};

/// Between two writes: often enough to see a gap, seldom enough to leave the machine to the cluster.
const PACE: Duration = Duration::from_millis(100);
/// After this time without an answer, the request is sent again on a new connection.
const LIMIT: Duration = Duration::from_millis(700);
const LABEL: (&str, &str) = ("app", "writer");

/// A thread that writes `ConfigMap`s, each under a name of its own, and reads each one back.
///
/// What was acknowledged must be there for ever; what was not may be there or not.
pub(super) struct Writer {
    tally: Arc<Mutex<Tally>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Tally {
    acknowledged: BTreeSet<String>,
    /// What was read at once and was not what had been written.
    wrong: Vec<String>,
    last: Instant,
    /// Since it was last reported.
    longest_gap: Duration,
    longest_of_all: Duration,
    last_error: String,
}

impl Writer {
    /// Begins, and waits for the first acknowledgement.
    pub(super) fn begin(cluster: &Cluster) -> Self {
        let tally = Arc::new(Mutex::new(Tally {
            acknowledged: BTreeSet::new(),
            wrong: Vec::new(),
            last: Instant::now(),
            longest_gap: Duration::ZERO,
            longest_of_all: Duration::ZERO,
            last_error: String::new(),
        }));
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (kubeconfig, tally, over) = (cluster.kubeconfig(), Arc::clone(&tally), Arc::clone(&over));
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(write(kubeconfig, &tally, &over));
            }
        });
        let writer = Self { tally, over, thread: Some(thread) };
        writer.goes_on();
        writer
    }

    /// Waits until something that was written from now on is acknowledged.
    #[track_caller]
    pub(super) fn goes_on(&self) {
        let before = self.tally().acknowledged.len();
        wait_until("a write is acknowledged", PATIENCE, || {
            let tally = self.tally();
            // The first one may have been on its way already.
            if tally.acknowledged.len() > before + 1 { Ok(()) } else { Err(tally.last_error.clone()) }
        });
    }

    /// Continues, and reports the longest time without an acknowledgement since the last report.
    #[track_caller]
    #[expect(clippy::print_stdout, reason = "a figure that a person may want to see")]
    pub(super) fn after(&self, what: &str) -> Duration {
        self.goes_on();
        let mut tally = self.tally();
        println!("the longest gap while {what}: {:.2} s", tally.longest_gap.as_secs_f64());
        std::mem::take(&mut tally.longest_gap)
    }

    /// Ends. Everything that was ever acknowledged must be in the cluster.
    #[track_caller]
    #[expect(clippy::print_stdout, reason = "as above")]
    pub(super) fn end(mut self, cluster: &Cluster) {
        self.goes_on();
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let tally = self.tally();
        assert!(tally.wrong.is_empty(), "read after written: {:?}", tally.wrong);
        let there = written(cluster);
        let lost: Vec<_> = tally.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), tally.acknowledged.len());
        let longest = tally.longest_of_all.as_secs_f64();
        println!(
            "{} writes were acknowledged, and none is lost; the longest gap of all: {longest:.2} s",
            tally.acknowledged.len()
        );
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap()
    }
}

impl Drop for Writer {
    /// One whose test failed does not go on writing while others run.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The names of all objects that writers have written and that still have that content.
pub(super) fn written(cluster: &Cluster) -> BTreeSet<String> {
    let (key, value) = LABEL;
    let path = r#"{range .items[*]}{.metadata.name} {.data.name}{"\n"}{end}"#;
    let listed = cluster.field(&["configmaps", "-l", &format!("{key}={value}")], path);
    let whole = listed.lines().filter_map(|line| line.split_once(' ')).filter(|(name, data)| name == data);
    whole.map(|(name, _)| name.to_owned()).collect()
}

async fn write(kubeconfig: PathBuf, tally: &Mutex<Tally>, over: &AtomicBool) {
    // Writers of one cluster have names of their own.
    static WRITERS: AtomicU32 = AtomicU32::new(0);
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    let mut client = None;
    for number in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("w{writer}-{number}");
        let done = tokio::time::timeout(LIMIT, write_one(&kubeconfig, &mut client, &name, tally)).await;
        if let Err(error) = done.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            tally.lock().unwrap().last_error = error;
            client = None;
        }
        tokio::time::sleep(PACE).await;
    }
}

async fn write_one(
    kubeconfig: &Path,
    client: &mut Option<Client>,
    name: &str,
    tally: &Mutex<Tally>,
) -> Result<(), String> {
    let client = match client {
        Some(client) => client.clone(),
        None => client.insert(connect(kubeconfig).await?).clone(),
    };
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(LABEL.0.to_owned(), LABEL.1.to_owned())].into()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("name".to_owned(), name.to_owned())])),
        ..Default::default()
    };
    maps.create(&PostParams::default(), &map).await.map_err(|error| error.to_string())?;
    tally.lock().unwrap().acknowledge(name);
    let read = match maps.get_opt(name).await.map_err(|error| error.to_string())? {
        Some(map) => map.data.unwrap_or_default().remove("name").unwrap_or_default(),
        None => "nothing".to_owned(),
    };
    if read != name {
        tally.lock().unwrap().wrong.push(format!("{name}: {read}"));
    }
    Ok(())
}

impl Tally {
    fn acknowledge(&mut self, name: &str) {
        self.longest_gap = self.longest_gap.max(self.last.elapsed());
        self.longest_of_all = self.longest_of_all.max(self.longest_gap);
        self.last = Instant::now();
        self.acknowledged.insert(name.to_owned());
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client, String> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| error.to_string())?;
    config.proxy_url = None;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| error.to_string())
}
