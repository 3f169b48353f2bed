//! Queues on disk: the connector that the plan puts before a sink whose `queue.disk` is set.
//!
//! `X -> S` becomes `X -> Q` and `Q -> S`. The sink of Q writes each batch to a record of a log, and answers when the
//! record is durable, so the sources before Q are acknowledged then. The source of Q reads one record as one batch, or
//! takes the batch of a record that has just become durable. When the sink S has delivered the events, or another
//! component has settled them, the record is settled in the log.
//!
//! A folder or module in this list imports only from those after it: `sink`, `source` and `reporter`; `full`;
//! `opening`; `opened`; `rejected`; `recent`, `record`, `identity`, `age` and `meter`.

mod age;
mod full;
mod identity;
mod meter;
mod opened;
mod opening;
mod recent;
mod record;
mod rejected;
mod reporter;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tremor_abi::connector::Hook;
use tremor_log::{Disk, Layered, Log, OpenError, Opened, Options};
use tremor_pdk::{Error, ErrorPolicy, Halves, Result, Sides, lock};

use self::{
    identity::Identity, meter::Meter, opened::OpenQueue, opening::Opening, sink::QueueSink,
    source::QueueSource,
};
use crate::clock::Clock;
use crate::dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource};
use crate::engine::{
    control::Control,
    handle::connection::Connection,
    parts::{ConnectorType, MakeConnector},
    sync::flush_request::FlushRequest,
    tracking::{stats::Stats, stored::StoredCounters},
};
use crate::executor;
use crate::flow::WhenFull;
use crate::log;
use crate::memory::Account;

/// Memory of the batches that the sink of a queue has taken, in bytes, from which on it takes no further one. As many
/// bytes of records wait for the disk at most, unless a batch is larger.
pub(crate) const MOST_STAGED: usize = 4 << 20;

/// Number of attempts to open a folder that another flow of this process uses, after the first one. They take ten seconds,
/// which is more than the closing of a connector may take.
const ATTEMPTS: u32 = 500;

/// Time between two of these attempts.
const RETRY: Duration = Duration::from_millis(20);

/// Settings of a queue on disk, and objects that all its instances share.
pub(crate) struct DiskQueue {
    /// Name of the queue's connector.
    pub(crate) name: Arc<str>,
    /// Name of the sink to which the queue belongs.
    pub(crate) sink: Arc<str>,
    /// Folder of the queue.
    pub(crate) path: PathBuf,
    /// Maximum bytes of all files of the queue.
    pub(crate) max_bytes: u64,
    /// `true` if events get metadata by which a peer recognises repeated ones.
    pub(crate) identify: bool,
    /// The treatment of events for which the queue has no capacity.
    pub(crate) when_full: WhenFull,
    /// Metrics of the sink of the queue.
    pub(crate) stats: Arc<Stats>,
    /// Names of the flow and of the sink, which the folder of the queue must belong to.
    pub(crate) owner: String,
    /// The file system of the log.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Arc<StoredCounters>,
    /// Set while the source waits until the sink has delivered what it has.
    pub(crate) flush_request: Arc<FlushRequest>,
    /// Account of the sink.
    pub(crate) account: Arc<Account>,
}

impl DiskQueue {
    /// Begins to open the log, and returns the connector of the queue. If that takes long or the disk fails, the connector
    /// waits for the log or opens it. Blocks the thread for a moment.
    ///
    /// # Errors
    /// The queue cannot be opened by this process, for example because another process uses it.
    pub(crate) fn connector(self) -> Result<ConnectorType> {
        let queue = Arc::new(self);
        let opening = Opening::begin(&queue);
        let stage = match opening.wait_a_moment() {
            None => Stage::Opening(opening),
            Some(Ok(opened)) => Stage::Open(Arc::new(opened)),
            Some(Err(error)) if error.policy() == ErrorPolicy::RECONNECT => Stage::Closed,
            Some(Err(error)) => return Err(error),
        };
        let stage = Arc::new(Mutex::new(stage));
        let make: MakeConnector = Box::new(move |connection, _| {
            let (queue, stage, connection) = (queue.clone(), stage.clone(), connection.clone());
            Ok(Box::new(QueueConnector { queue, stage, connection }))
        });
        Ok(ConnectorType { codec: None, make })
    }

