//! Objects of one kind, listed once and then followed by a watch: each change is reported by the API server, and nothing is
//! asked for twice.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use flotilla_core::BootstrapError;
use flotilla_core::explain::one_line;
use futures::future::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::patience::Patience;

/// The API server ends a watch after so many seconds: before the connection is given up for its silence.
const WATCH: u32 = 8;

/// How often a silent watch looks whether it was cancelled, or has taken too long.
const TICK: Duration = Duration::from_millis(100);

/// Objects by their names.
pub(super) type Objects<K> = BTreeMap<String, K>;

type Events<K> = BoxStream<'static, Result<WatchEvent<K>, kube::Error>>;

/// Objects of one kind as they are now.
pub(super) struct Followed<K> {
    api: Api<K>,
    /// Only objects with these labels.
    labels: Option<&'static str>,
    objects: Objects<K>,
    /// The version of the list or of its last change; none if nothing was listed yet, or if the list may be out of date.
    version: Option<String>,
    events: Option<Events<K>>,
}

impl<K> Followed<K>
where
    K: Clone + Debug + DeserializeOwned + Resource + Send + 'static,
    K::DynamicType: Default,
{
    pub(super) fn new(api: Api<K>) -> Self {
        Self { api, labels: None, objects: Objects::new(), version: None, events: None }
    }

    pub(super) fn labelled(api: Api<K>, labels: &'static str) -> Self {
        Self { labels: Some(labels), ..Self::new(api) }
    }

    /// All of them. Asks for the list only if it has none.
    pub(super) async fn objects(&mut self) -> Result<&mut Objects<K>, kube::Error> {
        if self.version.is_none() {
            let label_selector = self.labels.map(str::to_owned);
            let list = self.api.list(&ListParams { label_selector, ..ListParams::default() }).await?;
            self.version = Some(list.metadata.resource_version.unwrap_or_default());
            self.objects = list.items.into_iter().map(|object| (object.name_any(), object)).collect();
        }
        Ok(&mut self.objects)
    }

    /// Has the list made again after the next pause.
    pub(super) fn distrust(&mut self) {
        (self.version, self.events) = (None, None);
    }

    /// Waits for a change. `seen` is what is wrong so far.
    pub(super) async fn change(
        &mut self,
        patience: &Patience,
        seen: &[String],
    ) -> Result<(), BootstrapError> {
        patience.check(seen)?;
        self.watch().await;
        while let Some(events) = &mut self.events {
            match tokio::time::timeout(TICK, events.next()).await {
                Err(_) => patience.check(seen)?,
                Ok(event) => {
                    let mut changed = self.take_in(event);
                    // What has come together is looked at together.
                    while let Some(event) =
                        self.events.as_mut().and_then(|events| events.next().now_or_never())
                    {
                        changed |= self.take_in(event);
                    }
                    if changed {
                        return Ok(());
                    }
                }
            }
        }
        patience.pause(seen).await
    }

    async fn watch(&mut self) {
        if self.events.is_some() {
            return;
        }
        let Some(version) = &self.version else { return };
        let label_selector = self.labels.map(str::to_owned);
        let watch = WatchParams { label_selector, ..WatchParams::default() }.timeout(WATCH);
        match self.api.watch(&watch, version).await {
            Ok(events) => self.events = Some(events.boxed()),
            Err(_) => self.distrust(),
        }
    }

    /// Says whether an object has changed.
    fn take_in(&mut self, event: Option<Result<WatchEvent<K>, kube::Error>>) -> bool {
        match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                self.version = object.resource_version().or(self.version.take());
                self.objects.insert(object.name_any(), object);
                true
            }
            Some(Ok(WatchEvent::Deleted(object))) => {
                self.version = object.resource_version().or(self.version.take());
                self.objects.remove(&object.name_any()).is_some()
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                self.version = Some(bookmark.metadata.resource_version);
                false
            }
            // It may be that the version is too old to begin with.
            Some(Ok(WatchEvent::Error(_)) | Err(_)) => {
                self.distrust();
                false
            }
            // Its time is over: the next one begins where it ended.
            None => {
                self.events = None;
                false
            }
        }
    }
}

/// Waits until `problems` finds none with the objects.
pub(super) async fn until_right<K>(
    mut followed: Followed<K>,
    patience: &Patience,
    problems: impl Fn(&Objects<K>) -> Vec<String>,
) -> Result<(), BootstrapError>
where
    K: Clone + Debug + DeserializeOwned + Resource + Send + 'static,
    K::DynamicType: Default,
{
    loop {
        let seen = match followed.objects().await {
            Ok(objects) => problems(objects),
            Err(error) => vec![one_line(&error)],
        };
        if seen.is_empty() {
            return Ok(());
        }
        followed.change(patience, &seen).await?;
    }
}
