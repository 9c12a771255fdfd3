//! Starts the kubelet like kubeadm's drop-in for systemd.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::root::Root;
use crate::service::Launch;

/// The variables whose words are arguments, in the drop-in's order.
const ARGUMENTS: [&str; 2] = ["KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS"];

/// Whether kubeadm has written the kubelet's configuration and credentials.
pub(crate) fn has_its_files(root: &Root) -> bool {
    let credentials = [kubeconfig(root), bootstrap_kubeconfig(root)];
    configuration(root).exists() && credentials.iter().any(|file| file.exists())
}

/// The kubelet with the flags that are in its files now.
pub(crate) fn launch(root: &Root, program: &Path) -> io::Result<Launch> {
    let mut env = Vec::new();
    for file in [root.kubelet().join("kubeadm-flags.env"), root.kubelet_defaults()] {
        match fs::read_to_string(file) {
            Ok(text) => env.extend(parse_environment(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let file_flags = [
        ("--bootstrap-kubeconfig=", bootstrap_kubeconfig(root)),
        ("--kubeconfig=", kubeconfig(root)),
        ("--config=", configuration(root)),
    ];
    let mut args: Vec<OsString> = Vec::new();
    for (flag, file) in file_flags {
        let mut arg = OsString::from(flag);
        arg.push(file);
        args.push(arg);
    }
    for variable in ARGUMENTS {
        // The last one wins, as in the environment itself.
        let value = env.iter().rfind(|(name, _)| name == variable).map_or("", |(_, value)| value);
        args.extend(split_words(value)?.into_iter().map(OsString::from));
    }
    Ok(Launch { program: program.to_owned(), args, env })
}

fn configuration(root: &Root) -> PathBuf {
    root.kubelet().join("config.yaml")
}

fn kubeconfig(root: &Root) -> PathBuf {
    root.kubernetes().join("kubelet.conf")
}

fn bootstrap_kubeconfig(root: &Root) -> PathBuf {
    root.kubernetes().join("bootstrap-kubelet.conf")
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
    use super::*;

    fn write(path: &Path, text: &str) {
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
    fn flags_come_from_both_files_in_the_order_of_the_drop_in() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let flags = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.2 --node-labels='a b'\"\n";
        write(&root.kubelet().join("kubeadm-flags.env"), flags);
        write(&root.kubelet_defaults(), "KUBELET_EXTRA_ARGS=--v=4\nGOGC=50\n");
        let launch = launch(&root, Path::new("kubelet")).unwrap();
        let args: Vec<_> = launch.args.iter().map(|arg| arg.to_str().unwrap()).collect();
        let at = |path: &str| dir.path().join(path).display().to_string();
        assert_eq!(
            args,
            [
                format!("--bootstrap-kubeconfig={}", at("etc/kubernetes/bootstrap-kubelet.conf")).as_str(),
                &format!("--kubeconfig={}", at("etc/kubernetes/kubelet.conf")),
                &format!("--config={}", at("var/lib/kubelet/config.yaml")),
                "--node-ip=10.0.0.2",
                "--node-labels=a b",
                "--v=4",
            ]
        );
        assert!(launch.env.contains(&("GOGC".to_owned(), "50".to_owned())));
    }

    #[test]
    fn without_flag_files_there_are_the_three_paths() {
        let launch = launch(&Root::new("/not/there"), Path::new("kubelet")).unwrap();
        assert_eq!(launch.args.len(), 3);
    }

    #[test]
    fn it_needs_its_configuration_and_either_credential() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert!(!has_its_files(&root));
        write(&configuration(&root), "");
        assert!(!has_its_files(&root));
        write(&bootstrap_kubeconfig(&root), "");
        assert!(has_its_files(&root));
        fs::rename(bootstrap_kubeconfig(&root), kubeconfig(&root)).unwrap();
        assert!(has_its_files(&root));
    }
}
