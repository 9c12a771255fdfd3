//! `flotilla bundle clean`

use flotilla_bundle::BundleStore;
use flotilla_core::event::size;
use serde_json::json;

use crate::screen::Screen;
use flotilla_ops::OpError;

pub(crate) fn run(bundle_store: &BundleStore, screen: &Screen) -> Result<(), OpError> {
    let freed = bundle_store.clean(screen.reporter())?;
    screen.result(&json!({"freedBytes": freed}), || match freed {
        0 => "nothing to remove".to_owned(),
        freed => format!("freed {}", size(freed)),
    });
    Ok(())
}
