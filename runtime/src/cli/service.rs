//! What a service manager hears: that the flows run, that they still do, and that they end.
//!
//! A run that no service manager has started says nothing: `NOTIFY_SOCKET` is not set then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use sd_notify::NotifyState;
use tremor_runtime::{executor, run::RunHandle};

use super::beside::Beside;

/// How often it looks whether flows run, until they do, and whether they end.
const LOOK: Duration = Duration::from_millis(100);

/// Condition for the notification that the run is ready.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Ready {
    /// Ready once all flows run, and each connector was connected or has tried to connect. A sink that is down counts as ready.
    Started,
    /// Ready once all flows run, all connectors are connected, and no pull or delivery is being retried.
    Connected,
}

impl Ready {
    fn is_met(self, run: &RunHandle, flows: usize) -> bool {
        match self {
            Self::Started => run.has_started(flows),
            Self::Connected => run.awaited(flows).is_empty(),
        }
    }
}

/// Notifies the service manager of a run of `flows` flows, if the process has one. `ready` is the condition for
/// `READY=1`.
pub(super) fn start(run: &RunHandle, flows: usize, ready: Ready) -> Option<Beside> {
    std::env::var_os("NOTIFY_SOCKET")?;
    let (run, watchdog) = (run.clone(), sd_notify::watchdog_enabled());
    Beside::start("service", move |goes_on| {
        let mut telling = Telling::new(watchdog, Instant::now());
        let mut probe = Probe::default();
        while goes_on(LOOK) {
            let (is_ready, ends) = (ready.is_met(&run, flows), run.ends());
            let responds = || probe.responds();
            for state in telling.next(Instant::now(), is_ready, ends, responds) {
                tell(&state);
            }
        }
        // A run may be over before the first look. One that never was ready has failed or was stopped.
        if !telling.ready && !run.ends() && ready.is_met(&run, flows) {
            tell(&NotifyState::Ready);
        }
        if !telling.stopping {
            tell(&NotifyState::Stopping);
        }
    })
}

fn tell(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::warn!(%error, "the service manager cannot be told `{state}`");
    }
}

/// Asks the executor for a sign of life, and waits for none.
#[derive(Default)]
struct Probe {
    asked: Option<Arc<AtomicBool>>,
}

impl Probe {
    /// Whether the executor has run a task since this was first called, or last said so.
    fn responds(&mut self) -> bool {
        self.asked.get_or_insert_with(|| {
            let answered = Arc::<AtomicBool>::default();
            let sign = answered.clone();
            executor::spawn(async move { sign.store(true, Ordering::Relaxed) }).detach();
            answered
        });
        self.asked.take_if(|answered| answered.load(Ordering::Relaxed)).is_some()
    }
}

/// What has been told, and when the next sign of life is due.
struct Telling {
    ready: bool,
    stopping: bool,
    /// Twice in the time after which the manager ends a process that gives no sign.
    period: Option<Duration>,
    due: Instant,
}

impl Telling {
    fn new(watchdog: Option<Duration>, now: Instant) -> Self {
        Self { ready: false, stopping: false, period: watchdog.map(|time| time / 2), due: now }
    }

    /// What is to be told now. There is a sign of life where the executor has run a task since the last:
    /// a process whose flows do not go on gives none.
    fn next(
        &mut self,
        now: Instant,
        is_ready: bool,
        ends: bool,
        responds: impl FnOnce() -> bool,
    ) -> Vec<NotifyState<'static>> {
        let mut states = Vec::new();
        // When a run ends, its connectors stop, so that nothing is awaited any more. That does not make it ready.
        if is_ready && !ends && !std::mem::replace(&mut self.ready, true) {
            states.push(NotifyState::Ready);
        }
        if ends && !std::mem::replace(&mut self.stopping, true) {
            states.push(NotifyState::Stopping);
        }
        if let Some(period) = self.period
            && now >= self.due
            && responds()
        {
            self.due = now + period;
            states.push(NotifyState::Watchdog);
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Telling;

    fn told(telling: &mut Telling, now: Instant, ready: bool, ends: bool, alive: bool) -> String {
        let states = telling.next(now, ready, ends, || alive);
        states.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_manager_hears_once_that_flows_run_and_that_they_end() {
        let now = Instant::now();
        let mut telling = Telling::new(None, now);
        assert_eq!(told(&mut telling, now, false, false, true), "");
        assert_eq!(told(&mut telling, now, true, false, true), "READY=1");
        assert_eq!(told(&mut telling, now, false, false, true), "");
        assert_eq!(told(&mut telling, now, true, true, true), "STOPPING=1");
        assert_eq!(told(&mut telling, now, true, true, true), "");
    }

    #[test]
    fn run_that_ends_before_it_was_ready_is_never_ready() {
        let now = Instant::now();
        let mut telling = Telling::new(None, now);
        assert_eq!(told(&mut telling, now, false, true, true), "STOPPING=1");
        assert_eq!(told(&mut telling, now, true, true, true), "");
    }

    #[test]
    fn signs_of_life_come_twice_a_period_while_the_executor_runs_tasks() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut telling = Telling::new(Some(second * 2), now);
        assert_eq!(told(&mut telling, now, false, false, true), "WATCHDOG=1");
        assert_eq!(told(&mut telling, now + second / 2, false, false, true), "");
        assert_eq!(told(&mut telling, now + second, false, false, false), "", "it hangs");
        assert_eq!(told(&mut telling, now + second, false, false, true), "WATCHDOG=1");
    }
}
