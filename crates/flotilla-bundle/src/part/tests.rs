//! Parts are made once, and made again when they must be.

use std::cell::{Cell, RefCell};
use std::os::unix::fs::symlink;

use flotilla_engine::{Event, Explain};
use tempfile::TempDir;

use super::*;
use crate::error::Missing;
use crate::fixture::{self, Events};
use crate::lock::{GoComponent, GoPin, Pause};
use crate::source::Kind;

/// A source that writes two files and a link, and can be told to be another compiler or to fail.
struct Fake {
    compiler: RefCell<String>,
    content: RefCell<String>,
    fails: Cell<bool>,
    provided: Cell<u32>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            compiler: RefCell::new("1.0".into()),
            content: RefCell::new("program".into()),
            fails: Cell::new(false),
            provided: Cell::new(0),
        }
    }
}

// SAFETY is not needed: the tests that use it have one thread, and `Source` asks for `Sync` only of what is shared.
