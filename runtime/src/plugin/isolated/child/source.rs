//! The task that calls the source of a connection.

use std::{
    future::{Future, poll_fn},
    ops::Range,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tremor_abi::batch::{HostBatch, Limit, Pool};
use tremor_pdk::{Acks, Batch, Error, Exception, Pull, Result};

use super::{Commands, Shared};
use crate::{
    dynamic::DynSource,
    plugin::isolated::{
        body::RangeBody,
        memory::{PULLS, Writer},
        message::{Kind, Message, flags},
    },
};

/// A message for the source.
pub(super) enum ToSource {
    /// Begins a pull. `limit` has the number of events in its upper half, and the number of bytes in the lower one.
    Pull {
        call: u32,
        pull: u64,
        limit: u64,
    },
    /// Cancels the pull.
    GiveUp,
    Ack(u64),
    /// Pull, and positions and numbers of failed events.
    Fail(u64, Vec<[u32; 2]>),
    Undecodable(u64, Vec<RangeBody>),
    Breaker(bool),
    Close(u32),
}

enum Step {
    Received(Option<ToSource>),
    Pulled(Result<Pull>),
}

/// Calls the source until the runtime drops it.
pub(super) async fn run(
    shared: Arc<Shared>,
    source: Box<dyn DynSource>,
    acks: Option<Box<dyn Acks>>,
    commands: Commands<ToSource>,
) {
    let mut task = SourceTask {
        shared,
        source,
        acks,
        pull: None,
        batch: Batch::new(),
        pool: Pool::new(2),
        writer: Writer::default(),
        fault: None,
    };
    loop {
        let step = {
            let mut received = pin!(commands.next());
            poll_fn(|context| {
                if let Poll::Ready(received) = received.as_mut().poll(context) {
                    return Poll::Ready(Step::Received(received));
                }
                if task.pull.is_none() {
                    return Poll::Pending;
                }
                task.source.poll_pull(context, &mut task.batch).map(Step::Pulled)
            })
            .await
        };
        match step {
            Step::Received(None) => return,
            Step::Received(Some(ToSource::Close(call))) => {
                let closed = commands.while_needed(task.source.close()).await;
                let Some(outcome) = closed else { return };
                task.shared.send(&Message::outcome(Kind::CLOSE_SOURCE, call, &outcome));
            }
            Step::Received(Some(message)) => task.handle(message),
            Step::Pulled(outcome) => task.answer(outcome),
        }
    }
}

struct SourceTask {
    shared: Arc<Shared>,
    source: Box<dyn DynSource>,
    acks: Option<Box<dyn Acks>>,
    /// Number of the call of the current pull.
    pull: Option<u32>,
    batch: Batch,
    pool: Pool,
    writer: Writer,
    /// Error of an acknowledgement, which is the outcome of the current or the next pull.
    fault: Option<Error>,
}

impl SourceTask {
    fn handle(&mut self, message: ToSource) {
        let outcome = match message {
            ToSource::Pull { call, pull, limit } => {
                self.pull = Some(call);
                self.batch = Batch::from_pool(&self.pool);
                self.batch.set_pull(pull);
                let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(1);
                self.batch.set_limit(Limit { events: half(limit >> 32), bytes: half(limit) });
                self.fault.take().map_or(Ok(()), Err)
            }
            ToSource::GiveUp => {
                if self.pull.is_some() {
                    self.source.give_up(&mut self.batch);
                    let outcome = if self.batch.is_empty() {
                        Pull::Idle(Duration::ZERO)
                    } else {
                        Pull::Events
                    };
                    self.answer(Ok(outcome));
                }
                Ok(())
            }
            ToSource::Ack(pull) => self.acks.as_mut().map_or(Ok(()), |acks| acks.ack(pull)),
            ToSource::Fail(pull, events) => self.acks.as_mut().map_or(Ok(()), |acks| {
                let events: Vec<_> = events.into_iter().map(range).collect();
                acks.fail(pull, &events)
            }),
            ToSource::Undecodable(pull, messages) => self.acks.as_mut().map_or(Ok(()), |acks| {
                let exception = |RangeBody { start, len, error }| Exception {
                    events: range([start, len]),
                    error: error.into(),
                };
                let messages: Vec<_> = messages.into_iter().map(exception).collect();
                acks.undecodable(pull, &messages)
            }),
            ToSource::Breaker(open) => {
                // A pull is cancelled before any other call of the source.
                self.handle(ToSource::GiveUp);
                self.source.on_circuit_breaker(open)
            }
            // Handled by the caller, because it waits.
            ToSource::Close(_) => Ok(()),
        };
        let Err(error) = outcome else { return };
        if self.pull.is_some() {
            self.source.give_up(&mut self.batch);
            self.answer(Err(error));
        } else {
            self.fault.get_or_insert(error);
        }
    }

    /// Answers the current pull with the events in the batch.
    fn answer(&mut self, outcome: Result<Pull>) {
        let Some(call) = self.pull.take() else { return };
        let batch = std::mem::take(&mut self.batch);
        let mut answer = Message { slot: PULLS, ..Message::answer(Kind::PULL, call) };
        let outcome = if batch.is_empty() {
            outcome
        } else {
            match self.writer.write(&self.shared.memory, PULLS, &batch) {
                Ok(Ok(len)) => {
                    answer.a = len;
                    outcome
                }
                Ok(Err(error)) => Err(Error::internal(format_args!(
                    "the source returned a batch of {} events and {} bytes in one pull: {error}",
                    batch.len(),
                    batch.bytes().len()
                ))),
                Err(error) => Err(Error::from(error).context("cannot send events to the runtime")),
            }
        };
        match outcome {
            Ok(Pull::Events) => {}
            Ok(Pull::Idle(wait)) => {
                answer.flags |= flags::IDLE;
                answer.b = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            }
            Ok(Pull::Finished) => answer.flags |= flags::FINISHED,
            Err(error) => answer = answer.failed(&error),
        }
        self.shared.send(&answer);
    }
}

fn range([start, len]: [u32; 2]) -> Range<usize> {
    start as usize..(start as usize).saturating_add(len as usize)
}
