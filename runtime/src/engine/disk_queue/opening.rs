//! The opening of a queue, which takes long if there is much to read or the disk is slow.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_channel::Receiver;
use tremor_pdk::{Error, Result};

use super::{DiskQueue, meter::Meter, opened::OpenQueue};
use crate::{executor, log};

/// Time for which the plan of a flow waits for a queue. The reasons for which a command ends, such as a folder in use, are
/// found before records are read, and therefore usually within this time.
const PLANNED: Duration = Duration::from_secs(1);

/// Time between the first two reports of an opening. It doubles with each report.
const REPORT: Duration = Duration::from_secs(2);

/// Maximum time between two reports.
const MAX_REPORT: Duration = Duration::from_secs(30);

/// An opening on a thread of its own. If the last clone is dropped before the queue is open, the opening ends soon and
/// releases the folder, which the flow of before may need.
#[derive(Clone)]
pub(super) struct Opening {
    queue: Arc<DiskQueue>,
    meter: Arc<GivesUp>,
    opened: Receiver<Result<OpenQueue>>,
    begun: Instant,
}

/// Lets an opening end when nobody waits for it any more.
struct GivesUp(Arc<Meter>);

impl Drop for GivesUp {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Opening {
    pub(super) fn begin(queue: &Arc<DiskQueue>) -> Self {
        let clock = queue.control.clock();
        let meter = Arc::new(Meter::new(clock.clone(), queue.counters.clone()));
        let (sender, opened) = async_channel::bounded(1);
        let (flow, opens, measures) =
            (queue.control.calls().flow().clone(), queue.clone(), meter.clone());
        executor::spawn_blocking(move || {
            measures.measure(&opens.path);
            let opened = log::within(&flow, || opens.open(&measures));
            measures.opened();
            _ = sender.try_send(opened);
        });
        let (queue, meter) = (queue.clone(), Arc::new(GivesUp(meter)));
        Self { begun: queue.control.clock().now(), queue, meter, opened }
    }

    /// Waits for the queue for a moment. Returns `None` if it is not open by then. Blocks the thread.
    ///
    /// # Errors
    /// The queue cannot be opened.
    pub(super) fn wait_a_moment(&self) -> Option<Result<OpenQueue>> {
        let opened = executor::block_on(self.within(PLANNED));
        if opened.is_none() {
            self.report();
        }
        opened
    }

    /// Waits for the queue, and reports from time to time that it takes long.
    ///
    /// # Errors
    /// The queue cannot be opened.
    pub(super) async fn finished(&self) -> Result<OpenQueue> {
        let mut wait = REPORT;
        loop {
            if let Some(opened) = self.within(wait).await {
                return opened;
            }
            self.report();
            wait = MAX_REPORT.min(wait * 2);
        }
    }

    /// Waits for the queue for at most this time.
    async fn within(&self, limit: Duration) -> Option<Result<OpenQueue>> {
        let panicked = |_| Error::internal("the opening of the queue on disk panicked");
        let opened = async { Some(self.opened.recv().await.map_err(panicked).flatten()) };
        let limit = self.queue.control.clock().sleep(limit);
        executor::first(opened, async {
            limit.await;
            None
        })
        .await
    }

    fn report(&self) {
        let DiskQueue { name, path, control, .. } = &*self.queue;
        let (read_bytes, bytes) = self.meter.0.progress();
        tracing::warn!(
            component = %name, path = %path.display(), elapsed = ?control.clock().elapsed(self.begun),
            read_bytes, bytes,
            "opening the queue on disk takes long; the sources before it wait"
        );
    }
}
