//! A connected connector for tests, with methods that call it as the runtime does.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::connector::Hook;

use super::TestHost;
use crate::{
    Acks, Batch, BatchId, BatchSize, Connector, Delivery, Demand, Error, Grant, Halves, Pull,
    Result, Undelivered,
    driver::ConnectorDriver,
    dynamic::{DynConnector, DynSink, DynSource},
};

/// A connected and started connector with its source and its sink, which are called through the same drivers as in the
/// runtime.
pub struct Connection {
    host: TestHost,
    connector: Box<dyn DynConnector>,
    source: Option<Box<dyn DynSource>>,
    acks: Option<Box<dyn Acks>>,
    sink: Option<Box<dyn DynSink>>,
    /// `true` if the sink answers several deliveries together, so that it has to be flushed.
    gathers: bool,
    /// Number of pulls that returned events.
    pulls: u64,
}

impl Connection {
    pub(super) fn open<C: Connector>(host: TestHost, connector: C) -> Result<Self> {
        let wanted = connector.sides();
        let mut connector: Box<dyn DynConnector> = Box::new(ConnectorDriver::new(connector));
        let Halves { mut source, mut sink } = host.block_on(connector.connect(wanted))?;
        let demand = sink.as_mut().map_or_else(Demand::new, |sink| sink.demand());
        sink.iter_mut().for_each(|sink| sink.on_grant(granted(demand)));
        let gathers = demand.gathers;
        host.block_on(connector.hook(Hook::START))?;
        let acks = source.as_mut().map_or(Ok(None), |source| source.acks())?;
        Ok(Self { host, connector, source, acks, sink, gathers, pulls: 0 })
    }

    /// Returns the source.
    ///
    /// # Errors
    /// Returns an error of the kind unsupported if the connector has no source, as do all methods that need a source.
    pub fn source(&mut self) -> Result<&mut dyn DynSource> {
        Ok(&mut **self.source.as_mut().ok_or_else(|| Error::unsupported("there is no source"))?)
    }

    /// Returns the receiver of acknowledgements.
    ///
    /// # Errors
    /// Returns an error of the kind unsupported if the source has no receiver.
    pub fn acks(&mut self) -> Result<&mut dyn Acks> {
        let none = || Error::unsupported("the source has no `acks`");
        Ok(&mut **self.acks.as_mut().ok_or_else(none)?)
    }

    /// Returns the sink.
    ///
    /// # Errors
    /// Returns an error of the kind unsupported if the connector has no sink, as do all methods that need a sink.
    pub fn sink(&mut self) -> Result<&mut dyn DynSink> {
        Ok(&mut **self.sink.as_mut().ok_or_else(|| Error::unsupported("there is no sink"))?)
    }

