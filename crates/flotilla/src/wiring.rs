//! What commands are wired to: the real world, or fakes in tests. The one place that names a driver.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flotilla_bundle::BundleStore;
use flotilla_core::{Bootstrapper, Bundles, Cancel, Driver, Host, Kubeconfig, Reporter};
use flotilla_engine::Fleet;
use flotilla_engine::fleet::Hosts;
use flotilla_engine::store::ClusterStore;
use flotilla_kubeadm::Kubeadm;
use flotilla_kubeadm::kubeconfig::PersonalKubeconfig;
use flotilla_linux::host::Command;
use flotilla_linux::process::host_size;
use flotilla_native::{BridgeNetwork, LocalHost, NativeDriver};
use flotilla_ops::{Context, OpError};
use flotilla_spec::quantity::HostSize;

use crate::settings::Settings;

/// What every command is wired to.
#[derive(Clone)]
pub struct Wiring {
    pub hosts: Vec<Arc<dyn Host>>,
    pub bootstrapper: Arc<dyn Bootstrapper>,
    pub bundles: Arc<dyn Bundles>,
    pub kubeconfig: Arc<dyn Kubeconfig>,
    pub store: ClusterStore,
    pub cancel: Cancel,
    pub host: HostSize,
    pub is_root: bool,
    /// Ctrl-C cancels what runs, instead of ending the process at once.
    pub cancels_on_signals: bool,
    /// Lets a program take the place of this process: returns only if that fails, or in tests.
    pub replace_us: Arc<ReplaceUs>,
}

/// Starts a program in place of ours.
pub(crate) type ReplaceUs = dyn Fn(Replacement) -> io::Result<()> + Send + Sync;

/// A program whose streams, signals and exit status are to be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Beside what our environment has.
    pub env: Vec<(&'static str, PathBuf)>,
}

impl std::fmt::Debug for Wiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wiring").field("store", &self.store).field("host", &self.host).finish_non_exhaustive()
    }
}

impl Wiring {
    /// Touches nothing.
    pub fn real(settings: &Settings) -> Result<Self, OpError> {
        let cancel = Cancel::new();
        let asked = cancel.clone();
        let store = ClusterStore::new(&settings.home);
        let home = &settings.home;
        let drivers: Vec<Arc<dyn Driver>> = vec![Arc::new(NativeDriver::new(home, &cancel))];
        let host = LocalHost::new(home, Arc::new(BridgeNetwork::new(home)), drivers);
        let hosts: Vec<Arc<dyn Host>> = vec![Arc::new(host)];
        let reach = Arc::new(Hosts(hosts.clone()));
        let Settings { kubeconfig, user_home, owner, .. } = settings;
        let kubeconfig = PersonalKubeconfig::new(kubeconfig.as_deref(), user_home, *owner, store.clusters());
        Ok(Self {
            hosts,
            bootstrapper: Arc::new(Kubeadm::new(Arc::new(move || asked.is_cancelled()), reach)),
            bundles: Arc::new(BundleStore::open(settings.home.clone(), cancel.clone())?),
            kubeconfig: Arc::new(kubeconfig),
            store,
            cancel,
            host: this_host(),
            is_root: rustix::process::geteuid().is_root(),
            cancels_on_signals: true,
            replace_us: Arc::new(replace_us),
        })
    }

    pub(crate) fn context<'a>(&'a self, reporter: &'a dyn Reporter) -> Context<'a> {
        Context {
            fleet: Fleet::new(&self.hosts),
            bootstrapper: self.bootstrapper.as_ref(),
            bundles: self.bundles.as_ref(),
            kubeconfig: self.kubeconfig.as_ref(),
            store: &self.store,
            reporter,
            cancel: &self.cancel,
            host: self.host,
            is_root: self.is_root,
        }
    }
}

fn replace_us(Replacement { program, args, env }: Replacement) -> io::Result<()> {
    let command = env
        .into_iter()
        .fold(Command::new(program).args(args), |command, (name, value)| command.env(name, value));
    Err(io::Error::other(command.replace_us()))
}

/// How large this host is.
fn this_host() -> HostSize {
    let host = host_size();
    HostSize { cpus: host.cpus, memory: host.memory }
}
