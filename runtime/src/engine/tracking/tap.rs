//! Listeners at the ports of a component, which receive a sample of its events without slowing it down.

use std::io;
use std::sync::{
    Mutex, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use serde::Serialize;
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{Batch, ValueRef, lock};

use crate::clock::Clock;

/// The port through which events enter a component.
pub(crate) const IN: &str = "in";
/// Maximum number of events of one batch that a listener receives.
const EVENTS_PER_BATCH: usize = 10;
/// Average time between two events that a listener receives. A listener receives at most 100 events a second, apart
/// from bursts of at most [`EVENTS_PER_BATCH`] events.
const INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of events that wait for a listener. Further events are skipped.
const QUEUE_EVENTS: usize = 100;
/// Maximum size of an event for a listener, in bytes of JSON.
const MAX_JSON_BYTES: usize = 64 << 10;

/// The listeners at the ports of one component.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    /// `true` if there may be a listener. Without a listener, only this flag is read for a batch.
    is_open: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
    /// Events that no listener received because another task held the lock.
    skipped: AtomicU64,
}

#[derive(Debug)]
struct Listener {
    port: String,
    events: Sender<String>,
    /// Events that this listener missed since the last event that it received.
    missed: u64,
    /// Time from which the listener may receive another event.
    due: Instant,
    clock: Clock,
}

/// An event in the form that listeners receive as JSON.
#[derive(Serialize)]
struct Sample<'b> {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Payload<'b>>,
    /// Size of the event in bytes if the event is too large for a listener. `event` is `None` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ValueRef<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'b str>,
    #[serde(skip_serializing_if = "is_zero")]
    missed: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Payload<'b> {
    Value(ValueRef<'b>),
    Text(std::borrow::Cow<'b, str>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(missed: &u64) -> bool {
    *missed == 0
}

impl Tap {
    /// Sends a sample of a batch that passes `port` to the listeners of the port. Without listeners, the call is one
    /// relaxed load.
    #[inline]
    pub(crate) fn pass(&self, port: &str, batch: &Batch) {
        if self.is_open.load(Ordering::Relaxed) {
            self.sample(port, batch);
        }
    }

    /// Adds a listener at `port`. The receiver yields JSON objects, one for each event. Secrets in the events are not
    /// redacted.
    pub(crate) fn listen(&self, port: &str, clock: Clock) -> Receiver<String> {
        let (events, receiver) = async_channel::bounded(QUEUE_EVENTS);
        let (port, due) = (port.to_owned(), clock.now());
        let mut listeners = lock(&self.listeners);
        // `sample` removes closed listeners too, but only while events pass.
        listeners.retain(|listener| !listener.events.is_closed());
        listeners.push(Listener { port, events, missed: 0, due, clock });
        self.is_open.store(true, Ordering::Relaxed);
        receiver
    }

    #[cold]
    fn sample(&self, port: &str, batch: &Batch) {
        let mut listeners = match self.listeners.try_lock() {
            Ok(listeners) => listeners,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
                return;
            }
        };
        listeners.retain(|listener| !listener.events.is_closed());
        if listeners.is_empty() {
            self.is_open.store(false, Ordering::Relaxed);
            return;
        }
        let skipped = self.skipped.swap(0, Ordering::Relaxed);
        for listener in listeners.iter_mut().filter(|listener| listener.port == port) {
            listener.missed += skipped;
            listener.sample(batch);
        }
    }
}

impl Listener {
    /// Sends at most [`EVENTS_PER_BATCH`] events, evenly spread over the batch. Sends none before the time `due`.
    fn sample(&mut self, batch: &Batch) {
        let (all, now) = (batch.events(), self.clock.now());
        let step =
            if now < self.due { usize::MAX } else { all.len().div_ceil(EVENTS_PER_BATCH).max(1) };
        for (position, event) in all.iter().enumerate() {
            let is_sampled = step != usize::MAX && position % step == 0;
            if !is_sampled || !self.send(batch, event) {
                self.missed += 1;
                continue;
            }
            (self.missed, self.due) = (0, self.due.max(now) + INTERVAL);
        }
    }

