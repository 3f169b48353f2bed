//! Tests of the batches that the source takes instead of reading their records.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{collections::BTreeMap, future::poll_fn, io, sync::Arc, task::Poll, time::Duration};

use fastrand::Rng;
use tremor_abi::{
    batch::{HostBatch, Payload, Pool},
    literal,
};
use tremor_log::{DiskFile, Layer, Layered, SystemDisk};
use tremor_pdk::{Batch, Exception};

use super::{Folder, Pulls, batch, fill, large, sink};
use crate::{
    components,
    dynamic::{DynSink, DynSource},
    engine::disk_queue::{
        QueueSink, QueueSource,
        opened::{HandedOut, OpenQueue},
    },
    executor::block_on,
    flow::WhenFull,
    memory::MemoryBudget,
};

/// A disk that counts reads, and that is never synced, because no test loses what was not.
#[derive(Default)]
struct Reads(AtomicUsize);

impl Reads {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Layer for Reads {
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        file.read_at(buffer, offset)
    }

    fn sync(&self, _: &dyn DiskFile) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a folder for up to 64 MiB, on a disk that counts reads.
fn counted() -> (Folder, Arc<Reads>) {
    let reads = Arc::<Reads>::default();
    let disk = Arc::new(Layered { disk: Arc::new(SystemDisk), layer: reads.clone() });
    (Folder { disk, max_bytes: 64 << 20, ..Folder::new() }, reads)
}

/// Delivers a batch, and waits until it is durable.
fn deliver(sink: &mut QueueSink, mut batch: Batch) -> Vec<Exception> {
    block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch))).unwrap()
}

/// Returns a source that has read everything, so that further batches are retained for it.
fn idle(queue: &Arc<OpenQueue>) -> Pulls {
    let mut pulls = Pulls::of(queue);
    assert!(pulls.waits());
    pulls
}

impl Pulls {
    /// Polls a pull until it has events or waits for something that does not happen by itself.
    fn try_next(&mut self) -> Option<Vec<String>> {
        block_on(poll_fn(|context| match self.poll(context) {
            Poll::Ready(values) => Poll::Ready(Some(values)),
            Poll::Pending if self.source.is_reading() => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        }))
    }
}

#[test]
fn source_that_keeps_up_reads_no_record() {
    let (folder, reads) = counted();
    let queue = folder.open();
    let (mut pulls, mut sink) = (idle(&queue), sink(&queue));
    let before = reads.count();
    for number in 0..50 {
        let text = number.to_string();
        assert_eq!(deliver(&mut sink, batch(&[&text])).len(), 0);
        assert_eq!(pulls.next(), [text]);
        pulls.acks.ack(pulls.count).unwrap();
    }
    assert_eq!((reads.count(), folder.stored()), (before, (0, 0)));
    assert!(pulls.waits());
}

/// Returns a batch with random messages, edits, metadata, origins, streams and sources.
fn random_batch(random: &mut Rng) -> Batch {
    const MESSAGES: [&str; 6] = [
        r#"{ "a": [1, 2.5, "x", null], "b": { "c": true } }"#,
        r#""text with an escape: \u00e9\n""#,
        r#"{"a":1,"a":2}"#,
        "[1e3, -7, 18446744073709551615]",
        r#"{"a":
            1}"#,
        "null",
    ];
    let mut batch = Batch::new();
    let is_raw = random.u8(..4) == 0;
    for _ in 0..random.usize(1..9) {
        let mut stream = batch.stream(random.u64(..3));
        let message = MESSAGES[random.usize(..MESSAGES.len())].as_bytes();
        match random.u8(..9) {
            0 if is_raw => stream.end(),
            1..4 if is_raw => stream.push_fragment(message),
            _ => stream.push_message(message),
        }
    }
    if !is_raw {
        let codec = components::codec("json", &serde_json::Value::Null).unwrap();
        assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
    }
    if random.bool() {
        batch.set_origin_from(random.usize(..batch.len()), "an origin");
    }
    batch.for_each_mut(|mut event| {
        if random.u8(..3) == 0 {
            event.set_metadata(literal!({ "key": random.u32(..9), "list": ["a", 1.5] }));
        }
        if random.u8(..3) == 0
            && let Some(value) = event.value_mut()
        {
            *value = literal!({ "edited": random.i32(..), "text": "of a value" });
        }
        if random.u8(..3) == 0 {
            event.forget_original();
        }
        event.set_ingest_ns(random.u64(1..9));
    });
    let source = random.u32(..3);
    batch.events_mut().iter_mut().enumerate().for_each(|(position, event)| {
        event.source = source;
        event.set_position(position);
    });
    if random.bool() && batch.len() > 1 {
        let kept = random.usize(1..=batch.len());
        let mut all: Vec<_> = (0..batch.len()).collect();
        random.shuffle(&mut all);
        batch = batch.pick(&all[..kept]);
    }
    batch
}

