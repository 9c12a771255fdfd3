//! `flotilla version`

use serde_json::json;

use crate::args::{Output, VersionArgs};
use crate::screen::Screen;

pub(crate) fn run(args: &VersionArgs, screen: &Screen) {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    match args.output.output {
        Output::Json => screen.json(&json!({"flotillaVersion": version})),
        Output::Text if args.short => screen.line(version),
        Output::Text => screen.line(&format!("flotilla version: {version}")),
    }
}
