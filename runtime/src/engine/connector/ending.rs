//! The end of a connector whose source and sink do not run, for example while it connects.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use crate::engine::{
    control::{Control, Phase, Reached, ends::GivesUp},
    sink::SinkSide,
    source::SourceSide,
};
use crate::{executor, log};

/// The conditions under which the flow no longer needs a connector whose source and sink do not run.
pub(crate) struct Ending<'t> {
    pub(crate) control: &'t Arc<Control>,
    pub(crate) stopped: Reached<'t>,
    pub(crate) drains: Reached<'t>,
    pub(crate) gives_up: GivesUp<'t>,
    /// Name of the connector.
    pub(crate) name: &'t str,
    pub(crate) source: &'t mut Option<SourceSide>,
    pub(crate) sink: &'t mut Option<SinkSide>,
    /// The task that ends the source, if the flow drains while the source does not run.
    pub(crate) retiring: &'t mut Option<executor::Task<()>>,
}

impl Ending<'_> {
    /// Completes once the flow no longer needs the connector: if the flow was stopped; if the flow drains and the
    /// connector has no sink; if the queue of the sink has ended and the sink has no events; if the flow drains and the
    /// events of the sink stay on disk; or if the sink stops no source and has to give up what it has.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.stopped.poll(context).is_ready() {
            return Poll::Ready(());
        }
        let drains = self.drains.poll(context);
        let Some(sink) = &self.sink else { return drains };
        if drains.is_ready()
            && let Some(source) = self.source.take()
        {
            // The queues that the source feeds end only with the source, and their receivers wait for the end of the
            // queues. One of these receivers may be the sink of this connector. This function waits for that sink, so
            // another task has to end the source.
            *self.retiring = Some(log::spawn(retire(source, self.control.clone())));
        }
        // The sink does not run, so in a drain its events stay on disk.
        let is_left_stored = sink.is_stored && sink.may_give_up() && drains.is_ready();
        if is_left_stored
            || (sink.may_give_up() && self.gives_up.poll(context, self.name).is_ready())
        {
            return Poll::Ready(());
        }
        sink.poll_done(context)
    }

    /// Returns the result of `call`, or `None` if the flow no longer needs the connector before `call` has completed.
    pub(crate) async fn or<T>(mut self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = std::pin::pin!(call);
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => self.poll(context).map(|()| None),
        })
        .await
    }
}

/// Ends a source that is not connected: its operators emit the events that they buffer, and the queues that no other
/// task feeds end. Does nothing if the flow was stopped.
pub(crate) async fn retire(mut source: SourceSide, control: Arc<Control>) {
    // Once begun, the close is not interrupted, because events that operators emit would be lost. If the flow is
    // stopped meanwhile, the close does not block, because the queues of tasks that have ended refuse events.
    if !control.has_reached(Phase::Stopped) {
        source.worker.router.close().await;
    }
}
