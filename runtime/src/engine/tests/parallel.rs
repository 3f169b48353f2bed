//! Sinks with several deliveries in flight.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    num::NonZeroU64,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Acks, Batch, Demand, Error, Exception, Pull, Result};

use super::{
    Harness, Reports, Setup, both,
    doubles::{RecordingAcks, Shared, exception},
    pulls, settled, sorted,
};
use crate::{
    dynamic::{BoxFuture, DynSink, DynSource},
    engine::{
        handle::connection::{Connection, End},
        sink::lane::Batching,
    },
    executor::alone::{self, pass, until_idle},
    flow,
};

/// A source that reads one message per pull. The message is the number of the pull, and its stream is the next one of
/// `left`.
struct Streams {
    /// Streams of the remaining pulls in reverse order.
    left: Vec<u64>,
    pulled: u64,
    reports: Reports,
}

impl DynSource for Streams {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let Some(stream) = self.left.pop() else { return Poll::Ready(Ok(Pull::Finished)) };
        self.pulled += 1;
        batch.stream(stream).push_message(self.pulled.to_string().as_bytes());
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(RecordingAcks {
            reports: self.reports.clone(),
            ..RecordingAcks::default()
        })))
    }
}

/// The state of a sink: its deliveries in flight, by slot, and the answers that a test has set.
#[derive(Default)]
pub(super) struct Desk {
    most: usize,
    /// Demand of the sink. If it gathers, the sink answers all deliveries when it is flushed.
    demand: Demand,
    /// The deliveries that were in flight at each flush.
    pub(super) flushed: Vec<Vec<String>>,
    in_flight: BTreeMap<usize, (String, Waker)>,
    answers: BTreeMap<usize, Result<Vec<Exception>>>,
    /// Deliveries that have begun, in order.
    pub(super) begun: Vec<String>,
    delivered: Vec<String>,
    given_up: usize,
    drained: bool,
}

impl Desk {
    /// Returns the state of a sink with this demand.
    pub(super) fn of(demand: Demand) -> Shared<Self> {
        Arc::new(Mutex::new(Self { demand, ..Self::default() }))
    }

    /// Returns the messages in flight, sorted.
    fn messages(&self) -> Vec<String> {
        let mut messages: Vec<_> = self.in_flight.values().map(|(it, _)| it.clone()).collect();
        messages.sort();
        messages
    }

    pub(super) fn answer(&mut self, message: &str, answer: Result<Vec<Exception>>) {
        let found = self.in_flight.iter().find(|(_, (it, _))| it == message);
        let (slot, (_, waker)) = found.expect("the message is in flight");
        waker.wake_by_ref();
        let slot = *slot;
        self.answers.insert(slot, answer);
    }
}

/// A sink that gives the answers that the test sets.
struct Answers(Shared<Desk>);

impl DynSink for Answers {
    fn demand(&mut self) -> Demand {
        let desk = self.0.lock().unwrap();
        desk.demand.at_most(desk.most)
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let desk = &mut *self.0.lock().unwrap();
        if let Some(answer) = desk.answers.remove(&slot) {
            let (message, _) = desk.in_flight.remove(&slot).unwrap();
            if answer.is_ok() {
                desk.delivered.push(message);
            }
            return Poll::Ready(answer);
        }
        let text = |event| String::from_utf8_lossy(batch.raw(event).unwrap()).into_owned();
        let message = batch.events().iter().map(text).collect::<String>();
        let known = desk.in_flight.insert(slot, (message.clone(), context.waker().clone()));
        if known.is_none() {
            desk.begun.push(message);
        }
        Poll::Pending
    }

    fn give_up(&mut self, slot: usize) {
        let desk = &mut *self.0.lock().unwrap();
        desk.in_flight.remove(&slot).expect("the delivery is in flight");
        desk.given_up += 1;
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        let mut desk = self.0.lock().unwrap();
        let messages = desk.messages();
        desk.flushed.push(messages.clone());
        if desk.demand.gathers {
            messages.iter().for_each(|message| desk.answer(message, Ok(Vec::new())));
        }
        Box::pin(async { Ok(()) })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        let mut desk = self.0.lock().unwrap();
        assert!(desk.in_flight.is_empty(), "the sink is closed after its last answer");
        desk.drained = true;
        Box::pin(async { Ok(()) })
    }
}

/// Waits until `begun` deliveries have begun and exactly `messages` are in flight.
pub(super) async fn until(desk: &Shared<Desk>, begun: usize, messages: &[&str]) {
    until_idle().await;
    let desk = desk.lock().unwrap();
    assert_eq!(
        (desk.begun.len(), desk.messages()),
        (begun, messages.iter().map(ToString::to_string).collect())
    );
}

/// Runs a source with these streams, a sink, and `work`, which sets the answers of the sink, at the same time.
/// `parallel` contains the number of slots, and `true` if streams are ordered. The sink is reconnected if its
/// connection is lost. Returns how the pulls ended.
pub(super) fn run(
    streams: &[u64],
    parallel: (usize, bool),
    desk: &Shared<Desk>,
    work: impl Future<Output = ()>,
) -> Vec<(u64, bool)> {
    run_batching(streams, parallel, None, desk, work)
}

