use flotilla_testkit::fake::{self, Answer, FakeMachine};

use super::super::tests::{EXPIRED, LONG, NEVER, kubeconfig};
use super::*;

const API_SERVER: &str = "/etc/kubernetes/pki/apiserver.crt";
const RENEW: &str = "kubeadm certs renew all --config /etc/flotilla/kubeadm-renewal.yaml";
const SIGN: &str = "kubeadm kubeconfig user --config /etc/flotilla/kubeadm.yaml --client-name=system:node:demo-m03 \
                    --org=system:nodes --validity-period=87600h";

fn cluster() -> Cluster {
    fake::cluster_of_roles(&["control-plane", "control-plane", "worker"])
}

/// What `kubeadm kubeconfig user` prints.
fn signed() -> &'static str {
    kubeconfig(LONG).leak()
}

fn machine(name: &str, files: &[(&str, &str)], script: &[(&'static str, Answer)]) -> FakeMachine {
    let machine = FakeMachine::named(name.parse().unwrap(), script);
    for (path, content) in files {
        machine.put_file(path, content.as_bytes());
    }
    machine
}

fn control_plane(name: &str, certificate: &str, script: &[(&'static str, Answer)]) -> FakeMachine {
    machine(name, &[(API_SERVER, certificate), (ADMIN_CONF, &kubeconfig(certificate))], script)
}

fn arc(machine: &FakeMachine) -> Arc<dyn Machine> {
    Arc::new(machine.clone())
}

async fn renew_in(due: &[&FakeMachine], control_planes: &[&FakeMachine]) -> Result<(), BootstrapError> {
    let cluster = cluster();
    let due = due.iter().map(|machine| (cluster.node(machine.name()).unwrap(), arc(machine)));
    let control_planes: Vec<_> = control_planes.iter().map(|machine| arc(machine)).collect();
    renew(&cluster, &due.collect::<Vec<_>>(), &control_planes).await
}

fn programs(machine: &FakeMachine) -> Vec<String> {
    machine.log().into_iter().filter(|line| !line.starts_with("put ")).collect()
}

#[tokio::test]
async fn kubeadm_renews_a_control_plane_and_what_reads_the_certificates_is_restarted() {
    let one = control_plane("demo", EXPIRED, &[]);
    renew_in(&[&one], &[&one]).await.unwrap();
    let programs = programs(&one);
    assert_eq!(programs.len(), 2, "{programs:#?}");
    assert_eq!(programs[0], RENEW);
    insta::assert_snapshot!(programs[1], @"
    sh -c set -e
             systemctl stop kubelet
             until pods=$(crictl --runtime-endpoint unix:///run/containerd/containerd.sock pods --quiet --namespace kube-system --label tier=control-plane); do sleep 0.2; done
             echo $pods | xargs -r crictl --runtime-endpoint unix:///run/containerd/containerd.sock stopp
             rm -f /etc/flotilla/kubeadm-renewal.yaml
             systemctl start kubelet
    ");
    let configuration = one.file(RENEWAL_CONFIG).unwrap();
    assert!(configuration.contains("certificateValidityPeriod: 87600h"), "{configuration}");
}

#[tokio::test]
async fn an_interrupted_renewal_is_repeated() {
    let one = control_plane("demo", LONG, &[]);
    one.put_file(RENEWAL_CONFIG, b"");
    assert!(look(&one).await.unwrap().unfinished);
    renew_in(&[&one], &[&one]).await.unwrap();
    assert_eq!(programs(&one)[0], RENEW);
}

#[tokio::test]
async fn all_control_planes_have_the_administrator_that_lasts_longest() {
    let (one, two) = (control_plane("demo", EXPIRED, &[]), control_plane("demo-m02", NEVER, &[]));
    renew_in(&[&one], &[&one, &two]).await.unwrap();
    assert_eq!(one.file(ADMIN_CONF).unwrap(), kubeconfig(NEVER));
    assert_eq!(two.log(), [] as [&str; 0], "one that is not due is left alone");
}

#[tokio::test]
async fn a_worker_gets_a_certificate_that_a_control_plane_has_signed() {
    let one = control_plane("demo", LONG, &[("kubeconfig user", Ok(signed()))]);
    let worker = machine("demo-m03", &[(KUBELET_CERTIFICATE, EXPIRED)], &[]);
    renew_in(&[&worker], &[&one]).await.unwrap();
    assert_eq!(programs(&one), [SIGN]);
    let path = worker.log()[0].strip_prefix("put ").unwrap().strip_suffix(" 600").unwrap().to_owned();
    assert!(path.starts_with("/var/lib/kubelet/pki/kubelet-client-flotilla-"), "{path}");
    let pem = worker.file(&path).unwrap();
    assert!(pem.starts_with(LONG) && pem.contains("PRIVATE KEY"), "the certificate, then its key");
    let programs = programs(&worker);
    assert!(programs[0].contains(&format!("ln -sf {path} {KUBELET_CERTIFICATE}.new")), "{programs:#?}");
    assert_eq!(programs.last().unwrap(), "systemctl restart kubelet");
}

#[tokio::test]
async fn a_kubelets_own_certificate_is_left_to_it_to_sign() {
    let worker = machine("demo-m03", &[(crate::files::KUBELET_SERVING, EXPIRED)], &[]);
    renew_in(&[&worker], &[]).await.unwrap();
    assert!(programs(&worker)[0].contains("rm -f /var/lib/kubelet/pki/kubelet.crt"));
    assert_eq!(programs(&worker)[1], "systemctl restart kubelet");
}

#[tokio::test]
async fn one_that_fails_is_told_and_nothing_is_restarted_with_old_certificates() {
    let one = control_plane("demo", EXPIRED, &[("certs renew", Err("no"))]);
    let error = renew_in(&[&one], &[&one]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot renew the certificates on node demo");
    assert_eq!(programs(&one), [RENEW]);
    assert!(look(&one).await.unwrap().unfinished, "the next start tries again");
}

#[tokio::test]
async fn without_a_control_plane_no_worker_gets_a_certificate() {
    let worker = machine("demo-m03", &[(KUBELET_CERTIFICATE, EXPIRED)], &[]);
    let error = renew_in(&[&worker], &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot renew the kubelet's certificate of node demo-m03");
}
