//! Reports on a queue while it is open, also after its input has ended and while its source is not pulled.

use std::{
    sync::{Mutex, Weak},
    time::Duration,
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

/// Reports on a queue until the connection with this number ends. Keeps neither the queue nor the connection.
pub(super) async fn report(
    clock: Clock,
    number: u64,
    stage: Weak<Mutex<Stage>>,
    connection: Weak<Connection>,
) {
    loop {
        clock.sleep(TICK).await;
        let Some((stage, connection)) = stage.upgrade().zip(connection.upgrade()) else { return };
        // Under the lock, so that the queue is not closed by this task, which must not wait for the disk.
        match &*lock(&stage) {
            Stage::Open(queue) if queue.connection() == number => set_problems(queue, &connection),
            _ => return,
        }
    }
}

/// Reports a full queue, a disk that fails, and a source that waits for the sink, as problems of the connector.
fn set_problems(queue: &OpenQueue, connection: &Connection) {
    let status = queue.log.status();
    queue.update_condition(&status);
    let path = queue.path.display();
    let problem = match status.failure {
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
    };
    let now = queue.control.clock().now();
    connection.set_problem(DISK, problem, now);
    let waits = queue.waits_for_long().then(|| {
        Error::timeout(format_args!(
            "the queue on disk {path} delivers nothing more until the sink has answered all events that it was given, \
             because those that follow are of a later run, or because too many later ones were answered; check the \
             sink"
        ))
    });
    connection.set_problem(SETTLEMENT, waits, now);
}
