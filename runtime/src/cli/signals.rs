//! Signals. The first SIGINT or SIGTERM drains the flows, and the second one ends the process, even if a plugin hangs.
//! SIGHUP reloads the flows. SIGUSR1, SIGUSR2 and SIGXFSZ do not end the process.

use std::{
    fs, io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    flag,
    iterator::Signals,
    low_level,
};
use tremor_runtime::{reloads::Action, run::RunHandle};

use super::{failure::Reason, logging};

/// Number of pauses of [`PAUSE`] in which a halted run can print its summary before the process ends. Before the last
/// pause, an error is logged which says that the run did not end in time.
const PAUSES: u32 = 9;
const PAUSE: Duration = Duration::from_millis(9);
/// Maximum time of all pauses, if other programs keep the processors from this process meanwhile.
const LONGEST: Duration = Duration::from_secs(1);

/// Time after the first signal in which further signals belong to the same request. The program `timeout`, for example,
/// sends one signal to the process and one to its process group.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Ends a run if signals request it.
struct SignalHandler {
    run: RunHandle,
    /// Time of the first signal.
    first: Option<Instant>,
}

/// Effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signalled {
    /// The first signal: all flows drain.
    Drain,
    /// The signal belongs to the same request as the first one.
    Again,
    /// The flows end immediately. The process does not wait for flows that hang.
    Halt,
}

impl SignalHandler {
    fn new(run: RunHandle) -> Self {
        Self { run, first: None }
    }

    /// Handles a signal that arrived at `now`. The first signal drains the flows, even if a component has requested the
    /// end of the run before.
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

/// `true` once a SIGHUP has arrived.
static HUNG_UP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Prevents these signals from ending the process. A write beyond the limit of `ulimit -f` then fails with EFBIG.
///
/// The signals get a handler. If they were ignored instead, processes that plugins start would ignore them as well.
pub(super) fn survive() {
    for signal in [SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ] {
        let flag = if signal == SIGHUP { HUNG_UP.clone() } else { Arc::default() };
        if let Err(error) = flag::register(signal, flag) {
            tracing::warn!(signal, %error, "cannot handle a signal, so it will end the process");
        }
    }
}

/// Starts to handle signals on a separate thread, which depends neither on the executor nor on stderr. A SIGHUP that
/// arrived before reloads the flows once they run, because their files may have been read before it.
pub(super) fn listen(run: RunHandle) -> io::Result<()> {
    let mut handler = SignalHandler::new(run);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let earlier = HUNG_UP.load(Ordering::SeqCst).then_some(SIGHUP);
        for signal in earlier.into_iter().chain(&mut signals) {
            if signal == SIGHUP {
                let reload = Action::Reload { confirm: None };
                // The thread of reloads logs the outcome.
                if handler.run.reloads().request(reload).is_none() {
                    tracing::warn!(
                        signal,
                        "SIGHUP is ignored: the run is ending, or too many requests to reload wait"
                    );
                }
                continue;
            }
            match handler.signal(Instant::now()) {
                Signalled::Drain => {
                    tracing::info!(
                        signal,
                        "the flows drain; a second signal stops them immediately"
                    );
                }
                Signalled::Again => {
                    tracing::debug!(
                        signal,
                        "signal belongs to the same request as the previous one"
                    );
                }
                Signalled::Halt => {
                    tracing::warn!(signal, "the flows are stopping immediately");
                    wait_for_summary();
                    tracing::error!("the run did not end in time, so the process exits");
                    logging::finish_within(PAUSE);
                    // Exit handlers of plugins are not run, because they may hang as well.
                    low_level::exit(Reason::Incomplete.status().into());
                }
            }
        }
    })?;
    Ok(())
}

/// Waits for all pauses but the last one. A pause does not count if the threads of this process had to wait for a
/// processor for most of it, because the run could not use it to print its summary.
fn wait_for_summary() {
    let end = Instant::now() + LONGEST;
    let mut pauses = 1;
    while pauses < PAUSES && Instant::now() < end {
        let before = waited_for_processors();
        thread::sleep(PAUSE);
        let waited = waited_for_processors().saturating_sub(before);
        pauses += u32::from(waited < PAUSE / 2);
    }
}

/// Returns how long the threads of this process have waited for a processor in total. Zero if the system does not
/// report the time (`/proc/PID/task/TID/schedstat`, whose second number is in ns).
fn waited_for_processors() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    });
    waited.sum()
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
    fn first_signal_drains_after_component_requested_drain() {
        let run = RunHandle::default();
        run.drain();
        assert_eq!(SignalHandler::new(run).signal(Instant::now()), Signalled::Drain);
    }
}
