//! An API server that is a map of objects, for tests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response};
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
    version: u64,
    /// What was changed or tried, in order.
    log: Vec<String>,
}

impl FakeApi {
    pub(crate) fn new(objects: &[(&str, Value)]) -> Self {
        let api = Self::default();
        for (path, object) in objects {
            api.state().objects.insert((*path).to_owned(), object.clone());
        }
        api
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.expect("the body is in memory");
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (status, answer) = api.state().answer(&parts.method, parts.uri.path(), &body);
                let response =
                    Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.expect("it is a response"))
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// Merges `change` into an object right before the next patch of it arrives.
    pub(crate) fn interfere(&self, path: &str, change: Value) {
        self.state().interference.push((path.to_owned(), change));
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let path = path.strip_suffix("/status").unwrap_or(path);
        if method != Method::GET {
            self.log.push(format!("{method} {path}"));
        }
        match *method {
            Method::GET if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            Method::GET if self.is_kind(path) => {
                let items: Vec<_> = self.of_kind(path).cloned().collect();
                (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
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
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.objects.contains_key(&path) {
                    return failed(409, "Conflict");
                }
                self.objects.insert(path, body.clone());
                (201, body.clone())
            }
            Method::DELETE => match self.objects.remove(path) {
                Some(object) => (200, object),
                None => failed(404, "NotFound"),
            },
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

    fn is_kind(&self, path: &str) -> bool {
        self.of_kind(path).next().is_some()
    }

    fn of_kind(&self, path: &str) -> impl Iterator<Item = &Value> {
        let own = move |at: &String| at.rsplit_once('/').is_some_and(|(kind, _)| kind == path);
        self.objects.iter().filter(move |(at, _)| own(at)).map(|(_, object)| object)
    }
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