    /// Opens the log. Blocks the thread.
    fn open(&self, meter: &Arc<Meter>) -> Result<OpenQueue> {
        let (log, found) = self.open_log(meter).map_err(|error| match &error {
            // The connector tries again.
            OpenError::Device(_) => Error::connection_refused(error),
            _ => Error::configuration(error),
        })?;
        let identity = self.identify.then(|| Identity::of(&self.path)).transpose()?;
        let opened = OpenQueue::new(self, log, found, identity);
        opened.report(&self.name);
        Ok(opened)
    }
}

impl DiskQueue {
    /// Opens the log. If this process still uses the folder, because another flow has just ended, waits for a while.
    fn open_log(&self, meter: &Arc<Meter>) -> Result<(Log, Opened), OpenError> {
        let mut attempts = 0;
        loop {
            let disk = Arc::new(Layered { disk: self.disk.clone(), layer: meter.clone() });
            let options =
                Options { owner: self.owner.clone(), disk, ..Options::new(self.max_bytes) };
            let opened = Log::open(&self.path, options);
            let own = Some(std::process::id());
            let is_ours = matches!(&opened, Err(OpenError::InUse(it)) if it.holder == own);
            if !is_ours || meter.is_given_up() || attempts == ATTEMPTS {
                return opened;
            }
            attempts += 1;
            // The log is closed by another thread, so this wait is in real time.
            executor::block_on(Clock::default().sleep(RETRY));
        }
    }
}

/// The stage of a log, which all instances of the connector share.
enum Stage {
    Opening(Opening),
    Open(Arc<OpenQueue>),
    /// The log was closed, or the disk has failed when the log was opened.
    Closed,
}

/// An instance of the connector.
struct QueueConnector {
    queue: Arc<DiskQueue>,
    stage: Arc<Mutex<Stage>>,
    connection: Arc<Connection>,
}

impl QueueConnector {
    /// Returns the open log. If the caller gives up, the opening continues, and the next call waits for it.
    async fn opened(&self) -> Result<Arc<OpenQueue>> {
        let opening = match &mut *lock(&self.stage) {
            Stage::Open(opened) => return Ok(opened.clone()),
            Stage::Opening(opening) => opening.clone(),
            stage @ Stage::Closed => {
                let opening = Opening::begin(&self.queue);
                *stage = Stage::Opening(opening.clone());
                opening
            }
        };
        let opened = opening.finished().await.map(Arc::new);
        *lock(&self.stage) = opened.as_ref().map_or(Stage::Closed, |it| Stage::Open(it.clone()));
        opened
    }
}

impl DynConnector for QueueConnector {
    fn codec_requirement(&self) -> CodecRequirement {
        CodecRequirement::Structured
    }

    fn sides(&self) -> Sides {
        Sides::BOTH
    }

    fn connect(&mut self, _: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        Box::pin(async move {
            let opened = self.opened().await?;
            opened.begin_connection();
            let (clock, number) = (opened.control.clock().clone(), opened.connection());
            let (stage, connection) =
                (Arc::downgrade(&self.stage), Arc::downgrade(&self.connection));
            log::spawn(reporter::report(clock, number, stage, connection)).detach();
            let source: Box<dyn DynSource> = Box::new(QueueSource::new(opened.clone()));
            let sink: Box<dyn DynSink> = Box::new(QueueSink::new(opened));
            Ok(Halves::both(source, sink))
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if hook != Hook::CLOSE {
                return Ok(());
            }
            let stage = std::mem::replace(&mut *lock(&self.stage), Stage::Closed);
            let DiskQueue { name, path, control, .. } = &*self.queue;
            match stage {
                Stage::Open(queue) => {
                    let (name, flow) = (name.clone(), control.calls().flow().clone());
                    // Closing makes durable what waits.
                    blocking(move || log::within(&flow, || queue.close(&name))).await.map(drop)
                }
                Stage::Opening(opening) => {
                    tracing::warn!(
                        component = %name, path = %path.display(),
                        "the connector ends before its queue on disk is open: the events in the queue stay there, and \
                         the report does not count them"
                    );
                    blocking(move || drop(opening)).await
                }
                Stage::Closed => Ok(()),
            }
        })
    }
}

/// Runs work on a thread that may block, and waits for its result.
///
/// # Errors
/// Returns an error if the work panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, receiver) = async_channel::bounded(1);
    executor::spawn_blocking(move || {
        // Without a receiver, nobody waits for the result any more.
        _ = sender.try_send(work());
    });
    receiver.recv().await.map_err(|_| Error::internal("a call of the log on disk panicked"))
}
