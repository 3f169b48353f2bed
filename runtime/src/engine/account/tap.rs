//! Somebody listens to the events at a port of a component: gets a sample of them, and slows nothing.

use std::io;
use std::sync::{
    Mutex, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use serde::Serialize;
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{Batch, ValueRef};

use crate::lock::lock;

/// The port that events come in by.
pub(crate) const IN: &str = "in";
/// How many events are shown of one batch at most.
const OF_A_BATCH: usize = 10;
/// How long it takes until another event may be shown: 100 a second.
const PACE: Duration = Duration::from_millis(10);
/// How many wait for the listener at most: what is more goes by.
const WAITING: usize = 100;
/// How long an event is at most that is shown, in bytes of JSON.
const SHOWN: usize = 64 << 10;

/// Where listeners are told of events, at the ports of one component.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    /// Whether there may be a listener: the only thing that is looked at while there is none.
    is_open: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
    /// Events that went by while another batch was shown.
    went_by: AtomicU64,
}

#[derive(Debug)]
struct Listener {
    port: String,
    events: Sender<String>,
    /// Events that went by since the last that was shown.
    missed: u64,
    /// When the next may be shown.
    due: Instant,
}

/// An event as it is shown.
#[derive(Serialize)]
struct Shown<'b> {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Payload<'b>>,
    /// The size of one that is too large to be shown.
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
    /// Events pass a port. While nobody listens, this is one relaxed load.
    #[inline]
    pub(crate) fn pass(&self, port: &str, batch: &Batch) {
        if self.is_open.load(Ordering::Relaxed) {
            self.show(port, batch);
        }
    }

    /// From now on, what passes a port is told: as JSON, one event after the other. Values that nobody is
    /// to see are still in it.
    pub(crate) fn listen(&self, port: &str) -> Receiver<String> {
        let (events, told) = async_channel::bounded(WAITING);
        let (port, due) = (port.to_owned(), Instant::now());
        let mut listeners = lock(&self.listeners);
        // Where no event passes any more, nobody else forgets those that are gone.
        listeners.retain(|listener| !listener.events.is_closed());
        listeners.push(Listener { port, events, missed: 0, due });
        self.is_open.store(true, Ordering::Relaxed);
        told
    }

    #[cold]
    fn show(&self, port: &str, batch: &Batch) {
        let mut listeners = match self.listeners.try_lock() {
            Ok(listeners) => listeners,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.went_by.fetch_add(batch.len() as u64, Ordering::Relaxed);
                return;
            }
        };
        listeners.retain(|listener| !listener.events.is_closed());
        if listeners.is_empty() {
            self.is_open.store(false, Ordering::Relaxed);
            return;
        }
        let (now, went_by) = (Instant::now(), self.went_by.swap(0, Ordering::Relaxed));
        for listener in listeners.iter_mut().filter(|listener| listener.port == port) {
            listener.missed += went_by;
            listener.show(batch, now);
        }
    }
}

impl Listener {
    /// Tells of some events of a batch, as far apart as they are many.
    fn show(&mut self, batch: &Batch, now: Instant) {
        let all = batch.events();
        let step = if now < self.due { usize::MAX } else { all.len().div_ceil(OF_A_BATCH).max(1) };
        for (position, event) in all.iter().enumerate() {
            let is_shown = step != usize::MAX && position % step == 0;
            if !is_shown || !self.tell(batch, event) {
                self.missed += 1;
                continue;
            }
            (self.missed, self.due) = (0, self.due.max(now) + PACE);
        }
    }

    /// Whether the listener takes it.
    fn tell(&self, batch: &Batch, event: &Event) -> bool {
        if self.events.is_full() {
            return false;
        }
        let payload = match batch.value(event) {
            Some(value) => Payload::Value(value),
            None => Payload::Text(String::from_utf8_lossy(batch.raw(event).unwrap_or_default())),
        };
        let (metadata, origin) = (batch.metadata(event), batch.origin(event));
        let whole =
            Shown { event: Some(payload), bytes: None, metadata, origin, missed: self.missed };
        let size = batch.size_of(event);
        let json = bounded(&whole).or_else(|| {
            let bytes = Some(size);
            bounded(&Shown { event: None, bytes, metadata: None, origin: None, ..whole })
        });
        json.is_some_and(|json| self.events.try_send(json).is_ok())
    }
}

/// An event as JSON; none where that is too long.
fn bounded(shown: &Shown<'_>) -> Option<String> {
    let mut text = Bounded(Vec::new());
    serde_json::to_writer(&mut text, shown).ok()?;
    String::from_utf8(text.0).ok()
}

/// Takes so many bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SHOWN {
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

    use super::{SHOWN, Tap, WAITING};

    fn batch(events: usize) -> Batch {
        let mut batch = Batch::new();
        (0..events).for_each(|n| batch.push(&(n as u64)).unwrap());
        batch
    }

    #[test]
    fn a_listener_gets_a_sample_of_its_port_and_the_count_of_the_others() {
        let tap = Tap::default();
        tap.pass("out", &batch(1));
        let told = tap.listen("out");
        tap.pass("err", &batch(1));
        tap.pass("out", &batch(100));
        // It has had its share for a tenth of a second.
        tap.pass("out", &batch(7));
        let events: Vec<String> = std::iter::from_fn(|| told.try_recv().ok()).collect();
        assert_eq!(events.len(), 10);
        assert_eq!(events[0], r#"{"event":0}"#);
        assert_eq!(events[1], r#"{"event":10,"missed":9}"#);
    }

    #[test]
    fn a_listener_that_does_not_listen_holds_nothing_up() {
        let tap = Tap::default();
        let told = tap.listen("out");
        for _ in 0..1_000 {
            tap.listeners.lock().unwrap()[0].due = std::time::Instant::now();
            tap.pass("out", &batch(20));
        }
        assert_eq!(told.len(), WAITING);
        drop(told);
        let next = tap.listen("in");
        assert_eq!(tap.listeners.lock().unwrap().len(), 1, "the other one is forgotten");
        drop(next);
        tap.pass("out", &batch(1));
        assert!(!tap.is_open.load(std::sync::atomic::Ordering::Relaxed));
    }

    #[test]
    fn what_is_large_is_not_shown_whatever_makes_it_large() {
        let (tap, mut batch) = (Tap::default(), Batch::new());
        let told = tap.listen("out");
        batch.push(&literal!({ "long": "x".repeat(SHOWN + 1) })).unwrap();
        batch.push_message(b"raw \xff");
        batch.push_message(b"short");
        *HostBatch::metadata_mut(&mut batch, 2) = literal!({ "long": "\u{1}".repeat(SHOWN / 4) });
        tap.pass("out", &batch);
        assert!(told.try_recv().unwrap().starts_with(r#"{"bytes":"#));
        assert_eq!(told.try_recv().unwrap(), "{\"event\":\"raw \u{fffd}\"}");
        assert_eq!(told.try_recv().unwrap(), r#"{"bytes":5}"#);
        assert!(told.try_recv().is_err());
    }
}
