//! `flotilla ip`

use flotilla_ops::OpError;
use serde_json::json;

use crate::args::IpArgs;
use crate::cluster::{Cx, node_of};

pub(crate) fn run(cx: &Cx, args: &IpArgs) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let node = node_of(&cluster, args.wanted())?;
    if cx.screen.is_json() {
        cx.screen.json(&json!({"name": node.spec.name.as_ref(), "ip": node.address}));
    } else {
        cx.screen.line(&node.address.to_string());
    }
    Ok(())
}