/// Does the same as [`run`], with limits for the deliveries of the sink.
pub(super) fn run_batching(
    streams: &[u64],
    (slots, ordered): (usize, bool),
    batching: Option<Batching>,
    desk: &Shared<Desk>,
    work: impl Future<Output = ()>,
) -> Vec<(u64, bool)> {
    let reports = Reports::default();
    let left = streams.iter().rev().copied().collect();
    let double = Streams { left, pulled: 0, reports: reports.clone() };
    let in_flight = if desk.lock().unwrap().demand.gathers { None } else { NonZeroU64::new(64) };
    let setup = Setup::default().set("sink", |it| {
        (it.in_flight, it.ordered, it.batch) = (in_flight, Some(ordered), batching.map(batch));
    });
    let Harness { mut source, mut sink, counters, mut letters, control } = setup.harness();
    desk.lock().unwrap().most = slots;
    let connection = Arc::<Connection>::default();
    let sink_runs = async {
        loop {
            match sink.run(Box::new(Answers(desk.clone())), &connection).await {
                End::Finished => break,
                End::Lost(_) => {}
                end => panic!("{end:?}"),
            }
        }
    };
    let source_runs = async {
        assert!(matches!(source.run(Box::new(double), &Arc::default()).await, End::Finished));
    };
    let letters_are_read = async {
        while let Some(letter) = poll_fn(|context| letters.poll_receive(context)).await {
            letter.item.token.settle();
        }
    };
    let all = both(both(sink_runs, letters_are_read), both(source_runs, work));
    alone::run(control.clock(), all);
    assert!(desk.lock().unwrap().drained);
    settled(&counters.components());
    sorted(&reports)
}

/// Returns the keys of a flow that set these limits.
pub(super) fn batch(Batching { max_events, max_bytes, linger }: Batching) -> flow::Batch {
    let (max_events, max_bytes) = (max_events.try_into().ok(), max_bytes.try_into().ok());
    flow::Batch { max_events, max_bytes, linger: Some(linger) }
}

#[test]
fn parallel_deliveries_may_be_answered_in_any_order() {
    let desk = Shared::<Desk>::default();
    let reports = run(&[0; 5], (3, false), &desk, async {
        until(&desk, 3, &["1", "2", "3"]).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 4, &["1", "3", "4"]).await;
        for message in ["4", "3", "1"] {
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
        until(&desk, 5, &["5"]).await;
        desk.lock().unwrap().answer("5", Ok(Vec::new()));
    });
    assert_eq!(reports, pulls(5, true));
    assert_eq!(desk.lock().unwrap().delivered.len(), 5);
}

#[test]
fn ordered_streams_are_parallel_and_their_batches_sequential() {
    let desk = Shared::<Desk>::default();
    // Messages 1, 2 and 5 belong to stream 7, the others to streams of their own.
    let reports = run(&[7, 7, 8, 9, 7], (3, true), &desk, async {
        until(&desk, 3, &["1", "3", "4"]).await;
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
        desk.lock().unwrap().answer("4", Ok(Vec::new()));
        until(&desk, 3, &["1"]).await;
        desk.lock().unwrap().answer("1", Err(Error::full("not now")));
        // Message 1 is retried before later messages of its stream.
        for (begun, message) in [(4, "1"), (5, "2"), (6, "5")] {
            until(&desk, begun, &[message]).await;
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    });
    assert_eq!(reports, pulls(5, true));
    let desk = desk.lock().unwrap();
    assert_eq!(desk.begun, ["1", "3", "4", "1", "2", "5"]);
}

#[test]
fn each_event_ends_once_if_some_answers_fail() {
    let desk = Shared::<Desk>::default();
    let reports = run(&[1, 2, 3, 4], (4, true), &desk, async {
        until(&desk, 4, &["1", "2", "3", "4"]).await;
        let bad = vec![exception(0..1, Error::bad_data("no"))];
        desk.lock().unwrap().answer("3", Ok(bad));
        desk.lock().unwrap().answer("1", Err(Error::full("not now")));
        desk.lock().unwrap().answer("4", Ok(Vec::new()));
        until(&desk, 5, &["1", "2"]).await;
        desk.lock().unwrap().answer("2", Err(Error::timeout("slow")));
        until(&desk, 6, &["1", "2"]).await;
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
    });
    assert_eq!(reports, pulls(4, true), "dead letters are acknowledged");
}

#[test]
fn unanswered_deliveries_are_repeated_in_order_after_a_loss() {
    let desk = Shared::<Desk>::default();
    let reports = run(&[1, 2, 3, 1], (3, true), &desk, async {
        until(&desk, 3, &["1", "2", "3"]).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 3, &["1", "3"]).await;
        desk.lock().unwrap().answer("3", Err(Error::connection_lost("reset")));
        // Delivery 1 was canceled.
        until(&desk, 5, &["1", "3"]).await;
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
        until(&desk, 6, &["4"]).await;
        desk.lock().unwrap().answer("4", Ok(Vec::new()));
    });
    assert_eq!(reports, pulls(4, true));
    let desk = desk.lock().unwrap();
    assert_eq!((desk.delivered.len(), desk.given_up), (4, 1));
}

#[test]
fn due_retry_without_a_free_slot_keeps_no_task_busy() {
    let desk = Shared::<Desk>::default();
    let later = Duration::from_millis(40);
    let reports = run(&[1, 2, 3], (2, false), &desk, async {
        until(&desk, 2, &["1", "2"]).await;
        desk.lock().unwrap().answer("1", Err(Error::full("429").retry_after(later)));
        until(&desk, 3, &["2", "3"]).await;
        // The retry is due, but no slot is free. If the sink's task polled in a loop, this wait would never end.
        pass(later).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 4, &["1", "3"]).await;
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
    });
    assert_eq!(reports, pulls(3, true));
}
