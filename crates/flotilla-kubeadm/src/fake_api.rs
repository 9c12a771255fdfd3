//! An API server that is a map of objects, for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Objects by the path of their address. Clones are handles on the same ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// What others change right before our next patch.
    interference: Vec<(String, Value)>,
    /// What others change as soon as somebody watches it, one change for each watch.
    upcoming: Vec<(String, Value)>,
    /// Parts of `METHOD path`, how many requests with them fail, and how.
    faults: Vec<(String, usize, Fault)>,
    version: u64,
    /// What was changed or tried, in order.
    log: Vec<String>,
    /// What was read, in order: `GET`, `LIST` or `WATCH` and the path.
    reads: Vec<String>,
}

/// How a request fails.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It is refused, with this code and in these words.
    Refused(u16, &'static str),
    /// Nobody hears it.
    Unheard,
    /// It is done, and nobody hears the answer.
    Unanswered,
}

impl FakeApi {
    pub(crate) fn new(objects: &[(&str, Value)]) -> Self {
        let api = Self::default();
        for (path, object) in objects {
            api.put(path, object.clone());
        }
        api
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state().objects.insert(path.to_owned(), object);
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.expect("the body is in memory");
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (status, answer) = api.state().hear(&parts.method, &parts.uri, &body)?;
                let response = Response::builder().status(status).body(Body::from(answer.into_bytes()));
                Ok::<_, io::Error>(response.expect("it is a response"))
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// The paths of the objects that begin like this.
    pub(crate) fn paths(&self, prefix: &str) -> Vec<String> {
        self.state().objects.keys().filter(|path| path.starts_with(prefix)).cloned().collect()
    }

    /// Merges `change` into an object right before the next patch of it arrives.
    pub(crate) fn interfere(&self, path: &str, change: Value) {
        self.state().interference.push((path.to_owned(), change));
    }

    /// Lets the next `times` requests fail that have this in their `METHOD path`.
    pub(crate) fn fail(&self, request: &str, times: usize, fault: Fault) {
        self.state().faults.push((request.to_owned(), times, fault));
    }

    /// Merges `change` into an object while somebody watches its kind; the watch tells of it and ends.
    pub(crate) fn change_when_watched(&self, path: &str, change: Value) {
        self.state().upcoming.push((path.to_owned(), change));
    }

    /// What was read, in order: `GET`, `LIST` or `WATCH` and the path.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hear(&mut self, method: &Method, uri: &Uri, body: &Value) -> io::Result<(u16, String)> {
        let path = uri.path().strip_suffix("/status").unwrap_or(uri.path());
        let request = format!("{method} {path}");
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        if method == Method::GET {
            let verb = match () {
                () if is_watch => "WATCH",
                () if is_kind(path) => "LIST",
                () => "GET",
            };
            self.reads.push(format!("{verb} {path}"));
        } else {
            self.log.push(request.clone());
        }
        let in_words = |(status, answer): (u16, Value)| (status, answer.to_string());
        match self.fault(&request) {
            Some(Fault::Refused(code, message)) => Ok(in_words(failed(code, message))),
            Some(Fault::Unheard) => Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Fault::Unanswered) => {
                self.answer(method, path, uri.query(), body);
                Err(io::ErrorKind::ConnectionReset.into())
            }
            None if is_watch => Ok((200, self.event(path))),
            None => Ok(in_words(self.answer(method, path, uri.query(), body))),
        }
    }

    /// What a watch of a kind tells before it ends.
    fn event(&mut self, kind: &str) -> String {
        let is_of_kind =
            |(path, _): &(String, Value)| path.rsplit_once('/').is_some_and(|(of, _)| of == kind);
        let Some(at) = self.upcoming.iter().position(is_of_kind) else { return String::new() };
        let (path, change) = self.upcoming.remove(at);
        let word = if self.objects.contains_key(&path) { "MODIFIED" } else { "ADDED" };
        self.objects.entry(path.clone()).or_insert(json!({}));
        self.change(&path, &change);
        format!("{}\n", json!({"type": word, "object": self.objects[&path]}))
    }

    fn fault(&mut self, request: &str) -> Option<Fault> {
        let found = self.faults.iter_mut().find(|(part, times, _)| *times > 0 && request.contains(part));
        found.map(|(_, times, fault)| {
            *times -= 1;
            *fault
        })
    }

    fn answer(&mut self, method: &Method, path: &str, query: Option<&str>, body: &Value) -> (u16, Value) {
        match *method {
            Method::GET if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            Method::GET if is_kind(path) => {
                let node = query.and_then(|query| query.split_once("spec.nodeName%3D")).map(|(_, name)| name);
                let label =
                    query.and_then(|query| query.split_once("labelSelector=")).map(|(_, label)| label);
                let label = label.and_then(|label| label.split('&').next()?.split_once("%3D"));
                let has_label = |object: &Value| {
                    label.is_none_or(|(key, value)| {
                        object["metadata"]["labels"][key.replace("%2F", "/")] == value
                    })
                };
                let is_on = |object: &Value| node.is_none_or(|node| object["spec"]["nodeName"] == node);
                let is_there = |object: &&Value| is_on(object) && has_label(object);
                let items: Vec<_> = self.of_kind(path).filter(is_there).cloned().collect();
                (
                    200,
                    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}),
                )
            }
            Method::PATCH if self.objects.contains_key(path) => {
                for (path, change) in std::mem::take(&mut self.interference) {
                    self.change(&path, &change);
                }
                let version = body.pointer("/metadata/resourceVersion");
                if version
                    .is_some_and(|version| self.objects[path]["metadata"]["resourceVersion"] != *version)
                {
                    return failed(409, "Conflict");
                }
                self.change(path, body);
                (200, self.objects[path].clone())
            }
            Method::POST if path.ends_with("/eviction") => {
                let path = path.trim_end_matches("/eviction");
                self.remove(path, &body["deleteOptions"])
            }
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.objects.contains_key(&path) {
                    return failed(409, "Conflict");
                }
                self.objects.insert(path, body.clone());
                (201, body.clone())
            }
            Method::DELETE => self.remove(path, body),
            _ => failed(404, "NotFound"),
        }
    }

    fn change(&mut self, path: &str, change: &Value) {
        self.version += 1;
        let version = format!("v{}", self.version);
        let object = self.objects.get_mut(path).expect("the test has made it");
        merge(object, change);
        object["metadata"]["resourceVersion"] = json!(version);
    }

    fn remove(&mut self, path: &str, options: &Value) -> (u16, Value) {
        let Some(object) = self.objects.get(path) else { return failed(404, "NotFound") };
        for field in ["uid", "resourceVersion"] {
            let wanted = options.pointer(&format!("/preconditions/{field}"));
            if wanted.is_some_and(|wanted| !wanted.is_null() && object["metadata"][field] != *wanted) {
                return failed(409, "Conflict");
            }
        }
        self.objects.remove(path);
        (200, json!({"kind": "Status", "status": "Success"}))
    }

    /// Those of one namespace, or of all.
    fn of_kind(&self, path: &str) -> impl Iterator<Item = &Value> {
        let (group, kind) = path.rsplit_once('/').expect("it is a path");
        let own = move |at: &String| {
            at.rsplit_once('/').is_some_and(|(own, _)| {
                let of_all = own.strip_prefix(group).and_then(|own| own.strip_prefix("/namespaces/"));
                own == path
                    || of_all.is_some_and(|own| own.split_once('/').is_some_and(|(_, own)| own == kind))
            })
        };
        self.objects.iter().filter(move |(at, _)| own(at)).map(|(_, object)| object)
    }
}

/// Whether the path is that of objects of a kind, not of one: names and kinds take turns in it.
fn is_kind(path: &str) -> bool {
    let kinds = path.strip_prefix("/api/v1/").or_else(|| path.strip_prefix("/apis/")?.splitn(3, '/').nth(2));
    kinds.is_some_and(|kinds| kinds.split('/').count() % 2 == 1)
}

fn failed(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}))
}

/// A JSON merge patch: null removes.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            object.as_object_mut().expect("it is one by now").remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}
