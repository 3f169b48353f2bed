//! Tests of the source and the sink of a queue on disk, with a log on the file system.

mod closing;
mod recent;

use std::{
    future::poll_fn,
    io,
    ops::Range,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_log::{Disk, DiskFile, Layer, Layered, SystemDisk};
use tremor_pdk::{Acks, Batch, ErrorKind, Grant, Pull, lock};

use super::{DiskQueue, QueueSink, QueueSource, meter::Meter, opened::OpenQueue, opening::Opening};
use crate::{
    clock::Clock,
    components,
    dynamic::{DynSink, DynSource},
    engine::{
        control::{Control, Phase},
        tracking::{
            stats::Stats,
            stored::{Stored, StoredCounters},
        },
    },
    executor::block_on,
    flow::WhenFull,
    memory::MemoryBudget,
};

/// A queue in a temporary folder, which can be opened several times.
struct Folder {
    temporary: tempfile::TempDir,
    control: Arc<Control>,
    counters: Arc<StoredCounters>,
    stats: Arc<Stats>,
    when_full: WhenFull,
    identify: bool,
    disk: Arc<dyn Disk>,
    max_bytes: u64,
    memory: MemoryBudget,
}

impl Folder {
    fn new() -> Self {
        Self::with(WhenFull::Block)
    }

    fn with(when_full: WhenFull) -> Self {
        let control = Arc::new(Control::new(Clock::simulated(1_000_000_000)));
        let (counters, stats) = (Arc::default(), Arc::default());
        Self {
            temporary: tempfile::tempdir().unwrap(),
            control,
            counters,
            stats,
            when_full,
            identify: false,
            disk: Arc::new(SystemDisk),
            max_bytes: 1 << 20,
            memory: MemoryBudget::default(),
        }
    }

    fn queue(&self) -> DiskQueue {
        DiskQueue {
            name: "out/queue".into(),
            sink: "out".into(),
            identify: self.identify,
            when_full: self.when_full,
            stats: self.stats.clone(),
            path: self.temporary.path().join("queue"),
            max_bytes: self.max_bytes,
            owner: "flow/out".to_owned(),
            disk: self.disk.clone(),
            control: self.control.clone(),
            counters: self.counters.clone(),
            flush_request: Arc::default(),
            account: self.memory.flow("flow").account("out"),
        }
    }

    fn open(&self) -> Arc<OpenQueue> {
        let meter = Meter::new(self.control.clock().clone(), self.counters.clone());
        Arc::new(self.queue().open(&Arc::new(meter)).unwrap())
    }

    fn stored(&self) -> (u64, u64) {
        let Stored { at_start, now, .. } = self.counters.stored();
        (at_start, now)
    }
}

/// Returns a batch with an event for each message.
fn batch(messages: &[&str]) -> Batch {
    let codec = components::codec("json", &serde_json::Value::Null).unwrap();
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message.as_bytes()));
    assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
    batch
}

fn sink(queue: &Arc<OpenQueue>) -> QueueSink {
    let mut sink = QueueSink::new(queue.clone());
    sink.on_grant(Grant::new(8, false, None));
    sink
}

/// Delivers batches, and waits until all of them are durable.
fn append(queue: &Arc<OpenQueue>, batches: &[&[&str]]) {
    let mut sink = sink(queue);
    for messages in batches {
        let mut batch = batch(messages);
        let answer = block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch)));
        assert_eq!(answer.unwrap().len(), 0);
    }
}

/// A source, and the number of its pulls.
struct Pulls {
    source: QueueSource,
    acks: Box<dyn Acks>,
    count: u64,
    /// The first event that was pulled last.
    last: String,
    /// Metadata of the events that were pulled last.
    metadata: Vec<Option<String>>,
}

impl Pulls {
    fn of(queue: &Arc<OpenQueue>) -> Self {
        let mut source = QueueSource::new(queue.clone());
        let acks = source.acks().unwrap().unwrap();
        Self { source, acks, count: 0, last: String::new(), metadata: Vec::new() }
    }

