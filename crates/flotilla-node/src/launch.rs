//! How a service is started: its arguments and its environment, as its files say now.

use std::fs;
use std::io;

use flotilla_node_api::ServiceSpec;

use crate::root::Root;

/// A program to start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Goes on top of what all services get.
    pub(crate) env: Vec<(String, String)>,
}

impl Launch {
    /// The service with what is in its files now. Removes what an earlier one has left.
    pub(crate) fn of(spec: &ServiceSpec, root: &Root) -> io::Result<Self> {
        for path in &spec.leftovers {
            absent_is(fs::remove_file(root.at(path.as_ref())), ())?;
        }
        let mut env: Vec<_> = spec.env.clone().into_iter().collect();
        for path in &spec.env_files {
            let text = absent_is(fs::read_to_string(root.at(path.as_ref())), String::new())?;
            env.extend(parse_environment(&text)?);
        }
        let mut argv = Vec::new();
        for arg in &spec.argv {
            match arg.strip_prefix('$') {
                None => argv.push(arg.clone()),
                Some(variable) => {
                    // The last one wins, as in the environment itself.
                    let value = env.iter().rfind(|(name, _)| name == variable);
                    argv.extend(split_words(value.map_or("", |(_, value)| value))?);
                }
            }
        }
        let mut argv = argv.into_iter();
        let program = argv.next().ok_or_else(|| io::Error::other("it has no program"))?;
        Ok(Self { program, args: argv.collect(), env })
    }
}

fn absent_is<T>(done: io::Result<T>, absent: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absent),
        done => done,
    }
}

/// Reads an environment file: lines of `NAME=value`, with quotes as in a shell but nothing replaced.
fn parse_environment(text: &str) -> io::Result<Vec<(String, String)>> {
    let text = text.replace("\\\n", "");
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let settings = lines.filter_map(|line| line.split_once('='));
    settings.map(|(name, value)| Ok((name.trim().to_owned(), split_words(value)?.join(" ")))).collect()
}

fn split_words(text: &str) -> io::Result<Vec<String>> {
    let unclosed = || io::Error::new(io::ErrorKind::InvalidData, format!("a quote is not closed: {text}"));
    shlex::split(text).ok_or_else(unclosed)
}

#[cfg(test)]
mod tests {
    use flotilla_node_api::Unit;

    use super::*;

    fn standard(unit: &Unit) -> ServiceSpec {
        ServiceSpec::of_every_node().into_iter().find(|spec| spec.name == *unit).unwrap()
    }

    fn write(root: &Root, path: &str, text: &str) {
        let path = root.at(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn environment_files_are_read_as_systemd_does() {
        let text =
            "# comment\n\nA=\"--a=b --c=d\"\n B = plain words \n; no\nC='x'\nnonsense\nD=one\\\ntwo\nE=\n";
        let expected = [("A", "--a=b --c=d"), ("B", "plain words"), ("C", "x"), ("D", "onetwo"), ("E", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse_environment(text).unwrap(), expected);
        let error = parse_environment("A=\"open end\n").unwrap_err();
        assert_eq!(error.to_string(), "a quote is not closed: \"open end");
    }

    #[test]
    fn the_kubelets_flags_come_from_both_files_in_the_order_of_kubeadms_drop_in() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let flags = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.2 --node-labels='a b'\"\n";
        write(&root, "/var/lib/kubelet/kubeadm-flags.env", flags);
        write(&root, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=4\nGOGC=50\n");
        let launch = Launch::of(&standard(&Unit::KUBELET), &root).unwrap();
        assert_eq!(launch.program, "kubelet");
        assert_eq!(
            launch.args,
            [
                "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
                "--kubeconfig=/etc/kubernetes/kubelet.conf",
                "--config=/var/lib/kubelet/config.yaml",
                "--node-ip=10.0.0.2",
                "--node-labels=a b",
                "--v=4",
            ]
        );
        assert!(launch.env.contains(&("GOGC".to_owned(), "50".to_owned())));
    }

    #[test]
    fn without_flag_files_the_kubelet_has_its_three_paths() {
        let launch = Launch::of(&standard(&Unit::KUBELET), &Root::new("/not/there")).unwrap();
        assert_eq!((launch.args.len(), launch.env), (3, Vec::new()));
    }

    #[test]
    fn a_file_wins_over_the_services_own_environment() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        write(&root, "/etc/agent.env", "MODE=file\n");
        let spec = ServiceSpec {
            env: [("MODE".to_owned(), "spec".to_owned())].into(),
            env_files: vec!["/etc/agent.env".to_owned()],
            ..ServiceSpec::new(Unit::named("agent"), ["agent", "$MODE", "$ABSENT", "end"])
        };
        assert_eq!(Launch::of(&spec, &root).unwrap().args, ["file", "end"]);
    }

    #[test]
    fn the_files_of_a_keepalived_that_was_killed_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        for stale in ["keepalived.pid", "vrrp.pid"] {
            write(&root, &format!("/run/flotilla/{stale}"), "1\n");
        }
        for _ in 0..2 {
            Launch::of(&standard(&Unit::KEEPALIVED), &root).unwrap();
            assert_eq!(fs::read_dir(root.run()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_service_without_a_program_is_an_error() {
        assert!(Launch::of(&ServiceSpec::new(Unit::named("agent"), []), &Root::new("/not/there")).is_err());
    }
}
