//! Tests of the source and the sink of a queue on disk, with a log on the file system.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Acks, Batch, Grant, Pull};

use super::{DiskQueue, QueueSink, QueueSource, opened::OpenQueue};
use crate::{
    clock::Clock,
    components,
    dynamic::{DynSink, DynSource},
    engine::{
        control::{Control, Phase},
        handle::connection::Connection,
        tracking::stored::{Stored, StoredCounters},
    },
    executor::block_on,
    memory::MemoryBudget,
};

/// A queue in a temporary folder, which can be opened several times.
struct Folder {
    temporary: tempfile::TempDir,
    control: Arc<Control>,
    counters: Arc<StoredCounters>,
}

impl Folder {
    fn new() -> Self {
        let control = Arc::new(Control::new(Clock::simulated(1_000_000_000)));
        Self { temporary: tempfile::tempdir().unwrap(), control, counters: Arc::default() }
    }

    fn open(&self) -> Arc<OpenQueue> {
        let queue = DiskQueue {
            name: "out/queue".into(),
            path: self.temporary.path().join("queue"),
            max_bytes: 1 << 20,
            owner: "flow/out".to_owned(),
            control: self.control.clone(),
            counters: self.counters.clone(),
            flush_request: Arc::default(),
            account: MemoryBudget::default().flow("flow").account("out"),
        };
        Arc::new(queue.open().unwrap())
    }

    fn stored(&self) -> (u64, u64) {
        let Stored { at_start, now } = self.counters.stored();
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
    let mut sink = QueueSink::new(queue.clone(), Arc::new(Connection::default()));
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
}

impl Pulls {
    fn of(queue: &Arc<OpenQueue>) -> Self {
        let mut source = QueueSource::new(queue.clone());
        let acks = source.acks().unwrap().unwrap();
        Self { source, acks, count: 0 }
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
        Poll::Ready(batch.events().iter().map(value).collect())
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
