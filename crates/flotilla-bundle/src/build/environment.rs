//! What the compilers see of the user's environment: how to reach the network, and nothing that shapes a program.
//!
//! A list of what may pass, not of what may not: compilers read dozens of variables, and new ones with every release.

use std::path::PathBuf;

use flotilla_linux::host::Command;

use super::BuildSource;
use crate::image;
use crate::source::Workplace;

/// Where programs are, and how the network is reached.
const PASSED: [&str; 17] = [
    "PATH",
    "HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSH_COMMAND",
    "SSH_AUTH_SOCK",
    "NETRC",
];

/// Where Go gets modules from and how they are checked. Read from Go itself, since `go env -w` may have set them.
const GO_SETTINGS: [&str; 8] =
    ["GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH"];

/// Where `go env -w` stores its settings.
const GO_FILE: [&str; 2] = ["GOENV", "XDG_CONFIG_HOME"];

impl BuildSource {
    /// A compiler of the host that sees nothing of the user's settings but the way to the network.
    pub(super) fn compiler(&self, program: &str) -> Command {
        self.command(program).inherit_only(&PASSED)
    }

    /// The host's `go` itself: never another one that the user's settings make it fetch.
    pub(super) fn plain_go(&self) -> Command {
        self.compiler("go").env("GOENV", "off").env("GOTOOLCHAIN", "local")
    }

    /// The host's `go` for building, with caches of our own: removing them frees all that building took.
    pub(super) fn go(&self, directory: impl Into<PathBuf>, at: &Workplace<'_>) -> Command {
        let caches = self.cache.join("go");
        self.go_settings()
            .iter()
            .fold(self.plain_go(), |go, (name, value)| go.env(name, value))
            .current_dir(directory.into())
            .env("GOOS", "linux")
            .env("GOARCH", image::architecture())
            // The oldest processor of the architecture, so that a bundle runs on every machine.
            .env("GOAMD64", "v1")
            .env("GOARM64", "v8.0")
            .env("CC", "gcc")
            .env("GOWORK", "off")
            .env("GOFLAGS", "-modcacherw")
            .env("GOPATH", caches.join("path"))
            .env("GOMODCACHE", caches.join("mod"))
            .env("GOCACHE", caches.join("build"))
            // Else root's counters of Go's use end up in the user's home.
            .env("XDG_CONFIG_HOME", caches.join("config"))
            .env("TMPDIR", at.scratch)
            // The compiler's own memory: more of it saves a tenth of its time.
            .env("GOGC", "400")
    }

    fn go_settings(&self) -> &[(String, String)] {
        self.go_settings.get_or_init(|| {
            let passed = [&PASSED[..], &GO_SETTINGS, &GO_FILE].concat();
            let go = self.command("go").inherit_only(&passed).env("GOTOOLCHAIN", "local");
            let asked = go.args(["env", "-json"]).args(GO_SETTINGS).current_dir("/").run();
            // Without an answer Go's own defaults hold, and the build says what is wrong with it.
            let answer: serde_json::Value =
                asked.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
            let setting = |name: &&str| Some(((*name).to_owned(), answer.get(name)?.as_str()?.to_owned()));
            GO_SETTINGS.iter().filter_map(setting).filter(|(_, value)| !value.is_empty()).collect()
        })
    }
}