/// Describes all of a batch that other components may see.
fn seen(batch: &Batch) -> Vec<String> {
    let mut messages = Vec::new();
    batch.clone().encode_with(&Pool::new(1), |payload, _| {
        messages.push(match payload {
            Payload::Document { bytes, unedited: Some((format, span)), .. } => {
                Some((format, bytes[span.range()].to_vec()))
            }
            _ => None,
        });
        Ok(())
    });
    let events = batch.events().iter().map(|event| {
        let flags = [event.is_fragment(), event.is_stream_end(), event.is_stream_aborted()];
        let numbers = (event.source, event.stream, event.pull, event.ingest_ns, event.position());
        let value = batch.value(event).map(|it| it.to_string());
        let metadata = batch.metadata(event).map(|it| it.to_string());
        let origin = batch.origin(event);
        let (raw, original) = (batch.raw(event), batch.original(event));
        format!("{flags:?} {numbers:?} {value:?} {metadata:?} {origin:?} {raw:?} {original:?}")
    });
    let mut seen: Vec<_> = events.collect();
    seen.push(format!("{} {:?} {messages:?}", batch.pull(), batch.limit()));
    seen
}

/// Pulls the next batch.
fn pull(source: &mut QueueSource, number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.set_pull(number);
    block_on(poll_fn(|context| source.poll_pull(context, &mut batch))).unwrap();
    batch
}

#[test]
fn retained_batches_equal_their_records() {
    let mut handed_on = 0;
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let (folder, reads) = counted();
        let folder = Folder { identify: random.bool(), ..folder };
        let queue = folder.open();
        let (mut pulls, mut sink) = (idle(&queue), sink(&queue));
        let before = reads.count();
        let (mut batches, mut refused) = (Vec::new(), 0);
        for _ in 0..random.usize(1..6) {
            refused += deliver(&mut sink, random_batch(&mut random)).len();
            let stored = folder.stored().1;
            let mut count = batches.iter().map(|it: &Batch| it.len() as u64).sum::<u64>();
            while count < stored {
                batches.push(pull(&mut pulls.source, batches.len() as u64 + 1));
                count += batches[batches.len() - 1].len() as u64;
            }
        }
        // The records of a batch with an end of a stream, which is refused, contain parts of the batch.
        if refused == 0 {
            assert_eq!(reads.count(), before, "{seed}");
            handed_on += 1;
        }
        queue.begin_connection();
        let mut source = QueueSource::new(queue.clone());
        for (at, batch) in batches.iter().enumerate() {
            let read = pull(&mut source, at as u64 + 1);
            assert_eq!(seen(batch), seen(&read), "{seed}, record {at}");
        }
        assert!(reads.count() > before || batches.is_empty());
    }
    assert!((20..60).contains(&handed_on), "{handed_on}");
}

/// State of the random test: which records were handed out.
struct Expected {
    appended: u64,
    next: u64,
    /// Numbers of the events that have no answer, by their pull.
    open: BTreeMap<u64, u64>,
    /// Numbers of the events that are to be delivered again.
    again: Vec<u64>,
}

impl Expected {
    /// Records the pull `pull` of an event. Another one is expected only if it is the next one or delivered again.
    fn pulled(&mut self, pull: u64, values: &[String], seed: u64) {
        let number: u64 = values[0].parse().unwrap();
        match self.again.iter().position(|it| *it == number) {
            Some(at) => drop(self.again.remove(at)),
            None => {
                assert_eq!(number, self.next, "{seed}: {values:?}");
                self.next += 1;
            }
        }
        self.open.insert(pull, number);
    }
}

