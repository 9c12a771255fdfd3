//! The terminal hands over every key as it is, while a program in a node reads them.

use std::sync::{Mutex, Once, PoisonError};

use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// How the terminal was, while it is raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Until this is dropped. A panic restores the terminal as well, before it says anything: the release build aborts then,
/// without dropping anything.
pub(super) struct Raw;

impl Raw {
    pub(super) fn enter() -> Self {
        if let Ok(before) = tcgetattr(stdin()) {
            let mut raw = before.clone();
            raw.make_raw();
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            restore_on_panic();
            // A terminal that cannot be changed stays as it is.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
        Self
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn restore_on_panic() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            others(panic);
        }));
    });
}
