//! Ctrl-C and its kin: stop what runs, say how to go on.

use std::io;

use flotilla_core::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Cancels at the first signal; the second one ends the program the way it would have without us, after a last call of
/// `before_the_end`.
pub(crate) fn cancel_on_signal(
    cancel: &Cancel,
    before_the_end: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let told = cancel.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if told.is_cancelled() {
                before_the_end();
                // Fails only for signals that cannot be handled at all.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            told.cancel();
        }
    });
    Ok(())
}
