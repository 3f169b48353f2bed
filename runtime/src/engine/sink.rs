//! The sink side of a connector: encode, frame, deliver, and see to what was not delivered.

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

use super::{
    backoff::Backoff,
    connection::{Connection, End},
    control::{Control, Phase},
    delivery::InFlight,
    queue::{Form, Queued, Receiver},
    router::Router,
    standing::Standing,
};
use crate::{codec::BatchEncoder, executor, processor::Framing};

/// How often a sink is told the time.
const TICK: Duration = Duration::from_secs(1);
/// Deliveries of one batch that may fail for a reason that time may mend, before the sink has
/// failed. With the waits in between that is about a second and a half.
const ATTEMPTS: u32 = 5;

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
    /// The sink was told that nothing follows, and has not said that this is well.
    pub(crate) undrained: bool,
    pub(crate) standing: Arc<Standing>,
}

/// What a sink waits for.
enum Step {
    Received(Option<Queued>),
    /// An operator behind `err` is to be told the time.
    Due,
    Tick,
    Stopped,
    Broken,
}

impl SinkSide {
    /// The sink is gone for good: what it has not delivered fails back to its sources.
    pub(crate) fn abandon(self) {
        let pending: usize = self.pending.iter().map(Queued::events).sum();
        self.router.stats.failed(pending + self.queue.close());
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
        self.queue.attend(true);
        let end = self.serve(sink, connection).await;
        self.queue.attend(false);
        end
    }

