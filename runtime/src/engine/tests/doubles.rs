//! Test doubles of connectors, operators and codecs.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{
    Acks, Batch, Buffered, Error, Exception, InFlight, Operator, Output, Pull, Result, Verdict,
};

use super::peer::Peer;
use crate::dynamic::{BoxFuture, DynSink, DynSource};

pub(super) type Shared<T> = Arc<Mutex<T>>;
/// Pulls whose end was reported to a source. The first value is the number of the pull, and the second one is `true` if
/// the pull was acknowledged.
pub(super) type Reports = Shared<Vec<(u64, bool)>>;

/// Returns the values of a batch as JSON.
pub(super) fn values(batch: &Batch) -> Vec<String> {
    batch.events().iter().filter_map(|event| Some(batch.value(event)?.to_string())).collect()
}

/// A source that reads one list of messages per pull, and then ends.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)] // independent properties
pub(super) struct Pulls {
    pub(super) left: VecDeque<Vec<String>>,
    pub(super) reports: Reports,
    /// Flag that has to be `true` before the source ends; `None` if the source ends after its last pull.
    pub(super) until: Option<Arc<AtomicBool>>,
    /// `true` if the source reads fragments of one stream instead of messages.
    pub(super) fragments: bool,
    /// `true` if the source adds values, and after each the end of its stream.
    pub(super) ends: bool,
    /// `true` if the source returns an error for every acknowledgement.
    pub(super) rejects_acks: bool,
    /// Maximum number of events in flight; 0 for no limit.
    pub(super) most_in_flight: usize,
    /// States of the circuit breaker that were reported to the source.
    pub(super) breaker: Shared<Vec<bool>>,
    /// `true` once the source has ended, or its last pull was canceled.
    pub(super) ended: Arc<AtomicBool>,
    /// Errors that the first pulls return.
    pub(super) errors: VecDeque<Error>,
    /// Number of pulls that had been reported at each close of the source.
    pub(super) closed: Shared<Vec<usize>>,
    /// Time for which the source is idle after its first pull.
    pub(super) rest: Option<Duration>,
    pub(super) has_pulled: bool,
}

impl Pulls {
    pub(super) fn of(messages: &[&[&str]]) -> Self {
        let text = |messages: &&[&str]| messages.iter().map(ToString::to_string).collect();
        Self {
            left: messages.iter().map(text).collect(),
            reports: Reports::default(),
            until: None,
            fragments: false,
            ends: false,
            rejects_acks: false,
            most_in_flight: 0,
            breaker: Shared::default(),
            ended: Arc::default(),
            errors: VecDeque::new(),
            closed: Shared::default(),
            rest: None,
            has_pulled: false,
        }
    }

    /// Creates a source that reads the numbers from 0, three per pull.
    pub(super) fn numbers(pulls: usize) -> Self {
        let three = |pull: usize| (3 * pull..3 * pull + 3).map(|number| number.to_string());
        let left = (0..pulls).map(|pull| three(pull).collect()).collect();
        Self { left, ..Self::of(&[]) }
    }
}

impl DynSource for Pulls {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if let Some(error) = self.errors.pop_front() {
            return Poll::Ready(Err(error));
        }
        if std::mem::replace(&mut self.has_pulled, true)
            && let Some(rest) = self.rest.take()
        {
            return Poll::Ready(Ok(Pull::Idle(rest)));
        }
        let Some(messages) = self.left.pop_front() else {
            let waits = self.until.as_ref().is_some_and(|until| !until.load(Ordering::Relaxed));
            if waits {
                return Poll::Pending;
            }
            self.ended.store(true, Ordering::Relaxed);
            return Poll::Ready(Ok(Pull::Finished));
        };
        for message in &messages {
            if self.fragments {
                batch.stream(0).push_fragment(message.as_bytes());
            } else if self.ends {
                batch.stream(0).push(message)?;
                batch.stream(0).end();
            } else {
                batch.push_message(message.as_bytes());
            }
        }
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _batch: &mut Batch) {
        if self.left.is_empty() && self.until.is_some() {
            self.ended.store(true, Ordering::Relaxed);
        }
    }

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        let Self { reports, rejects_acks, most_in_flight, .. } = self.clone();
        Ok(Some(Box::new(RecordingAcks { reports, rejects_acks, most_in_flight })))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        let reports = self.reports.lock().map(|reports| reports.len()).map_err(Error::internal);
        let closed = self.closed.clone();
        Box::pin(async move {
            closed.lock().map_err(Error::internal)?.push(reports?);
            Ok(())
        })
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.breaker.lock().map_err(Error::internal)?.push(open);
        Ok(())
    }
}