    /// Sends an event unless the queue of the listener is full. Returns whether the event was sent.
    fn send(&self, batch: &Batch, event: &Event) -> bool {
        if self.events.is_full() {
            return false;
        }
        let payload = match batch.value(event) {
            Some(value) => Payload::Value(value),
            None => Payload::Text(String::from_utf8_lossy(batch.raw(event).unwrap_or_default())),
        };
        let (metadata, origin) = (batch.metadata(event), batch.origin(event));
        let whole =
            Sample { event: Some(payload), bytes: None, metadata, origin, missed: self.missed };
        let size = batch.size_of(event);
        let json = bounded(&whole).or_else(|| {
            let bytes = Some(size);
            bounded(&Sample { event: None, bytes, metadata: None, origin: None, ..whole })
        });
        json.is_some_and(|json| self.events.try_send(json).is_ok())
    }
}

/// Returns a sample as JSON, or `None` if the JSON is longer than [`MAX_JSON_BYTES`].
fn bounded(sample: &Sample<'_>) -> Option<String> {
    let mut text = Bounded(Vec::new());
    serde_json::to_writer(&mut text, sample).ok()?;
    String::from_utf8(text.0).ok()
}

/// A writer that returns an error instead of exceeding [`MAX_JSON_BYTES`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_JSON_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::{batch::HostBatch, literal};
    use tremor_pdk::Batch;

    use super::{Clock, Duration, INTERVAL, MAX_JSON_BYTES, QUEUE_EVENTS, Tap};

    fn batch(events: usize) -> Batch {
        let mut batch = Batch::new();
        (0..events).for_each(|n| batch.push(&(n as u64)).unwrap());
        batch
    }

    #[test]
    fn listener_gets_a_sample_of_its_port_and_the_missed_count() {
        let (tap, clock) = (Tap::default(), Clock::simulated(0));
        tap.pass("out", &batch(1));
        let receiver = tap.listen("out", clock.clone());
        tap.pass("err", &batch(1));
        tap.pass("out", &batch(100));
        // The ten events of the last batch use up the rate of the next 100 ms.
        clock.advance((10 * INTERVAL).saturating_sub(Duration::from_nanos(1)));
        tap.pass("out", &batch(7));
        let events: Vec<String> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        assert_eq!(events.len(), 10);
        assert_eq!(events[0], r#"{"event":0}"#);
        assert_eq!(events[1], r#"{"event":10,"missed":9}"#);
        clock.advance(Duration::from_nanos(1));
        tap.pass("out", &batch(1));
        assert_eq!(receiver.try_recv().unwrap(), r#"{"event":0,"missed":16}"#);
    }

    #[test]
    fn slow_listener_does_not_block_and_closed_one_is_removed() {
        let (tap, clock) = (Tap::default(), Clock::simulated(0));
        let receiver = tap.listen("out", clock.clone());
        for _ in 0..1_000 {
            clock.advance(10 * INTERVAL);
            tap.pass("out", &batch(20));
        }
        assert_eq!(receiver.len(), QUEUE_EVENTS);
        drop(receiver);
        let next = tap.listen("in", clock);
        assert_eq!(tap.listeners.lock().unwrap().len(), 1, "the closed listener is removed");
        drop(next);
        tap.pass("out", &batch(1));
        assert!(!tap.is_open.load(std::sync::atomic::Ordering::Relaxed));
    }

    #[test]
    fn event_with_large_value_or_metadata_is_sent_as_its_size() {
        let (tap, mut batch) = (Tap::default(), Batch::new());
        let receiver = tap.listen("out", Clock::simulated(0));
        batch.push(&literal!({ "long": "x".repeat(MAX_JSON_BYTES + 1) })).unwrap();
        batch.push_message(b"raw \xff");
        batch.push_message(b"short");
        let long = "\u{1}".repeat(MAX_JSON_BYTES / 4);
        *HostBatch::metadata_mut(&mut batch, 2) = literal!({ "long": long });
        tap.pass("out", &batch);
        assert!(receiver.try_recv().unwrap().starts_with(r#"{"bytes":"#));
        assert_eq!(receiver.try_recv().unwrap(), "{\"event\":\"raw \u{fffd}\"}");
        assert_eq!(receiver.try_recv().unwrap(), r#"{"bytes":5}"#);
        assert!(receiver.try_recv().is_err());
    }
}
