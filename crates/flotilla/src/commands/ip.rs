//! `flotilla ip`

use flotilla_ops::OpError;
use flotilla_ops::ip::{self, Request};

use crate::args::IpArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &IpArgs) -> Result<(), OpError> {
    let request = Request { cluster: cx.name.clone(), node: args.wanted().map(str::to_owned) };
    let address = cx.wait(ip::run(&cx.context(), &request))?;
    if cx.screen.is_json() {
        cx.screen.json(&address);
    } else {
        cx.screen.line(&address.ip.to_string());
    }
    Ok(())
}