/// A receiver that records how pulls end.
#[derive(Clone, Default)]
pub(super) struct RecordingAcks {
    pub(super) reports: Reports,
    pub(super) rejects_acks: bool,
    pub(super) most_in_flight: usize,
}

impl Acks for RecordingAcks {
    fn most_in_flight(&self) -> InFlight {
        match self.most_in_flight {
            0 => InFlight::UNLIMITED,
            most => InFlight { events: most, ..InFlight::UNLIMITED },
        }
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        if self.rejects_acks {
            return Err(Error::connection_lost("no acknowledgements"));
        }
        self.reports.lock().map_err(Error::internal)?.push((pull, true));
        Ok(())
    }

    fn fail(&mut self, pull: u64, _: &[Range<usize>]) -> Result<()> {
        self.reports.lock().map_err(Error::internal)?.push((pull, false));
        Ok(())
    }
}

/// Creates an exception for events of a delivery.
pub(super) fn exception(events: Range<usize>, error: Error) -> Exception {
    Exception { events, error }
}

/// The answers of a sink to its first deliveries, and the deliveries that the sink has accepted. After these answers,
/// the sink accepts all deliveries.
#[derive(Default)]
pub(super) struct SinkScript {
    pub(super) next: VecDeque<Result<Vec<Exception>>>,
    pub(super) delivered: Vec<Vec<String>>,
}

impl SinkScript {
    pub(super) fn of(next: impl IntoIterator<Item = Result<Vec<Exception>>>) -> Shared<Self> {
        let next = next.into_iter().collect();
        Arc::new(Mutex::new(Self { next, delivered: Vec::new() }))
    }
}

/// A sink that gives the answers of its script.
#[derive(Clone)]
pub(super) struct ScriptedSink(pub(super) Shared<SinkScript>);

impl ScriptedSink {
    /// Creates a connector that is only this sink.
    pub(super) fn peer(&self) -> Arc<Peer> {
        let sink = self.clone();
        Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(sink.clone())))))
    }
}

impl DynSink for ScriptedSink {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let mut script = self.0.lock().map_err(Error::internal)?;
        let delivery = script.next.pop_front().unwrap_or_else(|| Ok(Vec::new()))?;
        let refused =
            |position: usize| delivery.iter().any(|exception| exception.events.contains(&position));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let messages = batch.events().iter().enumerate();
        let messages = messages.filter(|(position, _)| !refused(*position));
        let messages = messages.filter_map(|(_, event)| batch.raw(event).map(text)).collect();
        script.delivered.push(messages);
        Poll::Ready(Ok(delivery))
    }
}

/// A sink that answers no delivery before `is_open` is set.
#[derive(Clone)]
pub(super) struct Gated {
    pub(super) scripted: ScriptedSink,
    pub(super) is_open: Arc<AtomicBool>,
}

impl DynSink for Gated {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.is_open.load(Ordering::Relaxed) {
            return self.scripted.poll_deliver(context, slot, batch);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An operator that records the values of all events in order.
pub(super) struct Records(pub(super) Shared<Vec<String>>);

impl Operator for Records {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.0.lock().map_err(Error::internal)?.extend(values(batch));
        Ok(())
    }
}

/// An operator that emits batches of five events.
#[derive(Default)]
pub(super) struct Fives {
    events: Batch,
    buffered: Buffered,
}

impl Operator for Fives {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.events.append(self.buffered.absorb_all(batch, output));
        while self.events.len() >= 5 {
            let first = self.events.part(0..5);
            self.buffered.take(5).emit_events(output, Output::OUT, first);
            self.events = self.events.part(5..self.events.len());
        }
        Ok(())
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        self.buffered.emit_events(output, Output::OUT, std::mem::take(&mut self.events));
        Ok(())
    }
}

/// An operator whose timer is due as soon as it has processed a batch. It emits an event when the timer runs.
pub(super) struct Timed {
    pub(super) due: Option<u64>,
    pub(super) was_called: Arc<AtomicBool>,
}

impl Operator for Timed {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.due = batch.events().last().map(|event| event.ingest_ns);
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        self.due
    }

    fn on_time(&mut self, _: u64, output: &mut Output) -> Result<()> {
        self.due = None;
        self.was_called.store(true, Ordering::Relaxed);
        output.create(&"timer")?;
        Ok(())
    }
}

/// An operator that rejects events without a value.
pub(super) struct NeedsValue;

impl Operator for NeedsValue {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| match event.value() {
            Some(_) => Verdict::Keep,
            None => Verdict::Reject(Error::bad_data("the event has no value")),
        });
        Ok(())
    }
}
