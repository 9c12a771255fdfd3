//! A machine made of a map of files and a script of answers, for tests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use async_trait::async_trait;
use flotilla_engine::cluster::{Cluster, HandedOut};
use flotilla_engine::port::{Attach, Cmd, Exec, ExecError, ExecOutput, Machine, MachineState, Power};
use flotilla_spec::{ClusterSpec, NodeName};

/// A cluster of one node in a network of its own choosing.
pub(crate) fn cluster(subnet: &str) -> Cluster {
    let spec = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane}
";
    let spec = ClusterSpec::from_yaml(spec).unwrap();
    let handed_out = HandedOut {
        subnet: subnet.parse().unwrap(),
        pod_subnet: "10.244.0.0/16".parse().unwrap(),
        nodes: BTreeMap::from([(spec.nodes[0].name.clone(), 1)]),
        highest: 0,
        bundle: "sha256:0".to_owned(),
    };
    Cluster { spec, handed_out }
}

/// What a program answers: its output, or that it failed.
pub(crate) type Answer = Result<&'static str, ()>;

pub(crate) struct FakeMachine {
    name: NodeName,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The first whose key is in a command's words is taken from the script and is the answer.
    script: Mutex<Vec<(&'static str, Answer)>>,
    log: Mutex<Vec<String>>,
}

impl FakeMachine {
    pub(crate) fn new(files: &[(&str, &[u8])], script: &[(&'static str, Answer)]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        Self {
            name: "demo".parse().unwrap(),
            files: Mutex::new(files),
            script: Mutex::new(script.to_vec()),
            log: Mutex::default(),
        }
    }

    pub(crate) fn file(&self, path: &str) -> Option<String> {
        let files = self.files.lock().unwrap();
        files.get(path).map(|bytes| String::from_utf8(bytes.clone()).unwrap())
    }

    /// What was done, in order: programs by their words, files by their paths.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

impl Machine for FakeMachine {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn state(&self) -> MachineState {
        MachineState { power: Power::On, whole: true }
    }

    fn exec(&self) -> &dyn Exec {
        self
    }
}

#[async_trait]
impl Exec for FakeMachine {
    async fn run(&self, cmd: Cmd) -> Result<ExecOutput, ExecError> {
        let argv = cmd.argv.join(" ");
        self.note(argv.clone());
        if let ["rm", "-f", path] = cmd.argv.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            self.files.lock().unwrap().remove(path);
        }
        let mut script = self.script.lock().unwrap();
        let answer = script.iter().position(|(key, _)| argv.contains(key)).map(|at| script.remove(at).1);
        let answer = answer.unwrap_or(Ok(""));
        answer.map(|stdout| ExecOutput { stdout: stdout.into(), stderr: Vec::new() }).map_err(|()| {
            let (node, status) = (self.name.to_string(), "exit status: 1".to_owned());
            ExecError::Failed { node, argv, status, tail: Vec::new() }
        })
    }

    fn attach(&self, _: Vec<String>, _: Vec<(String, String)>, _: Attach) -> Result<Infallible, ExecError> {
        unreachable!("a bootstrapper talks to programs, not to people")
    }

    async fn put(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), ExecError> {
        self.note(format!("put {path} {mode:o}"));
        self.files.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, ExecError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }
}
