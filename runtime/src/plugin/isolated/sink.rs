//! The sink of a connector whose plugin runs in a process of its own.

use std::{
    collections::VecDeque,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tremor_abi::{
    connector::{DeliverReply, Deliveries, ExceptionRange},
    frame::{self, MAX_LEN, Medium, Refused},
};
use tremor_pdk::{Batch, Demand, Error, Exception, Grant, Result};

use super::{
    body::{DeliveriesBody, RangeBody},
    link::Call,
    memory::{MOST_IN_FLIGHT, Writer},
    message::{Kind, Message},
    process::Process,
};
use crate::{
    dynamic::{BoxFuture, DynSink},
    plugin::stream::exceptions,
};

/// The sink of one connection.
pub(super) struct IsolatedSink {
    process: Arc<Process>,
    demand: Demand,
    writer: Writer,
    slots: Vec<Slot>,
}

/// State of a slot.
#[derive(Default)]
enum Slot {
    #[default]
    Idle,
    Delivering(Delivery),
    /// The delivery was cancelled, and its answer has not arrived. Until then the process may read the slot.
    GivenUp(Call),
}

/// A delivery, which takes a call for each frame into which its batch is divided.
struct Delivery {
    call: Call,
    /// Number of events of the current frame.
    events: usize,
    /// Number of events of the frames before the current one.
    before: usize,
    /// Batches that are not sent yet. An event that fits no frame is an error.
    left: VecDeque<Result<Batch, Refused>>,
    exceptions: Vec<Exception>,
}

impl IsolatedSink {
    pub(super) fn new(process: Arc<Process>, demand: Demand) -> Self {
        let most = demand.most_in_flight.min(MOST_IN_FLIGHT);
        let demand = demand.in_flight(demand.in_flight.min(most)).at_most(most);
        Self { process, demand, writer: Writer::default(), slots: vec![Slot::Idle] }
    }

    fn call(&self, kind: Kind) -> BoxFuture<'_, Result<()>> {
        let call = self.process.link.call(Message::new(kind));
        Box::pin(async move { call.await?.check() })
    }

    /// Sends the frame of a batch. Returns `None` if the batch has no frame, for example because it is too large for one.
    fn deliver(&mut self, slot: u32, batch: &Batch) -> Result<Option<Call>> {
        let link = &self.process.link;
        link.check()?;
        let written = self.writer.write(&link.memory, slot + 1, batch).map_err(|error| {
            Error::from(error).context("cannot send a batch to the process of the plugin")
        })?;
        // Parts of the batch may have frames, or single events of it have none.
        let Ok(len) = written else { return Ok(None) };
        let deliver = Message { slot: slot + 1, a: len, ..Message::new(Kind::DELIVER) };
        Ok(Some(link.call(deliver)))
    }

    /// Begins a delivery.
    fn begin(&mut self, slot: u32, batch: &Batch) -> Result<Step> {
        if let Some(call) = self.deliver(slot, batch)? {
            let (events, left, exceptions) = (batch.len(), VecDeque::new(), Vec::new());
            return Ok(Step::Sent(Delivery { call, events, before: 0, left, exceptions }));
        }
        let left = frame::divide(batch.clone(), Medium::Process, MAX_LEN).collect();
        self.next(slot, 0, left, Vec::new())
    }

    /// Sends the next frame of a delivery, if any.
    fn next(
        &mut self,
        slot: u32,
        mut before: usize,
        mut left: VecDeque<Result<Batch, Refused>>,
        mut exceptions: Vec<Exception>,
    ) -> Result<Step> {
        while let Some(part) = left.pop_front() {
            let refused = match part {
                Ok(part) => match self.deliver(slot, &part)? {
                    Some(call) => {
                        let events = part.len();
                        return Ok(Step::Sent(Delivery { call, events, before, left, exceptions }));
                    }
                    None => Error::internal("a part of a batch has no frame"),
                },
                Err(Refused { error, .. }) => Error::bad_data(format_args!(
                    "the event cannot be sent to the process of the plugin: {error}"
                )),
            };
            exceptions.push(Exception { events: before..before + 1, error: refused });
            before += 1;
        }
        Ok(Step::Delivered(exceptions))
    }

    /// Handles the answer to a frame.
    fn answered(&mut self, slot: u32, delivery: Delivery, answer: &Message) -> Result<Step> {
        let Delivery { events, before, left, exceptions: mut all, .. } = delivery;
        answer.check()?;
        if !answer.body.is_empty() {
            let ranges: Vec<RangeBody> = answer.read()?;
            let ranges = ranges.into_iter().map(|it| ExceptionRange {
                start: it.start,
                len: it.len,
                error: it.error.into(),
            });
            let reply = DeliverReply { exceptions: ranges.collect() };
            let found = exceptions(reply, events)?;
            all.extend(found.into_iter().map(|Exception { events, error }| Exception {
                events: before + events.start..before + events.end,
                error,
            }));
        }
        self.next(slot, before + events, left, all)
    }
}

/// Progress of a delivery.
enum Step {
    Sent(Delivery),
    Delivered(Vec<Exception>),
}

impl DynSink for IsolatedSink {
    fn demand(&mut self) -> Demand {
        self.demand
    }

    fn on_grant(&mut self, grant: Grant) {
        self.slots.clear();
        self.slots.resize_with(grant.in_flight.clamp(1, MOST_IN_FLIGHT), Slot::default);
        let grant = DeliveriesBody::from(Deliveries::from(grant));
        self.process.link.send(&Message::new(Kind::GRANT).json(&grant));
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let (Some(state), Ok(number)) = (self.slots.get_mut(slot), u32::try_from(slot)) else {
            return Poll::Ready(Err(Error::internal(format_args!("there is no slot {slot}"))));
        };
        let mut state = mem::take(state);
        loop {
            let step = match state {
                Slot::Idle => self.begin(number, batch),
                Slot::GivenUp(mut call) => match Pin::new(&mut call).poll(context) {
                    Poll::Ready(_) => self.begin(number, batch),
                    Poll::Pending => {
                        self.slots[slot] = Slot::GivenUp(call);
                        return Poll::Pending;
                    }
                },
                Slot::Delivering(mut delivery) => {
                    match Pin::new(&mut delivery.call).poll(context) {
                        Poll::Ready(answer) => {
                            answer.and_then(|answer| self.answered(number, delivery, &answer))
                        }
                        Poll::Pending => {
                            self.slots[slot] = Slot::Delivering(delivery);
                            return Poll::Pending;
                        }
                    }
                }
            };
            match step {
                Ok(Step::Sent(delivery)) => state = Slot::Delivering(delivery),
                Ok(Step::Delivered(exceptions)) => return Poll::Ready(Ok(exceptions)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn give_up(&mut self, slot: usize) {
        let (Some(state), Ok(number)) = (self.slots.get_mut(slot), u32::try_from(slot)) else {
            return;
        };
        *state = match mem::take(state) {
            Slot::Delivering(Delivery { call, .. }) => {
                let cancel = Message { slot: number + 1, ..Message::new(Kind::GIVE_UP) };
                self.process.link.send(&cancel);
                Slot::GivenUp(call)
            }
            other => other,
        };
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        self.call(Kind::TICK)
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        self.call(Kind::FLUSH)
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        self.call(Kind::CLOSE_SINK)
    }
}

impl Drop for IsolatedSink {
    fn drop(&mut self) {
        self.process.link.send(&Message::new(Kind::DROP_SINK));
    }
}