    /// Polls a pull until it has events or ends.
    fn next(&mut self) -> Vec<String> {
        block_on(poll_fn(|context| self.poll(context)))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Vec<String>> {
        let mut batch = Batch::new();
        batch.set_pull(self.count + 1);
        let Poll::Ready(pull) = self.source.poll_pull(context, &mut batch) else {
            return Poll::Pending;
        };
        if pull.unwrap() == Pull::Finished {
            return Poll::Ready(Vec::new());
        }
        self.count += 1;
        assert_eq!(batch.pull(), self.count);
        let value = |event| batch.value(event).unwrap().to_string();
        let values: Vec<_> = batch.events().iter().map(value).collect();
        self.last.clone_from(&values[0]);
        self.metadata =
            batch.iter().map(|it| it.metadata().map(|metadata| metadata.to_string())).collect();
        Poll::Ready(values)
    }

    /// Returns whether a pull waits for something that does not happen by itself.
    fn waits(&mut self) -> bool {
        block_on(poll_fn(|context| match self.poll(context) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending if self.source.is_reading() => Poll::Pending,
            Poll::Pending => Poll::Ready(true),
        }))
    }
}

#[test]
fn records_are_handed_out_in_order_and_settled_ones_are_gone() {
    let folder = Folder::new();
    let queue = folder.open();
    append(&queue, &[&["1", "2"], &["3"], &["4"]]);
    assert_eq!(folder.stored(), (0, 4));
    let mut pulls = Pulls::of(&queue);
    assert_eq!([pulls.next(), pulls.next(), pulls.next()].concat(), ["1", "2", "3", "4"]);
    pulls.acks.ack(1).unwrap();
    pulls.acks.ack(3).unwrap();
    assert_eq!(folder.stored(), (0, 1));
    drop((pulls, queue));
    let queue = folder.open();
    assert_eq!(folder.counters.stored().at_start, 1);
    assert_eq!(Pulls::of(&queue).next(), ["3"]);
}

