//! The sink side of a connector: encode, frame, deliver, and see to what was not delivered.

pub(crate) mod retry;

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{
    Batch, Error, ErrorPolicy, Exceptions, Signal,
    abi::batch::{HostBatch, Rejected},
    dynamic::DynSink,
};

use crate::engine::{
    account::token::InFlight,
    life::{
        connection::{Connection, End},
        control::{Control, Phase},
        standing::Standing,
        wait::{Alarm, Interrupt},
    },
    queue::{Payload, Queued, Receiver},
    route::router::Router,
    sink::retry::Retries,
};
use crate::{codec::BatchEncoder, executor, processor::Framing};

/// How often a sink is told the time.
const TICK: Duration = Duration::from_secs(1);

/// What of a sink outlives a connection.
pub(crate) struct SinkSide {
    pub(crate) queue: Receiver,
    /// The way of dead letters.
    pub(crate) router: Router,
    /// None for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchEncoder>>,
    pub(crate) framing: Framing,
    pub(crate) control: Arc<Control>,
    /// What has left the queue and is not delivered yet, in order.
    pub(crate) pending: VecDeque<Queued>,
    /// When that is tried again.
    pub(crate) retries: Retries,
    /// The sink was told that nothing follows, and has not said that this is well.
    pub(crate) undrained: bool,
    pub(crate) standing: Arc<Standing>,
}

/// What a sink waits for.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once; a box takes memory")]
enum Step {
    Received(Option<Queued>),
    Due(Due),
    Interrupted,
}

/// What it is time for.
#[derive(Clone, Copy)]
enum Due {
    /// What is pending is tried again.
    Retry,
    /// An operator after `err` is told the time.
    Operator,
    /// The sink is told the time.
    Tick,
}

impl SinkSide {
    /// The sink is gone for good: what it has not delivered fails back to its sources.
    pub(crate) fn abandon(self) {
        let pending: usize = self.pending.iter().map(Queued::events).sum();
        self.router.stats.failed(pending);
        self.router.stats.lost(self.queue.close());
    }

    /// Ready once there is nothing to do for a sink any more, whether or not it is connected.
    pub(crate) fn poll_done(&self, context: &Context<'_>) -> Poll<()> {
        if self.pending.is_empty() && !self.undrained {
            self.queue.poll_ended(context)
        } else {
            Poll::Pending
        }
    }

    /// Runs the sink of one connection to its end.
    pub(crate) async fn run(&mut self, sink: Box<dyn DynSink>, connection: &Connection) -> End {
        let end = self.serve(sink, connection).await;
        self.queue.rest();
        end
    }

