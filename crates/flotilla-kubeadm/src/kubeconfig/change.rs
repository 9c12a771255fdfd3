//! Computes the changes of a kubeconfig from its content. [`super::edit`] changes the text.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::Entry;
use super::tree::Tree;

/// The lists an entry has an item in.
pub(super) const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

const CURRENT: &str = "current-context";

/// One change of a kubeconfig. Indexes count the items as they were before all changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// Sets a scalar at the top.
    Set {
        key: &'static str,
        value: String,
    },
    Replace {
        list: &'static str,
        index: usize,
        item: Tree,
    },
    Append {
        list: &'static str,
        item: Tree,
    },
    Remove {
        list: &'static str,
        index: usize,
    },
}

impl Change {
    /// The list whose items change.
    pub(super) fn list(&self) -> Option<&'static str> {
        match self {
            Self::Set { .. } => None,
            Self::Replace { list, .. } | Self::Append { list, .. } | Self::Remove { list, .. } => Some(list),
        }
    }
}

/// A file is YAML, but kubectl could not read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it is not a mapping")]
    NotAMapping,
    #[error("{list} is not a list")]
    NotAList { list: &'static str },
}

/// The changes that add the entry, and make it the current context if requested.
///
/// Settings that the user added to our cluster and context are kept, such as a proxy or a namespace, unless they
/// contradict the entry.
pub(super) fn put(config: &Tree, entry: &Entry, current: bool) -> Result<Vec<Change>, Malformed> {
    let mut changes = header(config)?;
    for list in LISTS {
        let items = items(config, list)?;
        let mut same_name = named(items, &entry.name);
        let first = same_name.next();
        let wanted = item(list, first.map(|index| &items[index]), entry);
        match first {
            None => changes.push(Change::Append { list, item: wanted }),
            Some(index) if items[index] != wanted => {
                changes.push(Change::Replace { list, index, item: wanted });
            }
            Some(_) => {}
        }
        // kubectl refuses a file that has a name twice.
        changes.extend(same_name.map(|index| Change::Remove { list, index }));
    }
    if current {
        changes.extend(set_current(config, &entry.name));
    }
    Ok(changes)
}

/// The changes that make `name` the current context.
pub(super) fn make_current(config: &Tree, name: &str) -> Result<Vec<Change>, Malformed> {
    let Some(set) = set_current(config, name) else { return Ok(Vec::new()) };
    let mut changes = header(config)?;
    changes.push(set);
    Ok(changes)
}

/// The changes that remove all entries of that name that the cluster has written.
pub(super) fn remove(
    config: &Tree,
    name: &str,
    wrote: impl Fn(&str, &Tree) -> bool,
) -> Result<Vec<Change>, Malformed> {
    let mut changes = Vec::new();
    for list in LISTS {
        let items = items(config, list)?;
        let ours = named(items, name).filter(|index| wrote(list, &items[*index]));
        changes.extend(ours.map(|index| Change::Remove { list, index }));
    }
    Ok(changes)
}

/// The changes that unset the current context `name`.
pub(super) fn unset_context(config: &Tree, name: &str) -> Option<Change> {
    is_current(config, name).then(|| Change::Set { key: CURRENT, value: String::new() })
}

/// Applies the changes to the content: the edited text must parse to the same.
pub(super) fn apply(config: &mut Tree, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Set { key, value } => *config.at(key) = value.as_str().into(),
            Change::Replace { list, index, item } => config.at(list).list()[*index] = item.clone(),
            Change::Append { list, item } => config.at(list).list().push(item.clone()),
            Change::Remove { .. } => {}
        }
    }
    // Last and from the back, so that the indexes hold.
    for change in changes.iter().rev() {
        if let Change::Remove { list, index } = change {
            config.at(list).list().remove(*index);
        }
    }
}

pub(super) fn has_any(config: &Tree, name: &str) -> bool {
    LISTS.iter().any(|list| items(config, list).is_ok_and(|items| named(items, name).next().is_some()))
}

/// The current context, if the file names one.
pub(super) fn current(config: &Tree) -> Option<&str> {
    config.get(CURRENT).and_then(Tree::as_str).filter(|name| !name.is_empty())
}

pub(super) fn is_current(config: &Tree, name: &str) -> bool {
    config.get(CURRENT).and_then(Tree::as_str) == Some(name)
}

fn set_current(config: &Tree, name: &str) -> Option<Change> {
    (!is_current(config, name)).then(|| Change::Set { key: CURRENT, value: name.to_owned() })
}

/// What an empty file needs to be a kubeconfig.
fn header(config: &Tree) -> Result<Vec<Change>, Malformed> {
    match config {
        Tree::Map(_) => Ok(Vec::new()),
        Tree::Null => Ok([("apiVersion", "v1"), ("kind", "Config")]
            .map(|(key, value)| Change::Set { key, value: value.to_owned() })
            .into()),
        _ => Err(Malformed::NotAMapping),
    }
}

/// The items of a list, which may be missing or null.
pub(super) fn items<'a>(config: &'a Tree, list: &'static str) -> Result<&'a [Tree], Malformed> {
    match (config, config.get(list)) {
        (Tree::Map(_), Some(Tree::List(items))) => Ok(items),
        (Tree::Map(_), None | Some(Tree::Null)) | (Tree::Null, _) => Ok(&[]),
        (Tree::Map(_), Some(_)) => Err(Malformed::NotAList { list }),
        _ => Err(Malformed::NotAMapping),
    }
}

pub(super) fn named<'a>(items: &'a [Tree], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_ours = move |item: &Tree| item.get("name").and_then(Tree::as_str) == Some(name);
    items.iter().enumerate().filter(move |(_, item)| is_ours(item)).map(|(index, _)| index)
}

/// The item of an entry in one of the lists, with what the user added to the one there.
fn item(list: &str, there: Option<&Tree>, entry: &Entry) -> Tree {
    let data = |pem: &[u8]| Tree::from(BASE64_STANDARD.encode(pem));
    let mut item = there.cloned().unwrap_or(Tree::Null);
    match list {
        "clusters" => {
            let cluster = item.at("cluster");
            cluster.remove("certificate-authority");
            cluster.remove("insecure-skip-tls-verify");
            *cluster.at("certificate-authority-data") = data(&entry.ca_pem);
            *cluster.at("server") = entry.server.as_str().into();
        }
        "contexts" => {
            let context = item.at("context");
            *context.at("cluster") = entry.name.as_str().into();
            if let Some(namespace) = &entry.namespace {
                *context.at("namespace") = namespace.as_str().into();
            }
            *context.at("user") = entry.name.as_str().into();
        }
        // Everything that could be added is another way to log in, but for extensions, which other programs read.
        _ => {
            // kubectl sorts: here the name comes first.
            item.at("name");
            let extensions = item.get("user").and_then(|user| user.get("extensions")).cloned();
            let mut user = vec![
                ("client-certificate-data".to_owned(), data(&entry.client_cert_pem)),
                ("client-key-data".to_owned(), data(&entry.client_key_pem)),
            ];
            user.extend(extensions.map(|extensions| ("extensions".to_owned(), extensions)));
            *item.at("user") = Tree::Map(user);
        }
    }
    *item.at("name") = entry.name.as_str().into();
    item
}
