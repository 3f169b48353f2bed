//! Notifications for a service manager: the flows have started, the process works, the flows are ending.
//!
//! If there is no service manager, `NOTIFY_SOCKET` is not set and no notifications are sent.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use sd_notify::NotifyState;
use tremor_runtime::{executor, run::RunHandle};

use super::background::Background;

/// Interval at which the state of the run is checked.
const INTERVAL: Duration = Duration::from_millis(100);

/// Condition for the notification that the run is ready.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Ready {
    /// Ready once all flows run, and each connector was connected or has tried to connect. A sink that is down counts
    /// as ready.
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

/// Starts to notify the service manager about a run of `flows` flows, if the process has a service manager. `ready` is
/// the condition for sending `READY=1`.
pub(super) fn start(run: &RunHandle, flows: usize, ready: Ready) -> Option<Background> {
    let socket = std::env::var_os("NOTIFY_SOCKET")?;
    let notify = move |state: &NotifyState<'_>| {
        if let Err(error) = send(&socket, state) {
            tracing::warn!(%error, ?socket, "cannot notify the service manager of `{state}`");
        }
    };
    let (run, watchdog) = (run.clone(), sd_notify::watchdog_enabled());
    Background::start("service", move |continues| {
        let mut notifications = Notifications::new(watchdog, Instant::now());
        let mut probe = Probe::default();
        while continues(INTERVAL) {
            let (is_ready, ends) = (ready.is_met(&run, flows), run.ends());
            let responds = || probe.responds();
            for state in notifications.next(Instant::now(), is_ready, ends, responds) {
                notify(&state);
            }
        }
        // A run that ended by itself may have been ready only after the last check. A run that was drained or stopped
        // before it was ready is not reported as ready.
        if !notifications.ready && !run.ends() && ready.is_met(&run, flows) {
            notify(&NotifyState::Ready);
        }
        if !notifications.stopping {
            notify(&NotifyState::Stopping);
        }
    })
}

/// Sends a notification to a socket: a path, or an abstract name after `@` (`sd_notify(3)`).
fn send(socket: &OsStr, state: &NotifyState<'_>) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.to_string().as_bytes(), &address).map(drop)
}

/// A non-blocking check whether the executor runs tasks.
#[derive(Default)]
struct Probe {
    asked: Option<Arc<AtomicBool>>,
}

impl Probe {
    /// Returns whether the executor has run a task since the first call, or since the last call that returned
    /// `true`.
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

/// The notifications that were sent, and the time at which the next watchdog notification is due.
struct Notifications {
    ready: bool,
    stopping: bool,
    /// Interval of watchdog notifications: half of the timeout after which the service manager would end the process.
    /// `None` if the service manager expects no such notifications.
    period: Option<Duration>,
    due: Instant,
}

impl Notifications {
    fn new(watchdog: Option<Duration>, now: Instant) -> Self {
        Self { ready: false, stopping: false, period: watchdog.map(|time| time / 2), due: now }
    }

    /// Returns the notifications that are due.
    ///
    /// A watchdog notification is included only if the executor has run a task since the last one, so that the service
    /// manager notices a process whose flows make no progress.
    fn next(
        &mut self,
        now: Instant,
        is_ready: bool,
        ends: bool,
        responds: impl FnOnce() -> bool,
    ) -> Vec<NotifyState<'static>> {
        let mut states = Vec::new();
        // When a run ends, its connectors stop, so no connector is awaited any longer and `is_ready` becomes `true`.
        // This does not mean that the run was ready.
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

    use super::Notifications;

    fn sent(
        notifications: &mut Notifications,
        now: Instant,
        ready: bool,
        ends: bool,
        alive: bool,
    ) -> String {
        let states = notifications.next(now, ready, ends, || alive);
        states.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ready_and_stopping_are_notified_once() {
        let now = Instant::now();
        let mut notifications = Notifications::new(None, now);
        assert_eq!(sent(&mut notifications, now, false, false, true), "");
        assert_eq!(sent(&mut notifications, now, true, false, true), "READY=1");
        assert_eq!(sent(&mut notifications, now, false, false, true), "");
        assert_eq!(sent(&mut notifications, now, true, true, true), "STOPPING=1");
        assert_eq!(sent(&mut notifications, now, true, true, true), "");
    }

    #[test]
    fn run_that_ends_before_it_was_ready_is_never_ready() {
        let now = Instant::now();
        let mut notifications = Notifications::new(None, now);
        assert_eq!(sent(&mut notifications, now, false, true, true), "STOPPING=1");
        assert_eq!(sent(&mut notifications, now, true, true, true), "");
    }

    #[test]
    fn watchdog_is_notified_while_executor_runs_tasks() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut notifications = Notifications::new(Some(second * 2), now);
        assert_eq!(sent(&mut notifications, now, false, false, true), "WATCHDOG=1");
        assert_eq!(sent(&mut notifications, now + second / 2, false, false, true), "");
        assert_eq!(sent(&mut notifications, now + second, false, false, false), "", "it hangs");
        assert_eq!(sent(&mut notifications, now + second, false, false, true), "WATCHDOG=1");
    }
}
