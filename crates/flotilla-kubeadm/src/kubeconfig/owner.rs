//! Which items of a kubeconfig a cluster has written.
//!
//! A name proves nothing: anybody may have a cluster `prod`. The certificate authority does: it is made with the cluster,
//! no other has it, and a client that trusts it reaches no other. The server's address is no proof, because addresses are
//! handed out again, and no condition either, because `update-context` repairs it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::change::{LISTS, current, items, named};
use super::tree::Tree;
use super::{Entry, Identity};

/// The items of one name in all files that kubectl reads, and what is known of the cluster of that name.
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    /// What the cluster is known by. More than one if it was made again.
    pub(super) known: &'a [Identity],
    /// The content of the files, in kubectl's order: the first item of a name counts.
    pub(super) files: Vec<&'a Tree>,
}

impl Identity {
    /// What an entry proves to be the cluster's.
    pub fn of(entry: &Entry) -> Self {
        Self { ca_pem: entry.ca_pem.clone(), client_cert_pem: entry.client_cert_pem.clone() }
    }

    /// A cluster of which no more than its authority is known.
    pub fn of_authority(ca_pem: Vec<u8>) -> Self {
        Self { ca_pem, client_cert_pem: Vec::new() }
    }

    /// What a file of ours says; none if the cluster is not in it.
    pub(super) fn in_config(config: &Tree, name: &str) -> Option<Self> {
        let first = |list| {
            let items = items(config, list).ok()?;
            named(items, name).next().map(|index| &items[index])
        };
        let ca_pem = data(first("clusters")?, "cluster", "certificate-authority-data")?;
        let certificate = first("users").and_then(|user| data(user, "user", "client-certificate-data"));
        Some(Self { ca_pem, client_cert_pem: certificate.unwrap_or_default() })
    }
}

impl Owner<'_> {
    /// The first list with an item of the name that is somebody else's, and in which file.
    pub(super) fn foreign(&self) -> Option<(usize, &'static str)> {
        let files = self.files.iter().enumerate();
        let mut lists = files.flat_map(|(file, config)| LISTS.map(|list| (file, *config, list)));
        let found = lists.find(|(_, config, list)| {
            let items = items(config, list).unwrap_or_default();
            named(items, self.name).any(|index| !self.wrote(list, &items[index]))
        });
        found.map(|(file, _, list)| (file, list))
    }

    /// Whether the cluster has written an item of its name in one of the files.
    pub(super) fn wrote(&self, list: &str, item: &Tree) -> bool {
        match list {
            "clusters" => self.is_our_cluster(item),
            "contexts" => self.is_our_context(item),
            _ => self.has_our_certificate(item) || self.is_used_by_us_alone(item),
        }
    }

    /// The current context: that of the first file which names one.
    pub(super) fn current(&self) -> Option<&str> {
        self.files.iter().find_map(|config| current(config))
    }

    /// Whether the context of the name is the cluster's, where kubectl finds it.
    pub(super) fn has_context(&self) -> bool {
        self.first("contexts").is_some_and(|context| self.is_our_context(context))
    }

    fn is_our_cluster(&self, item: &Tree) -> bool {
        let authority = data(item, "cluster", "certificate-authority-data");
        authority.is_some_and(|authority| self.known.iter().any(|known| is_same(&known.ca_pem, &authority)))
    }

    /// A context is ours if its cluster is, or if that is gone and its user is ours.
    fn is_our_context(&self, item: &Tree) -> bool {
        if refers_to(item, "cluster") != Some(self.name) {
            return false;
        }
        match self.first("clusters") {
            Some(cluster) => self.is_our_cluster(cluster),
            None => {
                refers_to(item, "user") == Some(self.name)
                    && self.first("users").is_some_and(|user| self.has_our_certificate(user))
            }
        }
    }

    fn has_our_certificate(&self, item: &Tree) -> bool {
        let certificate = data(item, "user", "client-certificate-data");
        certificate.is_some_and(|certificate| {
            let mut known = self.known.iter().map(|known| &known.client_cert_pem);
            known.any(|known| !known.is_empty() && is_same(known, &certificate))
        })
    }

    /// Whether our context uses it, and no context of another cluster does: certificates are renewed, and a user may
    /// have chosen another way to log in to our cluster.
    fn is_used_by_us_alone(&self, item: &Tree) -> bool {
        let ours = self.first("contexts").filter(|context| self.is_our_context(context));
        let is_used = ours.and_then(|context| refers_to(context, "user")) == Some(self.name);
        // All of ours is in one file. A user of that name in another one may be the person's own, also without a context.
        let is_beside = ours.is_some_and(|context| {
            self.files.iter().any(|config| {
                let has = |list, wanted: &Tree| {
                    items(config, list).is_ok_and(|items| items.iter().any(|item| std::ptr::eq(item, wanted)))
                };
                has("contexts", context) && has("users", item)
            })
        });
        let contexts = self.files.iter().flat_map(|config| items(config, "contexts").unwrap_or_default());
        let mut users = contexts.filter(|context| refers_to(context, "user") == Some(self.name));
        is_used
            && is_beside
            && self.first("users").is_some_and(|first| std::ptr::eq(first, item))
            && users.all(|context| refers_to(context, "cluster") == Some(self.name))
    }

    /// The item of the name that kubectl would use.
    fn first(&self, list: &'static str) -> Option<&Tree> {
        self.files.iter().find_map(|config| {
            let items = items(config, list).ok()?;
            named(items, self.name).next().map(|index| &items[index])
        })
    }
}

/// The cluster or user that a context names.
fn refers_to<'a>(context: &'a Tree, key: &str) -> Option<&'a str> {
    context.get("context")?.get(key)?.as_str()
}

/// Bytes that an item has in base64.
fn data(item: &Tree, inner: &str, key: &str) -> Option<Vec<u8>> {
    let text = item.get(inner)?.get(key)?.as_str()?;
    BASE64_STANDARD.decode(text.trim()).ok()
}

/// Whether two certificates are the same but for blanks around them.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && one.trim_ascii() == other.trim_ascii()
}
