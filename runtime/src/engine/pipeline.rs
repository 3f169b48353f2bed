//! A pipeline that several tasks feed, as a task of its own.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Instant};

use crate::engine::{
    account::token::InFlight,
    control::{Control, Phase, interrupt::Interrupt},
    queue::Receiver,
    route::router::Router,
    sync::{alarm::Alarm, turn::Turn},
};

/// What the task waits for.
enum Step {
    Received(InFlight),
    /// An operator is to be told the time.
    Due,
    /// No task feeds it any more.
    Ended,
    Stopped,
}

/// A pipeline with its queue. Its operators are the first pipeline of its router.
pub(crate) struct PipelineTask {
    pub(crate) queue: Receiver,
    pub(crate) router: Router,
    pub(crate) control: Arc<Control>,
}

impl PipelineTask {
    /// Runs until every task that feeds it is gone.
    pub(crate) async fn run(mut self) {
        let control = self.control.clone();
        let mut stopped = Interrupt::new(&control, Phase::Stopped, None);
        let (mut alarm, mut turn) = (Alarm::default(), Turn::default());
        loop {
            turn.share(Instant::now()).await;
            match self.next(&mut stopped, &mut alarm, &mut turn).await {
                Step::Received(item) => self.router.emit(item).await,
                Step::Due => self.router.tell_time().await,
                Step::Ended => {
                    self.router.close().await;
                    break;
                }
                Step::Stopped => break,
            }
        }
        // Nothing, unless the flow was stopped.
        let left = self.queue.close();
        self.router.stats.lost(left.events);
        self.router.stats.undelivered(left.lost);
    }

    async fn next(
        &mut self,
        stopped: &mut Interrupt<'_>,
        alarm: &mut Alarm,
        turn: &mut Turn,
    ) -> Step {
        let due = self.router.egress.due();
        poll_fn(|context| {
            if stopped.now().is_some() {
                return Poll::Ready(Step::Stopped);
            }
            if alarm.poll(context, [(due, ())]).is_ready() {
                return Poll::Ready(Step::Due);
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
