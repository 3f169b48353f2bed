//! Signals: the first SIGINT or SIGTERM drains, the second ends the process, even if a plugin hangs. SIGHUP,
//! SIGUSR1, SIGUSR2 and SIGXFSZ end nothing.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    flag,
    iterator::Signals,
    low_level,
};
use tremor_runtime::run::{Signalled, Stopper};

use super::{failure::Reason, logging};

/// The time for the summary of a run that ends at once: so many naps, and a last one to log that they were
/// not enough. In a process that gets little processor time, naps are longer, and so is this time.
const NAPS: u32 = 9;
const NAP: Duration = Duration::from_millis(9);

/// Keeps signals that would end the process by default from doing so. A write beyond `ulimit -f` then fails
/// with EFBIG.
///
/// They are handled and not ignored, because processes that plugins start would inherit the latter.
pub(super) fn survive() {
    for signal in [SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ] {
        if let Err(error) = flag::register(signal, Arc::new(AtomicBool::new(false))) {
            tracing::warn!(signal, %error, "cannot handle a signal: it ends the process");
        }
    }
}

/// Listens from now on, on a thread that needs neither the executor nor a stderr that accepts anything.
pub(super) fn listen(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            if signal == SIGHUP {
                tracing::warn!(signal, "SIGHUP is ignored: reloading is not supported yet");
                continue;
            }
            match stopper.signal(Instant::now()) {
                Signalled::Drain => {
                    tracing::info!(signal, "the flows drain; a second signal stops them at once");
                }
                Signalled::Again => {
                    tracing::debug!(signal, "the same request as the last signal");
                }
                Signalled::Halt => {
                    tracing::warn!(signal, "the flows stop at once");
                    (1..NAPS).for_each(|_| thread::sleep(NAP));
                    tracing::error!("the run does not end in time: the process ends without it");
                    logging::finish_within(NAP);
                    // Without what plugins do when a process exits: that may hang as well.
                    low_level::exit(Reason::Incomplete.status().into());
                }
            }
        }
    })?;
    Ok(())
}