#[test]
fn source_finishes_once_input_has_ended_and_all_is_settled() {
    let folder = Folder::new();
    let queue = folder.open();
    append(&queue, &[&["1"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!(pulls.next(), ["1"]);
    block_on(sink(&queue).close()).unwrap();
    assert!(pulls.waits());
    pulls.acks.ack(1).unwrap();
    assert_eq!(pulls.next(), [""; 0]);
}

#[test]
fn record_without_an_answer_is_handed_out_again() {
    let folder = Folder::new();
    let queue = folder.open();
    append(&queue, &[&["1", "2"], &["3"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!([pulls.next(), pulls.next()].concat(), ["1", "2", "3"]);
    pulls.acks.fail_unknown(1, 0..2).unwrap();
    folder.control.clock().advance(Duration::from_secs(1));
    assert_eq!(pulls.next(), ["1", "2"]);
    pulls.acks.ack(2).unwrap();
    pulls.acks.ack(3).unwrap();
    assert_eq!(folder.stored(), (0, 0));
    assert_eq!(folder.counters.stored().redelivered, 2);
}

/// The next run delivers it.
#[test]
fn record_without_an_answer_stays_stored_in_a_drain() {
    let folder = Folder::new();
    let queue = folder.open();
    append(&queue, &[&["1"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!(pulls.next(), ["1"]);
    folder.control.advance(Phase::Draining);
    pulls.acks.fail_unknown(1, 0..1).unwrap();
    folder.control.clock().advance(Duration::from_secs(100));
    assert!(pulls.waits());
    assert_eq!(folder.stored(), (0, 1));
}

#[test]
fn first_record_of_a_run_waits_until_older_ones_are_settled() {
    let folder = Folder::new();
    append(&folder.open(), &[&["1"], &["2"]]);
    let queue = folder.open();
    append(&queue, &[&["3"], &["4"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!([pulls.next(), pulls.next()].concat(), ["1", "2"]);
    assert!(pulls.waits());
    pulls.acks.ack(2).unwrap();
    assert!(pulls.waits());
    pulls.acks.ack(1).unwrap();
    assert_eq!([pulls.next(), pulls.next()].concat(), ["3", "4"]);
}

#[test]
fn full_queue_waits_and_a_drain_exceeds_its_limit() {
    let folder = Folder::new();
    let queue = folder.open();
    let mut sink = sink(&queue);
    let text = format!("\"{}\"", "x".repeat(40_000));
    let mut context = Context::from_waker(Waker::noop());
    let mut all: Vec<Batch> = (0..8).map(|_| batch(&[&text])).collect();
    // The log accepts up to 4 MiB that wait for the disk, besides those for which it has space.
    let mut count = 0;
    while !queue.log.status().is_full {
        let polled = sink.poll_deliver(&mut context, 0, &mut all[0]);
        count += usize::from(polled.is_ready());
        assert!(count < 1_000);
    }
    for (slot, batch) in all.iter_mut().enumerate().skip(1) {
        assert!(sink.poll_deliver(&mut context, slot, batch).is_pending());
    }
    folder.control.advance(Phase::Draining);
    for (slot, batch) in all.iter_mut().enumerate() {
        let answer = block_on(poll_fn(|context| sink.poll_deliver(context, slot, batch)));
        assert_eq!(answer.unwrap().len(), 0);
    }
    assert_eq!(folder.stored().1, count as u64 + 8);
}

/// Returns a message of 40 KB that begins with a number.
fn large(number: usize) -> String {
    format!("\"{number} {}\"", "x".repeat(40_000))
}

/// Returns the number at the beginning of a message that [`large`] has returned.
fn number(message: &str) -> usize {
    message.trim_start_matches('"').split(' ').next().unwrap().parse().unwrap()
}

/// Delivers large messages with these numbers, one after the other. Returns the numbers of those that the queue accepted.
fn fill(queue: &Arc<OpenQueue>, numbers: Range<usize>) -> Vec<usize> {
    let mut sink = sink(queue);
    let mut accepted = Vec::new();
    for number in numbers {
        let mut batch = batch(&[&large(number)]);
        let answer = block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch)));
        match &answer.unwrap()[..] {
            [] => accepted.push(number),
            [full] => assert_eq!((full.events.clone(), full.error.kind()), (0..1, ErrorKind::FULL)),
            more => unreachable!("{more:?}"),
        }
    }
    accepted
}

/// Returns the numbers of all messages of a queue that has no other events, and settles them.
fn drain(pulls: &mut Pulls) -> Vec<usize> {
    let mut numbers = Vec::new();
    while !pulls.waits() {
        pulls.acks.ack(pulls.count).unwrap();
        numbers.push(number(&pulls.last));
    }
    numbers
}

#[test]
fn full_queue_refuses_new_events_until_others_are_settled() {
    for when_full in [WhenFull::DropNewest, WhenFull::DeadLetter] {
        let folder = Folder::with(when_full);
        let queue = folder.open();
        let accepted = fill(&queue, 0..60);
        assert!((10..40).contains(&accepted.len()), "{accepted:?}");
        assert_eq!(folder.stored(), (0, accepted.len() as u64));
        assert_eq!(drain(&mut Pulls::of(&queue)), accepted);
        assert_eq!(fill(&queue, 60..61), [60]);
    }
}

#[test]
fn full_queue_drops_the_oldest_records_not_handed_out() {
    let folder = Folder::with(WhenFull::DropOldest);
    let queue = folder.open();
    fill(&queue, 0..2);
    let mut pulls = Pulls::of(&queue);
    assert_eq!(number(&pulls.next()[0]), 0);
    // The second one was read ahead, and is dropped nevertheless.
    assert_eq!(fill(&queue, 2..60), (2..60).collect::<Vec<_>>());
    let stored = folder.stored().1;
    assert_eq!(folder.stats.counts().dropped + stored, 60);
    pulls.acks.ack(1).unwrap();
    let kept = drain(&mut pulls);
    let first = 61 - usize::try_from(stored).unwrap();
    assert!((10..40).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept, (first..60).collect::<Vec<_>>());
    assert_eq!(folder.stored(), (0, 0));
}

/// The sink has all records, so no older ones can be dropped.
#[test]
fn full_queue_refuses_new_events_if_all_are_handed_out() {
    let folder = Folder::with(WhenFull::DropOldest);
    let queue = folder.open();
    let mut pulls = Pulls::of(&queue);
    let mut accepted = 0;
    for at in 0..60 {
        if !fill(&queue, at..at + 1).is_empty() {
            accepted += 1;
            pulls.next();
        }
    }
    assert!((10..40).contains(&accepted), "{accepted}");
    assert_eq!(folder.stored(), (0, accepted));
    assert_eq!(folder.stats.counts().dropped, 0, "the answer says what was refused");
}

#[test]
fn identity_is_the_same_in_each_delivery() {
    let folder = Folder { identify: true, ..Folder::new() };
    append(&folder.open(), &[&["1"], &["2", "3"]]);
    let mut all = Vec::new();
    for _ in 0..2 {
        let queue = folder.open();
        let mut pulls = Pulls::of(&queue);
        let mut next = || {
            pulls.next();
            pulls.metadata.clone()
        };
        all.push([next(), next()].concat());
        // Delivered again in the same run.
        pulls.acks.fail_unknown(2, 0..2).unwrap();
        folder.control.clock().advance(Duration::from_secs(1));
        pulls.next();
        assert_eq!(pulls.metadata, all[0][1..]);
    }
    assert_eq!(all[0], all[1]);
    let third: serde_json::Value = serde_json::from_str(all[0][2].as_ref().unwrap()).unwrap();
    let third = &third["queue"];
    assert_eq!((&third["record"], &third["position"]), (&2.into(), &1.into()));
    let id = format!("{}-2-1", third["folder"].as_str().unwrap());
    assert_eq!(third["id"], id.as_str());
    let queue = Folder::new();
    let queue = queue.open();
    append(&queue, &[&["1"]]);
    let mut pulls = Pulls::of(&queue);
    pulls.next();
    assert_eq!(pulls.metadata, [None]);
}

#[test]
fn condition_has_bytes_age_and_syncs() {
    let folder = Folder::new();
    append(&folder.open(), &[&["1"]]);
    let queue = folder.open();
    folder.control.clock().advance(Duration::from_secs(7));
    append(&queue, &[&["2"]]);
    queue.update_condition(&queue.log.status());
    let stored = folder.counters.stored();
    assert!(stored.bytes >= 1 << 17 && stored.syncs.counts.iter().sum::<u64>() > 2, "{stored:?}");
    // Events without a source have the time 0.
    assert_eq!((stored.damaged_parts, stored.oldest_seconds), (0, Some(8.0)));
}

/// Otherwise a batch that waits for capacity would be overtaken.
#[test]
fn records_have_the_order_of_the_deliveries() {
    let folder = Folder::new();
    let queue = folder.open();
    let mut sink = sink(&queue);
    let mut context = Context::from_waker(Waker::noop());
    let mut all: Vec<Batch> = (0..8).map(|it| batch(&[&it.to_string()])).collect();
    for (slot, batch) in all.iter_mut().enumerate() {
        let _ = sink.poll_deliver(&mut context, slot, batch);
    }
    for (slot, batch) in all.iter_mut().enumerate().rev() {
        let _ = block_on(poll_fn(|context| sink.poll_deliver(context, slot, batch)));
    }
    let mut pulls = Pulls::of(&queue);
    let values: Vec<String> = (0..8).flat_map(|_| pulls.next()).collect();
    assert_eq!(values, (0..8).map(|it| it.to_string()).collect::<Vec<_>>());
}

/// A disk whose first read tells that it has begun, and waits until the test lets it end.
struct Held {
    begins: Mutex<Option<Sender<()>>>,
    ends: Mutex<Receiver<()>>,
}

impl Layer for Held {
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(begins) = lock(&self.begins).take() {
            begins.send(()).unwrap();
            lock(&self.ends).recv().unwrap();
        }
        file.read_at(buffer, offset)
    }
}

/// The thread that drops records has read the record before.
#[test]
fn record_that_is_settled_meanwhile_is_not_dropped() {
    let folder = Folder::with(WhenFull::DropOldest);
    let queue = folder.open();
    append(&queue, &[&["1"], &["2"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!(pulls.next(), ["1"]);
    pulls.acks.ack(1).unwrap();
    let drops = |number| queue.drop_record(queue.connection(), number, 1);
    assert_eq!((drops(1), folder.stored()), (Some(false), (0, 1)));
    assert_eq!((drops(2), folder.stored()), (Some(true), (0, 0)));
}

/// The flow of before may need the folder.
#[test]
fn opening_that_nobody_awaits_releases_the_folder() {
    let folder = Folder::new();
    append(&folder.open(), &[&["1"]]);
    let ((begins, begun), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let held = Arc::new(Held { begins: Mutex::new(Some(begins)), ends: Mutex::new(ends) });
    let disk = Arc::new(Layered { disk: Arc::new(SystemDisk), layer: held });
    let opening = Opening::begin(&Arc::new(DiskQueue { disk, ..folder.queue() }));
    begun.recv().unwrap();
    drop(opening);
    end.send(()).unwrap();
    assert_eq!(Pulls::of(&folder.open()).next(), ["1"]);
}