    /// Creates a batch for the next pull. After a pull without an event, the next pull has the same number.
    fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        batch.set_pull(self.pulls + 1);
        batch
    }

    /// Pulls once, and returns the result with the batch.
    ///
    /// # Errors
    /// Returns the errors of the source.
    pub fn pull(&mut self) -> Result<(Pull, Batch)> {
        let (host, mut batch) = (self.host.clone(), self.batch());
        let source = self.source()?;
        let pull = host.block_on(poll_fn(|context| source.poll_pull(context, &mut batch)));
        self.pulls += u64::from(!batch.is_empty());
        Ok((pull?, batch))
    }

    /// Pulls until the source has finished, and returns all batches with events. After [`Pull::Idle`], the clock of the
    /// host advances by its duration.
    ///
    /// # Errors
    /// Returns the errors of the source.
    pub fn pull_all(&mut self) -> Result<Vec<Batch>> {
        let mut batches = Vec::new();
        loop {
            let (pull, batch) = self.pull()?;
            if !batch.is_empty() {
                batches.push(batch);
            }
            match pull {
                Pull::Events => {}
                Pull::Idle(time) => self.host.advance(time),
                Pull::Finished => return Ok(batches),
            }
        }
    }

    /// Starts a pull and cancels it when it waits for the first time, as the runtime does for a pause.
    ///
    /// Returns the events that the pull had added to the batch. The result of the pull is `None` if it was cancelled,
    /// and `Some` if it did not wait.
    ///
    /// # Errors
    /// Returns the errors of the source.
    pub fn pull_and_give_up(&mut self) -> Result<(Option<Pull>, Batch)> {
        let mut batch = self.batch();
        let source = self.source()?;
        let mut context = Context::from_waker(Waker::noop());
        let pull = match source.poll_pull(&mut context, &mut batch) {
            Poll::Ready(pull) => Some(pull?),
            Poll::Pending => None,
        };
        source.give_up(&mut batch);
        self.pulls += u64::from(!batch.is_empty());
        Ok((pull, batch))
    }

    /// Delivers a batch. A sink that gathers deliveries is flushed if it does not answer at once.
    ///
    /// # Errors
    /// Returns the errors of the sink.
    pub fn deliver(&mut self, batch: &Batch) -> Delivery {
        let answers = self.deliver_together(std::slice::from_ref(batch))?;
        answers.into_iter().next().unwrap_or(Ok(()))
    }

    /// Delivers batches at the same time, and returns the answer to each delivery. A sink that gathers deliveries is
    /// flushed if a delivery has no answer after all deliveries have begun.
    ///
    /// # Errors
    /// Returns an error of the kind unsupported if the connector has no sink, and the errors of a flush. Batches beyond
    /// the number of deliveries that the sink was granted are answered with an error of the kind internal.
    pub fn deliver_together(&mut self, batches: &[Batch]) -> Result<Vec<Delivery>> {
        let (host, gathers) = (self.host.clone(), self.gathers);
        let sink = self.sink()?;
        let mut batches = batches.to_vec();
        let mut answers: Vec<Option<Delivery>> = vec![None; batches.len()];
        let mut poll = |sink: &mut dyn DynSink, context: &mut Context<'_>| {
            for (slot, (batch, answer)) in batches.iter_mut().zip(&mut answers).enumerate() {
                if answer.is_none()
                    && let Poll::Ready(polled) = sink.poll_deliver(context, slot, batch)
                {
                    *answer = Some(match polled {
                        Ok(exceptions) if exceptions.is_empty() => Ok(()),
                        Ok(exceptions) => {
                            Err(Undelivered::Some { exceptions, batch: BatchId::of(batch) })
                        }
                        Err(error) => Err(Undelivered::All(error)),
                    });
                }
            }
            if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        };
        let is_answered = poll(sink, &mut Context::from_waker(Waker::noop())).is_ready();
        if gathers && !is_answered {
            host.block_on(sink.flush())?;
        }
        if !is_answered {
            host.block_on(poll_fn(|context| poll(sink, context)));
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Calls [`Sink::on_tick`](crate::Sink::on_tick) once.
    ///
    /// # Errors
    /// Returns the errors of the sink.
    pub fn tick(&mut self) -> Result<()> {
        let host = self.host.clone();
        host.block_on(self.sink()?.on_tick())
    }

    /// Closes the sink: see [`Sink::close`](crate::Sink::close).
    ///
    /// # Errors
    /// Returns the errors of the sink.
    pub fn close_sink(&mut self) -> Result<()> {
        let host = self.host.clone();
        host.block_on(self.sink()?.close())
    }

    /// Closes the source, the sink and the connector, as the runtime does after a drain.
    ///
    /// # Errors
    /// Returns the errors of the connector, its source and its sink.
    pub fn stop(mut self) -> Result<()> {
        if let Some(source) = &mut self.source {
            self.host.block_on(source.close())?;
        }
        if self.sink.is_some() {
            self.close_sink()?;
        }
        self.source = None;
        self.sink = None;
        self.host.block_on(self.connector.hook(Hook::CLOSE))
    }
}

/// Returns the limits of a sink in a flow that sets neither `in_flight` nor `ordered` nor `batch`.
fn granted(demand: Demand) -> Grant {
    let Demand { in_flight, most_in_flight, ordered, max_events, max_bytes, linger, .. } = demand;
    let is_batched = max_events.is_some() || max_bytes.is_some() || linger.is_some();
    let batch = is_batched.then(|| BatchSize {
        max_events: max_events.unwrap_or(1_000),
        max_bytes: max_bytes.unwrap_or(1 << 20),
        linger: linger.unwrap_or(Duration::from_millis(50)),
    });
    Grant::new(in_flight.clamp(1, most_in_flight.max(1)), ordered, batch)
}
