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
use tremor_runtime::run::RunHandle;

use super::{failure::Reason, logging};

/// The time for the summary of a run that ends at once: so many naps, and a last one to log that they were
/// not enough. In a process that gets little processor time, naps are longer, and so is this time.
const NAPS: u32 = 9;
const NAP: Duration = Duration::from_millis(9);

/// Signals that come sooner after the first are the same request: `timeout`, say, sends one to the process and one to its
/// group.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Ends a run as signals ask for.
struct SignalHandler {
    run: RunHandle,
    /// When the first signal came.
    first: Option<Instant>,
}

/// Meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signalled {
    /// The first signal: everything drains.
    Drain,
    /// A signal that follows so soon is the same request.
    Again,
    /// Everything ends where it is, and nobody waits for what does not.
    Halt,
}

impl SignalHandler {
    fn new(run: RunHandle) -> Self {
        Self { run, first: None }
    }

    /// Does what a signal at `now` means. The first one drains, although a component may have asked for that already.
    fn signal(&mut self, now: Instant) -> Signalled {
        match self.first {
            None => {
                self.first = Some(now);
                self.run.drain();
                Signalled::Drain
            }
            Some(first) if now.saturating_duration_since(first) <= ONE_REQUEST => Signalled::Again,
            Some(_) => {
                self.run.halt();
                Signalled::Halt
            }
        }
    }
}

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
pub(super) fn listen(run: RunHandle) -> io::Result<()> {
    let mut handler = SignalHandler::new(run);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            if signal == SIGHUP {
                tracing::warn!(signal, "SIGHUP is ignored: reloading is not supported yet");
                continue;
            }
            match handler.signal(Instant::now()) {
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{RunHandle, SignalHandler, Signalled};

    #[test]
    fn signals_at_once_are_one_request_and_a_later_one_halts() {
        let (mut handler, first) = (SignalHandler::new(RunHandle::default()), Instant::now());
        let signals = [0, 0, 1, 250, 251, 1_000].map(|ms| first + Duration::from_millis(ms));
        let [drain, again, halt] = [Signalled::Drain, Signalled::Again, Signalled::Halt];
        let expected = [drain, again, again, again, halt, halt];
        assert_eq!(signals.map(|at| handler.signal(at)), expected);
    }

    #[test]
    fn first_signal_drains_although_a_component_asked_for_that() {
        let run = RunHandle::default();
        run.drain();
        assert_eq!(SignalHandler::new(run).signal(Instant::now()), Signalled::Drain);
    }
}
