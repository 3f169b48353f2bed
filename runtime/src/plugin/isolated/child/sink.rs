//! The task that calls the sink of a connection.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use tremor_abi::connector::Deliveries;
use tremor_pdk::{Batch, Error, Exception, Grant, Result};

use super::{Commands, Shared};
use crate::{
    dynamic::DynSink,
    plugin::isolated::{
        body::{DeliveriesBody, RangeBody},
        memory::MOST_IN_FLIGHT,
        message::{Kind, MAX_BODY, Message},
    },
};

/// A message for the sink. Slots are those of the shared memory, from 1.
#[derive(Clone, Copy)]
pub(super) enum ToSink {
    Grant(DeliveriesBody),
    Deliver {
        call: u32,
        slot: u32,
        len: u64,
    },
    /// Cancels the delivery in the slot.
    GiveUp(u32),
    /// TICK, FLUSH or `CLOSE_SINK`.
    Call(Kind, u32),
}

enum Step {
    Received(Option<ToSink>),
    Answered(usize, Result<Vec<Exception>>),
}

/// Calls the sink until the runtime drops it.
pub(super) async fn run(shared: Arc<Shared>, sink: Box<dyn DynSink>, commands: Commands<ToSink>) {
    let mut task = SinkTask { shared, sink, deliveries: Vec::new() };
    loop {
        let step = {
            let mut received = pin!(commands.next());
            poll_fn(|context| match received.as_mut().poll(context) {
                Poll::Ready(received) => Poll::Ready(Step::Received(received)),
                Poll::Pending => task.poll(context),
            })
            .await
        };
        match step {
            Step::Received(None) => return,
            Step::Received(Some(ToSink::Call(kind, call))) => {
                let work = match kind {
                    Kind::TICK => task.sink.on_tick(),
                    Kind::FLUSH => task.sink.flush(),
                    _ => task.sink.close(),
                };
                let Some(outcome) = commands.while_needed(work).await else { return };
                task.shared.send(&Message::outcome(kind, call, &outcome));
            }
            Step::Received(Some(message)) => task.handle(message),
            Step::Answered(index, outcome) => task.answer(index, outcome),
        }
    }
}

struct SinkTask {
    shared: Arc<Shared>,
    sink: Box<dyn DynSink>,
    /// Calls and batches of the deliveries in flight, by slot.
    deliveries: Vec<Option<(u32, Batch)>>,
}

impl SinkTask {
    /// Polls all deliveries in flight, until one of them is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        for (index, delivery) in self.deliveries.iter_mut().enumerate() {
            if let Some((_, batch)) = delivery
                && let Poll::Ready(outcome) = self.sink.poll_deliver(context, index, batch)
            {
                return Poll::Ready(Step::Answered(index, outcome));
            }
        }
        Poll::Pending
    }

    fn handle(&mut self, message: ToSink) {
        match message {
            ToSink::Grant(grant) => {
                let grant = Grant::from(Deliveries::from(grant));
                self.sink.on_grant(grant);
            }
            ToSink::Deliver { call, slot, len } => match self.begin(slot, len) {
                Ok((index, batch)) => {
                    if self.deliveries.len() <= index {
                        self.deliveries.resize_with(index + 1, || None);
                    }
                    self.deliveries[index] = Some((call, batch));
                }
                Err(error) => {
                    let answer = Message::answer(Kind::DELIVER, call);
                    self.shared.send(&Message { slot, ..answer.failed(&error) });
                }
            },
            ToSink::GiveUp(slot) => {
                let index = (slot as usize).wrapping_sub(1);
                let is_in_flight = self.deliveries.get(index).is_some_and(Option::is_some);
                if is_in_flight {
                    self.sink.give_up(index);
                    self.answer(index, Err(Error::deferred("the delivery was cancelled")));
                }
            }
            // Handled by the caller, because it waits.
            ToSink::Call(..) => {}
        }
    }

    /// Reads the batch of a delivery. Returns it with the index of its slot.
    fn begin(&self, slot: u32, len: u64) -> Result<(usize, Batch)> {
        let index = (slot as usize).checked_sub(1).filter(|index| *index < MOST_IN_FLIGHT);
        let Some(index) = index else {
            return Err(Error::internal(format_args!("there is no slot {slot} for a delivery")));
        };
        let (batch, _) = self.shared.memory.read(slot, len)?;
        Ok((index, batch))
    }

    /// Answers the delivery in a slot.
    fn answer(&mut self, index: usize, outcome: Result<Vec<Exception>>) {
        let Some((call, _)) = self.deliveries.get_mut(index).and_then(Option::take) else { return };
        let slot = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let answer = Message { slot, ..Message::answer(Kind::DELIVER, call) };
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let answer = match outcome {
            Ok(exceptions) if exceptions.is_empty() => answer,
            Ok(exceptions) => {
                let ranges = exceptions.iter().map(|Exception { events, error }| RangeBody {
                    start: narrow(events.start),
                    len: narrow(events.len()),
                    error: error.into(),
                });
                let rejecting = answer.clone().json(&ranges.collect::<Vec<_>>());
                if rejecting.body.len() <= MAX_BODY {
                    rejecting
                } else {
                    answer.failed(&Error::internal(format_args!(
                        "the sink rejected {} ranges of events with errors of more than {MAX_BODY} bytes",
                        exceptions.len()
                    )))
                }
            }
            Err(error) => answer.failed(&error),
        };
        self.shared.send(&answer);
    }
}
