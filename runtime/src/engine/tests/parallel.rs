//! A sink with several deliveries under way.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Acks, Batch, Demand, Error, Exception, Pull, Result};

use super::{
    AT_ONCE, Harness, Heard, Setup, both,
    doubles::{Hears, Shared, exception},
    notices, pulls, settled, sorted,
};
use crate::{
    dynamic::{BoxFuture, DynSink, DynSource},
    engine::{
        handle::connection::{Connection, End},
        sink::{lane::Batching, retry::Retries, terms::Terms},
    },
    executor::{self, block_on},
    flow,
};

/// A source that brings one message of a stream with each pull: the number of the pull.
struct Streams {
    /// The streams, the next one last.
    left: Vec<u64>,
    brought: u64,
    heard: Heard,
}

impl DynSource for Streams {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let Some(stream) = self.left.pop() else { return Poll::Ready(Ok(Pull::Finished)) };
        self.brought += 1;
        batch.stream(stream).push_message(self.brought.to_string().as_bytes());
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(Hears { heard: self.heard.clone(), ..Hears::default() })))
    }
}

/// What a sink has under way, by slot, and what it is to answer.
#[derive(Default)]
pub(super) struct Desk {
    most: usize,
    /// The demand of the sink. One that gathers answers its deliveries when it is flushed.
    demand: Demand,
    /// The deliveries in flight at each flush.
    pub(super) flushed: Vec<Vec<String>>,
    under_way: BTreeMap<usize, (String, Waker)>,
    answers: BTreeMap<usize, Result<Vec<Exception>>>,
    /// Every delivery that has begun, in order.
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

    /// The messages under way, in their order.
    fn messages(&self) -> Vec<String> {
        let mut messages: Vec<_> = self.under_way.values().map(|(it, _)| it.clone()).collect();
        messages.sort();
        messages
    }

    pub(super) fn answer(&mut self, message: &str, answer: Result<Vec<Exception>>) {
        let found = self.under_way.iter().find(|(_, (it, _))| it == message);
        let (slot, (_, waker)) = found.expect("it is under way");
        waker.wake_by_ref();
        let slot = *slot;
        self.answers.insert(slot, answer);
    }
}

/// A sink that answers when it is told to.
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
            let (message, _) = desk.under_way.remove(&slot).unwrap();
            if answer.is_ok() {
                desk.delivered.push(message);
            }
            return Poll::Ready(answer);
        }
        let text = |event| String::from_utf8_lossy(batch.raw(event).unwrap()).into_owned();
        let message = batch.events().iter().map(text).collect::<String>();
        let known = desk.under_way.insert(slot, (message.clone(), context.waker().clone()));
        if known.is_none() {
            desk.begun.push(message);
        }
        Poll::Pending
    }

    fn give_up(&mut self, slot: usize) {
        let desk = &mut *self.0.lock().unwrap();
        desk.under_way.remove(&slot).expect("it is under way");
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
        assert!(desk.under_way.is_empty(), "closed after the last answer");
        desk.drained = true;
        Box::pin(async { Ok(()) })
    }
}

/// Until the sink has these messages under way, after so many deliveries.
pub(super) async fn until(desk: &Shared<Desk>, begun: usize, messages: &[&str]) {
    for _ in 0..10_000 {
        let (so_far, under_way) = {
            let desk = desk.lock().unwrap();
            (desk.begun.len(), desk.messages())
        };
        assert!(so_far <= begun, "{under_way:?} instead of {messages:?}");
        if so_far == begun && under_way == messages {
            return;
        }
        executor::yield_now().await;
    }
    panic!("under way are {:?} instead of {messages:?}", desk.lock().unwrap().messages());
}

/// Runs a source of these streams into a sink with so many slots, which `work` tells what to answer. The
/// sink connects again where its connection is lost. Gives how the pulls ended.
pub(super) fn run(
    streams: &[u64],
    parallel: (usize, bool),
    desk: &Shared<Desk>,
    work: impl Future<Output = ()>,
) -> Vec<(u64, bool)> {
    run_batching(streams, parallel, None, desk, work)
}

/// The same where batches are put together.
pub(super) fn run_batching(
    streams: &[u64],
    parallel: (usize, bool),
    batching: Option<Batching>,
    desk: &Shared<Desk>,
    work: impl Future<Output = ()>,
) -> Vec<(u64, bool)> {
    let heard = Heard::default();
    let left = streams.iter().rev().copied().collect();
    let source = Streams { left, brought: 0, heard: heard.clone() };
    run_source(source, parallel, batching, desk, work);
    sorted(&heard)
}

