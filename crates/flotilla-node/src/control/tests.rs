use super::*;
use flotilla_node_api::{State, Verb};
use std::io::{BufRead, BufReader};

struct Fixture {
    control: Control,
    path: std::path::PathBuf,
    now: Instant,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        Self { control: Control::listen(&path).unwrap(), path, now: Instant::now(), _dir: dir }
    }

    fn client(&self, sends: &str) -> UnixStream {
        let mut client = UnixStream::connect(&self.path).unwrap();
        client.set_nonblocking(true).unwrap();
        client.write_all(sends.as_bytes()).unwrap();
        client
    }

    /// Takes requests, answers none at once.
    fn receive(&mut self) -> Vec<Request> {
        let mut got = Vec::new();
        self.control.receive(self.now, |request| {
            got.push(request);
            None
        });
        got
    }
}

fn reply(client: UnixStream) -> Option<Reply> {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn status() -> Status {
    Status { unit: Unit::KUBELET, state: State::Active, detail: "well".into() }
}

const RESTART: &str = "{\"verb\":\"restart\",\"unit\":\"kubelet\"}\n";

#[test]
fn the_answer_waits_until_the_service_is_settled() {
    let mut fixture = Fixture::new();
    let client = fixture.client(RESTART);
    assert_eq!(fixture.receive(), [Request::Unit { verb: Verb::Restart, unit: Unit::KUBELET }]);
    fixture.control.answer(fixture.now, |_| None);
    assert!(fixture.receive().is_empty(), "a request is acted on once");
    fixture.control.answer(fixture.now, |_| Some(status()));
    assert_eq!(reply(client), Some(Reply::Status(status())));
    assert_eq!(fixture.control.next_look(), None, "nobody is left");
}

#[test]
fn a_request_may_come_in_pieces() {
    let mut fixture = Fixture::new();
    let mut client = fixture.client(&RESTART[..10]);
    assert!(fixture.receive().is_empty());
    client.write_all(&RESTART.as_bytes()[10..]).unwrap();
    assert_eq!(fixture.receive().len(), 1);
}

#[test]
fn nonsense_is_refused() {
    let mut fixture = Fixture::new();
    for nonsense in ["hello\n", "{}\n", "{\"verb\":\"explode\",\"unit\":\"kubelet\"}\n"] {
        let client = fixture.client(nonsense);
        assert!(fixture.receive().is_empty());
        assert!(matches!(reply(client), Some(Reply::Refused(_))), "{nonsense}");
    }
    let endless = fixture.client(&"x".repeat(LONGEST_REQUEST));
    assert!(fixture.receive().is_empty());
    assert_eq!(reply(endless), None);
    assert_eq!(fixture.control.next_look(), None);
}

#[test]
fn patience_ends_for_the_silent_and_for_the_waiting() {
    let mut fixture = Fixture::new();
    let silent = fixture.client("");
    let waiting = fixture.client(RESTART);
    fixture.receive();
    assert_eq!(fixture.control.next_look(), Some(fixture.now + PATIENCE));
    fixture.control.answer(fixture.now + PATIENCE, |_| None);
    assert_eq!(reply(silent), None);
    assert_eq!(reply(waiting), Some(Reply::Refused("kubelet is not done after 30s".into())));
    assert_eq!(fixture.control.next_look(), None);
}

#[test]
fn who_hangs_up_is_forgotten() {
    let mut fixture = Fixture::new();
    let client = fixture.client(RESTART);
    fixture.receive();
    drop(client);
    fixture.receive();
    assert_eq!(fixture.control.next_look(), None);
}

#[test]
fn only_root_may_ask() {
    let fixture = Fixture::new();
    assert_eq!(fs::metadata(&fixture.path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_socket_left_behind_is_no_obstacle() {
    let fixture = Fixture::new();
    drop(fixture.control);
    assert!(fixture.path.exists());
    Control::listen(&fixture.path).unwrap();
}

#[test]
fn units_go_by_two_names() {
    assert_eq!(Unit::named("kubelet"), Unit::KUBELET);
    assert_eq!(Unit::named("containerd.service"), Unit::CONTAINERD);
}
