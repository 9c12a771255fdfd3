//! `flotilla update-context`

use flotilla_core::Changed;
use flotilla_ops::OpError;
use flotilla_ops::update_context::{self, Request, Updated};

use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let request = Request { cluster: cx.name.clone() };
    let updated = cx.wait(update_context::run(&cx.context(), &request))?;
    cx.screen.result(&updated, || text(&updated));
    Ok(())
}

/// minikube's words, which scripts look for, and the file.
fn text(Updated { cluster, changed, kubeconfig, server }: &Updated) -> String {
    let at = server.strip_prefix("https://").unwrap_or(server);
    match changed {
        Changed::Yes => format!("\"{cluster}\" context has been updated to point to {at} in {kubeconfig}"),
        Changed::No => {
            format!("No changes required for the \"{cluster}\" context, which points to {at} in {kubeconfig}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_minikube_says() {
        let told = |changed| {
            let (cluster, kubeconfig) = ("demo".parse().unwrap(), "/root/.kube/config".to_owned());
            text(&Updated { cluster, changed, kubeconfig, server: "https://10.213.0.254:6443".to_owned() })
        };
        insta::assert_snapshot!(told(Changed::Yes), @r#""demo" context has been updated to point to 10.213.0.254:6443 in /root/.kube/config"#);
        insta::assert_snapshot!(told(Changed::No), @r#"No changes required for the "demo" context, which points to 10.213.0.254:6443 in /root/.kube/config"#);
    }
}
