//! The sink side of a connector: encode, frame, deliver, and see to what was not delivered.

pub(crate) mod retry;

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{
    Batch, Delivery, Error, ErrorKind, Signal, abi::batch::Rejected, dynamic::DynSink,
};

use crate::engine::{
    account::token::InFlight,
    life::{
        connection::{Broken, Connection, End},
        control::{Control, Phase, Reached},
        standing::Standing,
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
    /// What is pending is to be tried again.
    Retry,
    /// An operator behind `err` is to be told the time.
    Due,
    Tick,
    Interrupted,
}

/// What ends the sink of one connection wherever it is.
struct Interrupt<'c> {
    stopped: Reached<'c>,
    broken: Broken<'c>,
}

impl Interrupt<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.stopped.poll(context).is_ready() {
            return Poll::Ready(());
        }
        self.broken.poll(context)
    }
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
        let (stopped, broken) = (control.reached(Phase::Stopped), connection.broken());
        let mut interrupt = Interrupt { stopped, broken };
        self.retries.try_now();
        // One timer for many waits: to set one takes memory.
        let mut tick = std::pin::pin!(executor::sleep(TICK));
        let mut has_drained = false;
        loop {
            while !self.pending.is_empty() && self.retries.next().is_none() {
                let delivered = self.deliver_first(&mut *sink, connection, &mut interrupt).await;
                if let Err(end) = delivered {
                    return end;
                }
            }
            self.standing.set_in_hand(self.pending.iter().map(Queued::events).sum());
            let result = match self.next(&mut interrupt, tick.as_mut()).await {
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
                    match tell(&mut *sink, Signal::Drain, &mut interrupt).await {
                        None => return End::Interrupted,
                        Some(Ok(())) => {
                            self.undrained = false;
                            self.progress();
                            return End::Finished;
                        }
                        Some(Err(error)) if retry::is_for_now(&error) => self.retries.again(error),
                        Some(error) => error,
                    }
                }
                Step::Retry => {
                    self.retries.try_now();
                    Ok(())
                }
                Step::Due => {
                    self.router.tell_time().await;
                    Ok(())
                }
                Step::Tick => {
                    tick.set(executor::sleep(TICK));
                    match tell(&mut *sink, Signal::Tick, &mut interrupt).await {
                        None => return End::Interrupted,
                        Some(Err(error)) if retry::is_for_now(&error) => {
                            self.retries.stuck_by(&error);
                            Ok(())
                        }
                        Some(result) => result,
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
        mut tick: Pin<&mut impl Future<Output = ()>>,
    ) -> Step {
        let (retry, due) = (self.retries.next(), self.router.egress.due());
        let first = [retry, due].into_iter().flatten().min();
        let mut timer = std::pin::pin!(executor::sleep_until(first.unwrap_or_else(Instant::now)));
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
            if first.is_some() && timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(if first == retry { Step::Retry } else { Step::Due });
            }
            tick.as_mut().poll(context).map(|()| Step::Tick)
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
        let deliver = poll_fn(|context| {
            if let Poll::Ready(result) = sink.poll_deliver(context, &mut outgoing) {
                return Poll::Ready(Some(result));
            }
            interrupt.poll(context).map(|()| None)
        });
        let Some(result) = deliver.await else {
            self.pending.push_front(item.into());
            return Err(End::Interrupted);
        };
        match result {
            Ok(delivery) => {
                let all = item.batch.len();
                let exceptions = delivery.exceptions().iter();
                if exceptions.map(|exception| exception.events.len()).sum::<usize>() < all {
                    connection.event_passed();
                }
                match self.account(item, delivery).await {
                    None => self.progress(),
                    // It takes the rest in its own time, for as long as it takes any.
                    Some((rest, _)) if rest.batch.len() < all => {
                        self.progress();
                        self.pending.push_front(rest.into());
                    }
                    Some((rest, error)) => self.again(rest, error).await,
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::BAD_DATA => {
                self.progress();
                self.reject_all(item, &error).await;
                Ok(())
            }
            Err(error) if retry::is_for_now(&error) => {
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

    /// The peer has taken nothing of this. It is delivered again later, or to nobody any more.
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

    /// Sees to the exceptions of a delivery. What is to be delivered again is given back.
    async fn account(&mut self, item: InFlight, delivery: Delivery) -> Option<(InFlight, Error)> {
        let InFlight { batch, token, is_letter } = item;
        let mut undelivered = 0;
        let mut rejected = Vec::new();
        let mut again: Vec<bool> = Vec::new();
        let mut first = None;
        for exception in delivery.into_exceptions() {
            undelivered += exception.events.len();
            if exception.retry {
                again.resize(batch.len(), false);
                again[exception.events].fill(true);
                first.get_or_insert(exception.error);
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
        rest.retain(|_, _| {
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

/// Tells a sink something, and waits for its answer; none where it is to end before that.
async fn tell(
    sink: &mut dyn DynSink,
    signal: Signal,
    interrupt: &mut Interrupt<'_>,
) -> Option<Result<(), Error>> {
    let mut answer = sink.on_signal(signal);
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => interrupt.poll(context).map(|()| None),
    })
    .await
}
