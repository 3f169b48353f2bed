//! Reports on a queue while it is open, also after its input has ended and while its source is not pulled.

use std::{
    sync::{Mutex, Weak},
    time::{Duration, Instant},
};

use tremor_pdk::{Error, lock};

use super::{Stage, opened::OpenQueue};
use crate::clock::Clock;
use crate::engine::handle::connection::Connection;
use crate::flow::WhenFull;

/// Time between two reports.
const TICK: Duration = Duration::from_secs(1);

/// The name of the problem that the connector reports while the disk takes nothing.
const DISK: &str = "disk";

/// The name of the problem that the connector reports while the source waits until records are settled.
const SETTLEMENT: &str = "settlement";

/// Minimum time between two lines of the log about the same problem. A queue may be full and not full in turn.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Reports on a queue until the connection with this number ends. Keeps neither the queue nor the connection.
pub(super) async fn report(
    clock: Clock,
    number: u64,
    stage: Weak<Mutex<Stage>>,
    connection: Weak<Connection>,
) {
    let mut logged = [Logged::default(), Logged::default()];
    loop {
        clock.sleep(TICK).await;
        let Some((stage, connection)) = stage.upgrade().zip(connection.upgrade()) else { return };
        // Under the lock, so that the queue is not closed by this task, which must not wait for the disk.
        let (sink, problems) = match &*lock(&stage) {
            Stage::Open(queue) if queue.connection() == number => {
                queue.release_unused();
                (queue.sink.clone(), [disk_problem(queue), settlement_problem(queue)])
            }
            _ => return,
        };
        let now = clock.now();
        for ((name, logged), problem) in [DISK, SETTLEMENT].iter().zip(&mut logged).zip(problems) {
            logged.update(&sink, problem.as_ref(), now);
            connection.set_problem(name, problem, now);
        }
    }
}

/// State of the lines of the log about a problem.
#[derive(Default)]
struct Logged {
    /// Time of the last line about the beginning of the problem.
    last: Option<Instant>,
    /// Time since which the problem exists, if the log has its beginning and not its end.
    since: Option<Instant>,
}

impl Logged {
    /// Logs the beginning and the end of a problem of the queue of `sink`.
    fn update(&mut self, sink: &str, problem: Option<&Error>, now: Instant) {
        match (problem, self.since) {
            (Some(error), None)
                if self.last.is_none_or(|it| now.duration_since(it) >= LOGGED_EVERY) =>
            {
                (self.last, self.since) = (Some(now), Some(now));
                tracing::warn!(component = sink, %error, "the queue on disk has a problem");
            }
            (None, Some(since)) => {
                self.since = None;
                let duration = now.duration_since(since);
                tracing::info!(component = sink, ?duration, "the queue on disk works again");
            }
            _ => {}
        }
    }
}

/// Returns the problem of a disk that fails, or of a full queue.
fn disk_problem(queue: &OpenQueue) -> Option<Error> {
    let status = queue.log.status();
    queue.update_condition(&status);
    let path = queue.path.display();
    match status.failure {
        Some(failure) => Some(Error::connection_refused(failure)),
        None if status.is_full => Some(Error::full(format_args!(
            "the queue on disk {path} is full; its events leave when the sink delivers them, and meanwhile {}; \
             increase `queue.disk.max_bytes` to keep more",
            match queue.when_full {
                WhenFull::Block => "the sources wait",
                WhenFull::DropNewest => "new events are dropped",
                WhenFull::DropOldest => "the oldest events are dropped",
                WhenFull::DeadLetter => "new events leave through `err`",
            }
        ))),
        None => None,
    }
}

/// Returns the problem of a source that waits for the sink.
fn settlement_problem(queue: &OpenQueue) -> Option<Error> {
    queue.waits_for_long().then(|| {
        Error::timeout(format_args!(
            "the queue on disk {} delivers nothing more until the sink has answered all events that it was given, \
             because those that follow are of a later run, or because too many later ones were answered; check the \
             sink",
            queue.path.display()
        ))
    })
}
