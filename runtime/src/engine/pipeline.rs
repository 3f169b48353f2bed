//! The task of a pipeline that several tasks feed and that keeps state between batches.

use std::{future::poll_fn, sync::Arc, task::Poll};

use crate::clock::Alarm;
use crate::engine::{
    control::{Control, Phase, interrupt::Interrupt},
    queue::Receiver,
    route::{relief::Relief, router::Router},
    sync::turn::Turn,
    tracking::token::InFlight,
};

/// An event that the task waits for.
enum Step {
    Received(InFlight),
    /// The timer of an operator is due.
    Due,
    /// The time has come to check whether sources wait for what queues can give up.
    Relief,
    /// The queue is empty, and its last sender was dropped.
    Ended,
    /// The flow was stopped.
    Stopped,
}

/// A pipeline with its queue. The operators of the pipeline are in `router`, as the target of the port `out`.
pub(crate) struct PipelineTask {
    pub(crate) queue: Receiver,
    pub(crate) router: Router,
    pub(crate) control: Arc<Control>,
    pub(crate) relief: Relief,
}

impl PipelineTask {
    /// Runs until the tasks that feed the pipeline have ended, or the flow is stopped.
    pub(crate) async fn run(mut self) {
        let control = self.control.clone();
        let mut stopped = Interrupt::new(&control, Phase::Stopped, None);
        let (mut alarm, mut turn) = (control.clock().alarm(), Turn::default());
        loop {
            turn.share(control.clock().now()).await;
            match self.next(&mut stopped, &mut alarm, &mut turn).await {
                Step::Received(item) => self.router.emit(item).await,
                Step::Due => self.router.run_timers().await,
                Step::Relief => self.relief.check(&mut self.router, &control).await,
                Step::Ended => {
                    self.router.close().await;
                    break;
                }
                Step::Stopped => break,
            }
        }
        // The queue still has events only if the flow was stopped.
        self.router.stats.left(self.queue.close());
    }

    async fn next(
        &mut self,
        stopped: &mut Interrupt<'_>,
        alarm: &mut Alarm,
        turn: &mut Turn,
    ) -> Step {
        let (due, relief) = (self.router.egress.due(), self.relief.due());
        poll_fn(|context| {
            if stopped.now().is_some() {
                return Poll::Ready(Step::Stopped);
            }
            let times: [(_, fn() -> Step); 2] = [(due, || Step::Due), (relief, || Step::Relief)];
            if let Poll::Ready(step) = alarm.poll_earliest(context, times) {
                return Poll::Ready(step());
            }
            if let Poll::Ready(received) = self.queue.poll_receive(context) {
                let received = received.map(|queued| Step::Received(queued.item));
                return Poll::Ready(received.unwrap_or(Step::Ended));
            }
            let step = stopped.poll(context).map(|_| Step::Stopped);
            if step.is_pending() {
                turn.end();
            }
            step
        })
        .await
    }
}
