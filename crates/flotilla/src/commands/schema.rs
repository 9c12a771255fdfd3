//! `flotilla schema`

use flotilla_spec::file::SCHEMA;

use crate::screen::Screen;

pub(crate) fn run(screen: &Screen) {
    screen.line(SCHEMA.trim_end());
}
