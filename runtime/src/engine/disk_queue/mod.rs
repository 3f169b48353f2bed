//! Queues on disk: the connector that the plan puts before a sink whose `queue.disk` is set.
//!
//! `X -> S` becomes `X -> Q` and `Q -> S`. The sink of Q writes each batch to a record of a log, and answers when the
//! record is durable, so the sources before Q are acknowledged then. The source of Q reads one record as one batch. When
//! the sink S has delivered the events, or another component has settled them, the record is settled in the log.
//!
//! A folder or module in this list imports only from those after it: `sink` and `source`; `opened`; `rejected`; `record`.

mod opened;
mod record;
mod rejected;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use tremor_abi::connector::Hook;
use tremor_log::{Log, OpenError, Options};
use tremor_pdk::{Error, Halves, Result, Sides, lock};

use self::{opened::OpenQueue, sink::QueueSink, source::QueueSource};
use crate::dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource};
use crate::engine::{
    control::Control,
    handle::connection::Connection,
    parts::{ConnectorType, MakeConnector},
    sync::flush_request::FlushRequest,
    tracking::stored::StoredCounters,
};
use crate::executor;
use crate::memory::Account;

/// Settings of a queue on disk, and objects that all its instances share.
pub(crate) struct DiskQueue {
    /// Name of the queue's connector.
    pub(crate) name: Arc<str>,
    /// Folder of the queue.
    pub(crate) path: PathBuf,
    /// Maximum bytes of all files of the queue.
    pub(crate) max_bytes: u64,
    /// Names of the flow and of the sink, which the folder of the queue must belong to.
    pub(crate) owner: String,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Arc<StoredCounters>,
    /// Set while the source waits until the sink has delivered what it has.
    pub(crate) flush_request: Arc<FlushRequest>,
    /// Account of the sink.
    pub(crate) account: Arc<Account>,
}

impl DiskQueue {
    /// Returns the connector of the queue.
    pub(crate) fn connector(self) -> ConnectorType {
        let (queue, opened) = (Arc::new(self), Arc::<Mutex<_>>::default());
        let make: MakeConnector = Box::new(move |connection, _| {
            let (queue, opened, connection) = (queue.clone(), opened.clone(), connection.clone());
            Ok(Box::new(QueueConnector { queue, opened, connection }))
        });
        ConnectorType { codec: None, make }
    }

    /// Opens the log. Blocks the thread.
    fn open(&self) -> Result<OpenQueue> {
        let options = Options { owner: self.owner.clone(), ..Options::new(self.max_bytes) };
        let (log, found) = Log::open(&self.path, options).map_err(|error| match &error {
            // The connector tries again.
            OpenError::Device(_) => Error::connection_refused(error),
            _ => Error::configuration(error),
        })?;
        Ok(OpenQueue::new(self, log, found))
    }
}

/// An instance of the connector. All instances share the open log.
struct QueueConnector {
    queue: Arc<DiskQueue>,
    opened: Arc<Mutex<Option<Arc<OpenQueue>>>>,
    connection: Arc<Connection>,
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
            let known = lock(&self.opened).clone();
            let opened = if let Some(opened) = known {
                opened
            } else {
                let queue = self.queue.clone();
                let opened = Arc::new(blocking(move || queue.open()).await??);
                opened.report(&self.queue.name);
                *lock(&self.opened) = Some(opened.clone());
                opened
            };
            opened.begin_connection();
            let source: Box<dyn DynSource> = Box::new(QueueSource::new(opened.clone()));
            let sink: Box<dyn DynSink> = Box::new(QueueSink::new(opened, self.connection.clone()));
            Ok(Halves::both(source, sink))
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if hook != Hook::CLOSE {
                return Ok(());
            }
            let opened = lock(&self.opened).take();
            // Closing makes durable what waits.
            blocking(move || drop(opened)).await
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