    async fn serve(&mut self, mut sink: Box<dyn DynSink>, connection: &Connection) -> End {
        let control = self.control.clone();
        let mut interrupt = Interrupt::new(&control, Phase::Stopped, Some(connection));
        let (mut alarm, mut tick) = (Alarm::default(), executor::after(TICK));
        self.retries.try_now();
        let mut has_drained = false;
        loop {
            while !self.pending.is_empty() && self.retries.next().is_none() {
                let delivered = self.deliver_first(&mut *sink, connection, &mut interrupt).await;
                if let Err(end) = delivered {
                    return end;
                }
            }
            self.standing.set_in_hand(self.pending.iter().map(Queued::events).sum());
            let result = match self.next(&mut interrupt, &mut alarm, tick).await {
                Step::Received(Some(queued)) => {
                    self.router.stats.taken(queued.events());
                    self.standing.set_in_hand(queued.events());
                    self.pending.push_back(queued);
                    Ok(())
                }
                Step::Received(None) => {
                    if !std::mem::replace(&mut has_drained, true) {
                        self.router.close().await;
                    }
                    self.undrained = true;
                    match interrupt.or(sink.on_signal(Signal::Drain)).await {
                        Err(_) => return End::Interrupted,
                        Ok(Ok(())) => {
                            self.undrained = false;
                            self.progress();
                            return End::Finished;
                        }
                        Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                            self.retries.again(error)
                        }
                        Ok(error) => error,
                    }
                }
                Step::Due(Due::Retry) => {
                    self.retries.try_now();
                    Ok(())
                }
                Step::Due(Due::Operator) => {
                    self.router.tell_time().await;
                    Ok(())
                }
                Step::Due(Due::Tick) => {
                    tick = executor::after(TICK);
                    match interrupt.or(sink.on_signal(Signal::Tick)).await {
                        Err(_) => return End::Interrupted,
                        Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                            self.retries.stuck_by(&error);
                            Ok(())
                        }
                        Ok(result) => result,
                    }
                }
                Step::Interrupted => return End::Interrupted,
            };
            if let Err(error) = result {
                return End::of(error);
            }
        }
    }

    async fn next(
        &mut self,
        interrupt: &mut Interrupt<'_>,
        alarm: &mut Alarm,
        tick: Instant,
    ) -> Step {
        let (retry, operator) = (self.retries.next(), self.router.egress.due());
        let times = [(retry, Due::Retry), (operator, Due::Operator), (Some(tick), Due::Tick)];
        poll_fn(|context| {
            // What waits to be tried again comes before whatever else there is.
            if retry.is_none()
                && let Poll::Ready(received) = self.queue.poll_receive(context)
            {
                return Poll::Ready(Step::Received(received));
            }
            if interrupt.poll(context).is_ready() {
                return Poll::Ready(Step::Interrupted);
            }
            alarm.poll(context, times).map(Step::Due)
        })
        .await
    }

    /// Delivers the first of the pending batches. What remains of it, for now or when the connection
    /// ends, stays pending.
    async fn deliver_first(
        &mut self,
        sink: &mut dyn DynSink,
        connection: &Connection,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(), End> {
        let Some(Queued { mut item, payload }) = self.pending.pop_front() else { return Ok(()) };
        let mut outgoing = self.encode(&mut item, payload).await;
        if item.batch.is_empty() {
            item.token.settle();
            return Ok(());
        }
        let deliver = poll_fn(|context| sink.poll_deliver(context, 0, &mut outgoing));
        let Ok(result) = interrupt.or(deliver).await else {
            self.pending.push_front(item.into());
            return Err(End::Interrupted);
        };
        match result {
            Ok(exceptions) => {
                let all = item.batch.len();
                let undelivered = exceptions.exceptions().iter().map(|it| it.events.len());
                if undelivered.sum::<usize>() < all {
                    connection.event_passed();
                }
                match self.account(item, exceptions).await {
                    None => self.progress(),
                    Some((rest, error)) if error.policy() == ErrorPolicy::RECONNECT => {
                        if rest.batch.len() < all {
                            self.progress();
                        }
                        self.pending.push_front(rest.into());
                        return Err(End::of(error));
                    }
                    // It takes the rest in its own time, for as long as it takes any.
                    Some((rest, _)) if rest.batch.len() < all => {
                        self.progress();
                        self.pending.push_front(rest.into());
                    }
                    Some((rest, error)) => self.again(rest, error).await,
                }
                Ok(())
            }
            Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                self.progress();
                self.reject_all(item, &error).await;
                Ok(())
            }
            Err(error) if error.policy() == ErrorPolicy::RETRY => {
                self.again(item, error).await;
                Ok(())
            }
            Err(error) => {
                self.pending.push_front(item.into());
                Err(End::of(error))
            }
        }
    }

    /// Something went through.
    fn progress(&mut self) {
        if self.retries.progress() {
            self.standing.enter("running");
        }
    }

    /// The peer has taken nothing of this. It is delivered again later, or goes to `err`.
    async fn again(&mut self, item: InFlight, error: Error) {
        self.standing.enter("waiting to deliver");
        self.standing.note(&error);
        match self.retries.again(error) {
            Ok(()) => self.pending.push_front(item.into()),
            Err(error) => self.reject_all(item, &error).await,
        }
    }

    /// What the sink gets: encoded messages, or the values as they are.
    async fn encode(&mut self, item: &mut InFlight, payload: Payload) -> Batch {
        let (mut encoded, mut rejected) = match (payload, &mut self.codec) {
            (Payload::Encoded { encoded, rejected }, _) => (encoded, rejected),
            (Payload::Values, Some(codec)) => {
                let suffix = self.framing.suffix();
                codec.encode_batch(&mut item.batch, &self.router.pool, suffix)
            }
            (Payload::Values, None) => return item.batch.clone(),
        };
        rejected.extend(self.framing.process(&mut encoded, &mut item.batch));
        if !rejected.is_empty() {
            self.router.reject(&item.batch, rejected, item.token.clone()).await;
        }
        encoded
    }

    /// Sees to the exceptions. What is to be delivered again is given back.
    async fn account(
        &mut self,
        item: InFlight,
        exceptions: Exceptions,
    ) -> Option<(InFlight, Error)> {
        let InFlight { batch, token, is_letter } = item;
        let mut undelivered = 0;
        let mut rejected = Vec::new();
        let mut again: Vec<bool> = Vec::new();
        let mut first = None;
        for exception in exceptions.into_exceptions() {
            undelivered += exception.events.len();
            let policy = exception.error.policy();
            if matches!(policy, ErrorPolicy::RETRY | ErrorPolicy::RECONNECT) {
                again.resize(batch.len(), false);
                again[exception.events].fill(true);
                // Where another connection is needed for some, there is no use in trying on this one.
                if first.is_none() || policy == ErrorPolicy::RECONNECT {
                    first = Some(exception.error);
                }
            } else {
                let events = &batch.events()[exception.events];
                let reject = |event| Rejected { event, error: exception.error.clone() };
                rejected.extend(events.iter().copied().map(reject));
            }
        }
        let delivered = batch.len() - undelivered;
        self.router.stats.delivered(delivered);
        self.router.stats.letters(if is_letter { delivered } else { 0 });
        if !rejected.is_empty() {
            self.router.reject(&batch, rejected, token.clone()).await;
        }
        let Some(error) = first else {
            token.settle();
            return None;
        };
        let mut rest = batch;
        let mut position = 0;
        rest.retain(|_| {
            position += 1;
            again[position - 1]
        });
        Some((InFlight { batch: rest, token, is_letter }, error))
    }

    /// The sink cannot take any event of the batch.
    async fn reject_all(&mut self, item: InFlight, error: &Error) {
        let InFlight { batch, token, .. } = item;
        let reject = |event| Rejected { event, error: error.clone() };
        let rejected = batch.events().iter().copied().map(reject).collect();
        self.router.reject(&batch, rejected, token).await;
    }
}
