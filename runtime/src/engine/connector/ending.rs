//! Until when a connector is needed, whatever it is waiting for.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use crate::engine::{
    control::{Control, Phase, Reached},
    sink::SinkSide,
    source::SourceSide,
};
use crate::{executor, log};

/// What decides it, while neither side of the connector runs.
pub(crate) struct Ending<'t> {
    pub(crate) control: &'t Arc<Control>,
    pub(crate) stopped: Reached<'t>,
    pub(crate) drains: Reached<'t>,
    pub(crate) source: &'t mut Option<SourceSide>,
    pub(crate) sink: &'t mut Option<SinkSide>,
    /// The end of a source that is not to run any more.
    pub(crate) retires: &'t mut Option<executor::Task<()>>,
}

impl Ending<'_> {
    /// Ready once the flow needs the connector no more: it has stopped; it drains, and the
    /// connector is a source; or nothing can come for its sink any more, and nothing has.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.stopped.poll(context).is_ready() {
            return Poll::Ready(());
        }
        let drains = self.drains.poll(context);
        let Some(sink) = &self.sink else { return drains };
        if drains.is_ready()
            && let Some(source) = self.source.take()
        {
            // Others wait for the end of what it feeds, and its own sink may be one of them.
            *self.retires = Some(log::spawn(retire(source, self.control.clone())));
        }
        sink.poll_done(context)
    }

    /// The result of a call of the connector; none where it is not needed any more before that.
    pub(crate) async fn or<T>(mut self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = std::pin::pin!(call);
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => self.poll(context).map(|()| None),
        })
        .await
    }
}

/// Ends a source that is not connected: its operators emit what they hold back, and the queues
/// without another sender end.
pub(crate) async fn retire(mut source: SourceSide, control: Arc<Control>) {
    // Once it has begun it is not cut short: what it has in hand would be lost. Where the flow is
    // stopped, no task takes anything, and so it does not wait.
    if !control.has_reached(Phase::Stopped) {
        source.worker.router.close().await;
    }
}