#[test]
fn records_are_handed_out_once_however_they_are_obtained() {
    for seed in 0..40 {
        let mut random = Rng::with_seed(seed);
        let (folder, _) = counted();
        let queue = folder.open();
        let (mut pulls, mut sink) = (Pulls::of(&queue), sink(&queue));
        let mut expected =
            Expected { appended: 0, next: 0, open: BTreeMap::new(), again: Vec::new() };
        for _ in 0..300 {
            let open: Vec<u64> = expected.open.keys().copied().collect();
            match random.u8(..16) {
                0..5 => {
                    let burst = if random.u8(..20) == 0 { 100 } else { 2 };
                    for _ in 0..random.u64(..=burst) {
                        deliver(&mut sink, batch(&[&expected.appended.to_string()]));
                        expected.appended += 1;
                    }
                }
                5..10 => {
                    for _ in 0..random.usize(..8) {
                        if let Some(values) = pulls.try_next() {
                            expected.pulled(pulls.count, &values, seed);
                        }
                    }
                }
                10..13 if !open.is_empty() => {
                    let pull = open[random.usize(..open.len())];
                    pulls.acks.ack(pull).unwrap();
                    expected.open.remove(&pull);
                }
                13 if !open.is_empty() => {
                    let pull = open[random.usize(..open.len())];
                    pulls.acks.fail_unknown(pull, 0..1).unwrap();
                    expected.again.extend(expected.open.remove(&pull));
                    folder.control.clock().advance(Duration::from_mins(1));
                }
                14 => queue.release_unused(),
                15 if random.u8(..8) == 0 => {
                    queue.begin_connection();
                    pulls = Pulls::of(&queue);
                    // The new source hands out everything without an answer, in order.
                    expected.again.extend(std::mem::take(&mut expected.open).into_values());
                }
                _ => {}
            }
        }
        folder.control.clock().advance(Duration::from_mins(1));
        while let Some(values) = pulls.try_next() {
            expected.pulled(pulls.count, &values, seed);
            pulls.acks.ack(pulls.count).unwrap();
            expected.open.remove(&pulls.count);
        }
        let Expected { appended, next, again, .. } = &expected;
        assert_eq!((next, &again[..]), (appended, &[][..]), "{seed}");
        assert_eq!(folder.stored().1, expected.open.len() as u64, "{seed}");
    }
}

#[test]
fn retained_batches_are_bounded_and_released_when_unused() {
    let (folder, reads) = counted();
    let queue = folder.open();
    let mut pulls = idle(&queue);
    fill(&queue, 0..600);
    let used = queue.account.used();
    assert!((8 << 20..18 << 20).contains(&used), "{used}");
    queue.release_unused();
    assert!(queue.account.used() > 8 << 20, "the source may take the batches");
    queue.release_unused();
    assert!(queue.account.used() < 2 << 20, "{}", queue.account.used());
    let before = reads.count();
    let expected: Vec<_> = (0..600).collect();
    assert_eq!(super::drain(&mut pulls), expected);
    assert!(reads.count() > before);
}

/// The source reads what follows the retained batches, and then keeps up again.
#[test]
fn source_that_lags_reads_and_then_keeps_up_again() {
    let (folder, reads) = counted();
    let queue = folder.open();
    let mut pulls = idle(&queue);
    let before = reads.count();
    fill(&queue, 0..600);
    let numbers = super::drain(&mut pulls);
    assert_eq!(numbers, (0..600).collect::<Vec<_>>());
    assert!(reads.count() > before);
    let before = reads.count();
    fill(&queue, 600..610);
    assert_eq!(super::drain(&mut pulls), (600..610).collect::<Vec<_>>());
    assert_eq!(reads.count(), before);
}

#[test]
fn no_batch_is_retained_while_memory_is_short() {
    let (folder, reads) = counted();
    let folder = Folder { memory: MemoryBudget::new(1), ..folder };
    let queue = folder.open();
    let mut pulls = idle(&queue);
    let before = reads.count();
    fill(&queue, 0..3);
    assert!(!queue.recent.has_next(0));
    assert_eq!(super::drain(&mut pulls), [0, 1, 2]);
    assert!(reads.count() > before);
}

#[test]
fn dropped_records_release_their_batches() {
    let folder = Folder::with(WhenFull::DropOldest);
    let queue = folder.open();
    let mut pulls = idle(&queue);
    fill(&queue, 0..60);
    let stored = folder.stored().1;
    let most = usize::try_from(stored + 4).unwrap() * 3 * large(0).len();
    assert!(queue.account.used() < most, "{} for {stored}", queue.account.used());
    let first = 60 - usize::try_from(stored).unwrap();
    assert_eq!(super::drain(&mut pulls), (first..60).collect::<Vec<_>>());
}

/// After a crash, more of what was settled would be delivered again than the log promises.
#[test]
fn retained_batches_wait_while_too_many_ranges_are_settled() {
    let folder = Folder::new();
    let queue = folder.open();
    let (mut pulls, mut sink) = (idle(&queue), sink(&queue));
    let mut number = 10_000;
    while !queue.log.is_at_limit_of_ranges() {
        queue.log.settle(number);
        number += 2;
    }
    deliver(&mut sink, batch(&["1"]));
    assert!(pulls.waits());
    queue.settle(&HandedOut::new(10_001, 0));
    assert_eq!(pulls.next(), ["1"]);
}

/// The record of a small part would retain all of a large batch.
#[test]
fn batch_of_few_events_of_a_large_one_is_read() {
    let (folder, reads) = counted();
    let queue = folder.open();
    let (mut pulls, mut sink) = (idle(&queue), sink(&queue));
    let before = reads.count();
    let (small, other) = ("1".to_owned(), large(0));
    deliver(&mut sink, batch(&[&small, &other]).part(0..1));
    assert_eq!(pulls.next(), ["1"]);
    assert!(reads.count() > before);
}
