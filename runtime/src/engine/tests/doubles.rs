//! What stands in for connectors, operators and codecs.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{
    Acks, Batch, Buffered, Error, Exception, InFlight, Operator, Output, Pull, Result,
};

use crate::codec::{BatchDecoder, Decoded};
use crate::dynamic::{BoxFuture, DynSink, DynSource};

pub(super) type Shared<T> = Arc<Mutex<T>>;
/// Numbers of pulls, and whether they were acknowledged.
pub(super) type Heard = Shared<Vec<(u64, bool)>>;

/// The values of a batch as JSON.
pub(super) fn values(batch: &Batch) -> Vec<String> {
    batch.events().iter().filter_map(|event| Some(batch.value(event)?.to_string())).collect()
}

/// A source that brings these messages, a list a pull, and ends.
#[derive(Clone)]
pub(super) struct Pulls {
    pub(super) left: VecDeque<Vec<String>>,
    pub(super) heard: Heard,
    /// Where it does not end before this is set.
    pub(super) until: Option<Arc<AtomicBool>>,
    /// Whether what it brings are parts of one stream, and no messages.
    pub(super) fragments: bool,
    /// Whether it cannot take acknowledgements.
    pub(super) deaf: bool,
    /// Number of events in flight from which it is not pulled; zero is any number.
    pub(super) most_in_flight: usize,
    /// Whether a sink was said to be down, each time.
    pub(super) breaker: Shared<Vec<bool>>,
    /// Whether it has ended, or was given up while it waited.
    pub(super) ended: Arc<AtomicBool>,
    /// What its first pulls fail with.
    pub(super) errors: VecDeque<Error>,
    /// How many pulls it had heard of when it was closed, each time.
    pub(super) closed: Shared<Vec<usize>>,
}

impl Pulls {
    pub(super) fn of(messages: &[&[&str]]) -> Self {
        let text = |messages: &&[&str]| messages.iter().map(ToString::to_string).collect();
        Self {
            left: messages.iter().map(text).collect(),
            heard: Heard::default(),
            until: None,
            fragments: false,
            deaf: false,
            most_in_flight: 0,
            breaker: Shared::default(),
            ended: Arc::default(),
            errors: VecDeque::new(),
            closed: Shared::default(),
        }
    }

    /// Numbers, three a pull, beginning with 0.
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
        let Self { heard, deaf, most_in_flight, .. } = self.clone();
        Ok(Some(Box::new(Hears { heard, deaf, most_in_flight })))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        let heard = self.heard.lock().map(|heard| heard.len()).map_err(Error::internal);
        let closed = self.closed.clone();
        Box::pin(async move {
            closed.lock().map_err(Error::internal)?.push(heard?);
            Ok(())
        })
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.breaker.lock().map_err(Error::internal)?.push(open);
        Ok(())
    }
}

/// Writes down how pulls end.
#[derive(Clone, Default)]
pub(super) struct Hears {
    pub(super) heard: Heard,
    pub(super) deaf: bool,
    pub(super) most_in_flight: usize,
}

impl Acks for Hears {
    fn most_in_flight(&self) -> InFlight {
        match self.most_in_flight {
            0 => InFlight::UNLIMITED,
            most => InFlight { events: most as u64, ..InFlight::UNLIMITED },
        }
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        if self.deaf {
            return Err(Error::connection_lost("deaf"));
        }
        self.heard.lock().map_err(Error::internal)?.push((pull, true));
        Ok(())
    }

    fn fail(&mut self, pull: u64, _: &[Range<usize>]) -> Result<()> {
        self.heard.lock().map_err(Error::internal)?.push((pull, false));
        Ok(())
    }
}

/// Events of a delivery that a sink does not take.
pub(super) fn exception(events: Range<usize>, error: Error) -> Exception {
    Exception { events, error }
}

/// What a sink does with deliveries: what is here, and then it takes everything.
#[derive(Default)]
pub(super) struct Takes {
    pub(super) next: VecDeque<Result<Vec<Exception>>>,
    pub(super) delivered: Vec<Vec<String>>,
}

impl Takes {
    pub(super) fn of(next: impl IntoIterator<Item = Result<Vec<Exception>>>) -> Shared<Self> {
        let next = next.into_iter().collect();
        Arc::new(Mutex::new(Self { next, delivered: Vec::new() }))
    }
}

/// A sink of one connection.
#[derive(Clone)]
pub(super) struct Taking(pub(super) Shared<Takes>);

impl DynSink for Taking {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let mut takes = self.0.lock().map_err(Error::internal)?;
        let delivery = takes.next.pop_front().unwrap_or_else(|| Ok(Vec::new()))?;
        let refused =
            |position: usize| delivery.iter().any(|exception| exception.events.contains(&position));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let messages = batch.events().iter().enumerate();
        let messages = messages.filter(|(position, _)| !refused(*position));
        let messages = messages.filter_map(|(_, event)| batch.raw(event).map(text)).collect();
        takes.delivered.push(messages);
        Poll::Ready(Ok(delivery))
    }
}

/// A sink that answers to nothing before it may.
pub(super) struct Held {
    pub(super) taking: Taking,
    pub(super) may: Arc<AtomicBool>,
}

impl DynSink for Held {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.may.load(Ordering::Relaxed) {
            return self.taking.poll_deliver(context, slot, batch);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts the batches that it decodes.
pub(super) struct Counted {
    pub(super) decoder: Box<dyn BatchDecoder>,
    pub(super) count: Arc<AtomicUsize>,
}

impl BatchDecoder for Counted {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.decoder.decode_batch(batch)
    }
}

/// An operator that writes down what it sees, in order.
pub(super) struct Sees(pub(super) Shared<Vec<String>>);

impl Operator for Sees {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.0.lock().map_err(Error::internal)?.extend(values(batch));
        Ok(())
    }
}

/// An operator that emits five events at a time.
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

/// An operator that wants to be told the time as soon as it has seen a batch, and says when it was.
pub(super) struct Waits {
    pub(super) due: Option<u64>,
    pub(super) told: Arc<AtomicBool>,
}

impl Operator for Waits {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.due = batch.events().last().map(|event| event.ingest_ns);
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        self.due
    }

    fn on_time(&mut self, _: u64, output: &mut Output) -> Result<()> {
        self.due = None;
        self.told.store(true, Ordering::Relaxed);
        output.create(&"told")?;
        Ok(())
    }
}
