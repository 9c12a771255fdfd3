//! Our own pause program, compiled by the host's C compiler.

use super::BuildSource;
use crate::error::Result;
use crate::lock::Pause;
use crate::part::check_recipe;
use crate::recipe;
use crate::source::{Component, Provenance, Workplace};

impl BuildSource {
    pub(super) fn build_pause(
        &self,
        component: &Component,
        pause: &Pause,
        at: &Workplace<'_>,
    ) -> Result<Provenance> {
        let files = recipe::pause();
        check_recipe(component, &files, &pause.recipe)?;
        recipe::write(&files, at.scratch)?;
        self.compiler("gcc")
            .args(["-static", "-Os", "-s", "-Wl,--build-id=none"])
            .arg(format!("-DVERSION=\"{}\"", component.version))
            .args(["-o".as_ref(), at.files.join("pause").as_os_str(), "pause.c".as_ref()])
            .current_dir(at.scratch)
            .env("TMPDIR", at.scratch)
            .run()?;
        Ok(Provenance::OwnProgram { recipe: pause.recipe.clone() })
    }
}