/// Returns the keys of a flow that set this size of batches.
pub(super) fn batch(Batching { max_events, max_bytes, linger }: Batching) -> flow::Batch {
    let (max_events, max_bytes) = (max_events.try_into().ok(), max_bytes.try_into().ok());
    flow::Batch { max_events, max_bytes, linger: Some(linger) }
}

/// The same with a source of any kind.
pub(super) fn run_source(
    double: impl DynSource + 'static,
    (slots, ordered): (usize, bool),
    batching: Option<Batching>,
    desk: &Shared<Desk>,
    work: impl Future<Output = ()>,
) {
    let Harness { mut source, mut sink, books, mut letters, .. } = Setup::default().harness();
    let in_flight = (!desk.lock().unwrap().demand.gathers).then_some(64);
    sink.terms = Terms { in_flight, ordered: Some(ordered), batch: batching.map(batch) };
    sink.retries = Retries::new(AT_ONCE, notices());
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
    block_on(both(both(sink_runs, letters_are_read), both(source_runs, work)));
    assert!(desk.lock().unwrap().drained);
    settled(&books);
}

#[test]
fn a_sink_has_as_many_deliveries_as_it_takes_and_answers_come_in_any_order() {
    let desk = Shared::<Desk>::default();
    let heard = run(&[0; 5], (3, false), &desk, async {
        until(&desk, 3, &["1", "2", "3"]).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 4, &["1", "3", "4"]).await;
        for message in ["4", "3", "1"] {
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
        until(&desk, 5, &["5"]).await;
        desk.lock().unwrap().answer("5", Ok(Vec::new()));
    });
    assert_eq!(heard, pulls(5, true));
    assert_eq!(desk.lock().unwrap().delivered.len(), 5);
}

#[test]
fn in_order_streams_go_side_by_side_and_the_batches_of_one_after_each_other() {
    let desk = Shared::<Desk>::default();
    // Messages 1, 2 and 5 are of stream 7, the others of streams of their own.
    let heard = run(&[7, 7, 8, 9, 7], (3, true), &desk, async {
        until(&desk, 3, &["1", "3", "4"]).await;
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
        desk.lock().unwrap().answer("4", Ok(Vec::new()));
        until(&desk, 3, &["1"]).await;
        desk.lock().unwrap().answer("1", Err(Error::full("not now")));
        // It is tried again, before those after it in its stream.
        for (begun, message) in [(4, "1"), (5, "2"), (6, "5")] {
            until(&desk, begun, &[message]).await;
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    });
    assert_eq!(heard, pulls(5, true));
    let desk = desk.lock().unwrap();
    assert_eq!(desk.begun, ["1", "3", "4", "1", "2", "5"]);
}

#[test]
fn where_some_of_many_answers_fail_each_event_ends_once() {
    let desk = Shared::<Desk>::default();
    let heard = run(&[1, 2, 3, 4], (4, true), &desk, async {
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
    assert_eq!(heard, pulls(4, true), "what was dead-lettered is done with");
}

#[test]
fn what_has_no_answer_when_the_connection_is_lost_is_delivered_in_order_on_the_next() {
    let desk = Shared::<Desk>::default();
    let heard = run(&[1, 2, 3, 1], (3, true), &desk, async {
        until(&desk, 3, &["1", "2", "3"]).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 3, &["1", "3"]).await;
        desk.lock().unwrap().answer("3", Err(Error::connection_lost("reset")));
        // The other one was given up.
        until(&desk, 5, &["1", "3"]).await;
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
        until(&desk, 6, &["4"]).await;
        desk.lock().unwrap().answer("4", Ok(Vec::new()));
    });
    assert_eq!(heard, pulls(4, true));
    let desk = desk.lock().unwrap();
    assert_eq!((desk.delivered.len(), desk.given_up), (4, 1));
}

#[test]
fn what_is_due_while_all_slots_are_taken_waits_for_one_and_keeps_no_task_busy() {
    let desk = Shared::<Desk>::default();
    let later = Duration::from_millis(40);
    let heard = run(&[1, 2, 3], (2, false), &desk, async {
        until(&desk, 2, &["1", "2"]).await;
        desk.lock().unwrap().answer("1", Err(Error::full("429").retry_after(later)));
        until(&desk, 3, &["2", "3"]).await;
        // Its time comes, and there is no slot: were the sink to look again and again, this would not end.
        executor::sleep(later).await;
        desk.lock().unwrap().answer("2", Ok(Vec::new()));
        until(&desk, 4, &["1", "3"]).await;
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
    });
    assert_eq!(heard, pulls(3, true));
}