    async fn serve(&mut self, mut sink: Box<dyn DynSink>, connection: &Connection) -> End {
        // One timer for many waits: to set one takes memory.
        let mut tick = std::pin::pin!(executor::sleep(TICK));
        loop {
            while !self.pending.is_empty() {
                if let Err(end) = self.deliver_first(&mut *sink, connection).await {
                    return end;
                }
            }
            self.standing.set_in_hand(0);
            let result = match self.next(connection, tick.as_mut()).await {
                Step::Received(Some(queued)) => {
                    self.standing.set_in_hand(queued.events());
                    self.pending.push_back(queued);
                    Ok(())
                }
                Step::Received(None) => {
                    self.router.close().await;
                    self.undrained = true;
                    let drained = self.signal(&mut *sink, Signal::Drain, connection).await;
                    self.undrained = drained.is_err();
                    return drained.map_or_else(|end| end, |()| End::Finished);
                }
                Step::Due => {
                    self.router.tell_time().await;
                    Ok(())
                }
                Step::Tick => {
                    tick.set(executor::sleep(TICK));
                    self.signal(&mut *sink, Signal::Tick, connection).await
                }
                Step::Stopped | Step::Broken => return End::Interrupted,
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// Tells the sink something, and waits for its answer as long as it is connected.
    async fn signal(
        &mut self,
        sink: &mut dyn DynSink,
        signal: Signal,
        connection: &Connection,
    ) -> Result<(), End> {
        let mut answer = sink.on_signal(signal);
        poll_fn(|context| {
            if let Poll::Ready(result) = answer.as_mut().poll(context) {
                return Poll::Ready(result.map_err(End::of));
            }
            poll_end(&self.control, connection, context).map(|()| Err(End::Interrupted))
        })
        .await
    }

    async fn next(
        &mut self,
        connection: &Connection,
        mut tick: Pin<&mut impl Future<Output = ()>>,
    ) -> Step {
        let due = self.router.way.due();
        let mut timer = std::pin::pin!(executor::sleep_until(due.unwrap_or_else(Instant::now)));
        poll_fn(|context| {
            if let Poll::Ready(received) = self.queue.poll_receive(context) {
                return Poll::Ready(Step::Received(received));
            }
            if self.control.poll_phase(context, Phase::Stopped).is_ready() {
                return Poll::Ready(Step::Stopped);
            }
            if connection.poll_broken(context).is_ready() {
                return Poll::Ready(Step::Broken);
            }
            if due.is_some() && timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Step::Due);
            }
            tick.as_mut().poll(context).map(|()| Step::Tick)
        })
        .await
    }

    /// Delivers the first of the pending batches, again and again while its failure is one that
    /// time may mend. What remains undelivered when the connection ends stays pending.
    async fn deliver_first(
        &mut self,
        sink: &mut dyn DynSink,
        connection: &Connection,
    ) -> Result<(), End> {
        let Some(Queued { mut item, mut form }) = self.pending.pop_front() else { return Ok(()) };
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut attempts = 0;
        loop {
            let form = std::mem::replace(&mut form, Form::Values);
            let mut outgoing = self.encode(&mut item, form).await;
            if item.batch.is_empty() {
                item.token.settle();
                return Ok(());
            }
            let control = &self.control;
            let deliver = poll_fn(|context| {
                if let Poll::Ready(result) = sink.poll_deliver(context, &mut outgoing) {
                    return Poll::Ready(Some(result));
                }
                poll_end(control, connection, context).map(|()| None)
            });
            let result: Result<(), Error> = match deliver.await {
                Some(Ok(delivery)) => match self.account(item, delivery).await {
                    None => return Ok(()),
                    Some((rest, error)) => {
                        item = rest;
                        Err(error)
                    }
                },
                Some(Err(error)) => Err(error),
                None => {
                    self.pending.push_front(item.into());
                    return Err(End::Interrupted);
                }
            };
            let Err(error) = result else { return Ok(()) };
            match error.kind() {
                ErrorKind::BAD_DATA => {
                    self.reject_all(item, &error).await;
                    return Ok(());
                }
                ErrorKind::TIMEOUT | ErrorKind::FULL if attempts < ATTEMPTS => {
                    attempts += 1;
                    let wait = backoff.next();
                    tracing::warn!(component = %self.router.name, %error, ?wait, "not delivered");
                    if !waits(wait, &self.control, connection).await {
                        self.pending.push_front(item.into());
                        return Err(End::Interrupted);
                    }
                }
                _ => {
                    self.pending.push_front(item.into());
                    return Err(End::of(error));
                }
            }
        }
    }

    /// What the sink gets: encoded messages, or the values as they are.
    async fn encode(&mut self, item: &mut InFlight, form: Form) -> Batch {
        let (mut encoded, mut rejected) = match (form, &mut self.codec) {
            (Form::Encoded { encoded, rejected }, _) => (encoded, rejected),
            (Form::Values, Some(codec)) => {
                let suffix = self.framing.suffix();
                codec.encode_batch(&mut item.batch, &self.router.pool, suffix)
            }
            (Form::Values, None) => return item.batch.clone(),
        };
        rejected.extend(self.framing.process(&mut encoded, &mut item.batch));
        if !rejected.is_empty() {
            self.router.reject(&item.batch, rejected, item.token.clone()).await;
        }
        encoded
    }

    /// Sees to the exceptions of a delivery. What is to be delivered again is given back.
    async fn account(&mut self, item: InFlight, delivery: Delivery) -> Option<(InFlight, Error)> {
        let InFlight { batch, token } = item;
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
        self.router.stats.events_out(batch.len() - undelivered);
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
        Some((InFlight { batch: rest, token }, Error::timeout(error)))
    }

    /// The sink cannot take any event of the batch.
    async fn reject_all(&mut self, item: InFlight, error: &Error) {
        let InFlight { batch, token } = item;
        let reject = |event| Rejected { event, error: error.clone() };
        let rejected = batch.events().iter().copied().map(reject).collect();
        self.router.reject(&batch, rejected, token).await;
    }
}

/// Ready when the sink of this connection is to end where it is.
fn poll_end(control: &Control, connection: &Connection, context: &Context<'_>) -> Poll<()> {
    if control.poll_phase(context, Phase::Stopped).is_ready() {
        return Poll::Ready(());
    }
    connection.poll_broken(context)
}

/// Waits; `false` where the sink is to end before that.
async fn waits(wait: Duration, control: &Control, connection: &Connection) -> bool {
    let mut timer = std::pin::pin!(executor::sleep(wait));
    poll_fn(|context| {
        if timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        poll_end(control, connection, context).map(|()| false)
    })
    .await
}
