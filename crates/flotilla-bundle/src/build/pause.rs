//! Our own pause program, compiled by the host's C compiler.

use std::path::Path;

use super::BuildSource;
use crate::error::{At, Result};
use crate::lock::Pause;
use crate::part::check_recipe;
use crate::recipe;
use crate::source::{Component, Provenance};

impl BuildSource {
    pub(super) fn build_pause(&self, component: &Component, pause: &Pause, into: &Path) -> Result<Provenance> {
        let files = recipe::pause();
        check_recipe(component, &files, &pause.recipe)?;
        let work = tempfile::tempdir().at("make", Path::new("a temporary folder"))?;
        recipe::write(&files, work.path())?;
        self.command("gcc")
            .args(["-static", "-Os", "-s", "-Wl,--build-id=none"])
            .arg(format!("-DVERSION=\"{}\"", component.version))
            .args(["-o".as_ref(), into.join("pause").as_os_str(), "pause.c".as_ref()])
            .current_dir(work.path())
            .run()?;
        Ok(Provenance::OwnProgram { recipe: pause.recipe.clone() })
    }
}
