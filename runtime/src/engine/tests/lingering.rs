//! A sink that puts batches together, and is idle: what wakes it.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use tremor_pdk::{Acks, Batch, Pull, Result};

use super::{
    Harness, Heard, Setup, both,
    doubles::{Hears, Shared, Takes, Taking},
    parallel::batch,
    pulls, sorted,
};
use crate::{
    dynamic::{DynSink, DynSource},
    engine::{
        handle::connection::{Connection, End},
        sink::lane::Batching,
    },
    executor::{self, block_on},
};

const HOUR: Duration = Duration::from_hours(1);

/// A future, with a count of how often it was woken.
struct Watched<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes {
    count: AtomicUsize,
    task: Mutex<Option<Waker>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let task = self.task.lock().unwrap().clone();
        task.into_iter().for_each(Waker::wake);
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        *self.wakes.task.lock().unwrap() = Some(context.waker().clone());
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// What a source is to bring, a message a pull.
#[derive(Default)]
struct Feed {
    messages: VecDeque<&'static str>,
    is_over: bool,
    waits: Option<Waker>,
}

#[derive(Default)]
struct Fed {
    feed: Shared<Feed>,
    heard: Heard,
}

impl DynSource for Fed {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let feed = &mut *self.feed.lock().unwrap();
        match feed.messages.pop_front() {
            Some(message) => batch.push_message(message.as_bytes()),
            None if feed.is_over => return Poll::Ready(Ok(Pull::Finished)),
            None => {
                feed.waits = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(Hears { heard: self.heard.clone(), ..Hears::default() })))
    }
}

/// What a test has of a run.
struct Hands {
    feed: Shared<Feed>,
    heard: Heard,
    takes: Shared<Takes>,
    wakes: Arc<Wakes>,
    linger: Duration,
}

impl Hands {
    fn change(&self, change: impl FnOnce(&mut Feed)) {
        let feed = &mut *self.feed.lock().unwrap();
        change(feed);
        feed.waits.take().into_iter().for_each(Waker::wake);
    }

    /// The source brings a message, and the sink has heard of it.
    async fn bring(&self, message: &'static str) {
        let before = self.wakes.count.load(Ordering::Relaxed);
        self.change(|feed| feed.messages.push_back(message));
        while self.wakes.count.load(Ordering::Relaxed) == before {
            executor::yield_now().await;
        }
        executor::yield_now().await;
    }

    /// So many pulls are acknowledged.
    async fn are_acknowledged(&self, count: usize) {
        while self.heard.lock().unwrap().len() < count {
            executor::yield_now().await;
        }
    }

    /// How often the sink is woken until a timer has ended that would end after several of its own.
    async fn wakes_while_idle(&self) -> usize {
        let before = self.wakes.count.load(Ordering::Relaxed);
        executor::sleep(4 * self.linger).await;
        self.wakes.count.load(Ordering::Relaxed) - before
    }

    fn delivered(&self) -> Vec<Vec<String>> {
        self.takes.lock().unwrap().delivered.clone()
    }
}

/// Runs a source into a sink whose deliveries have two events at most.
fn run(linger: Duration, work: impl AsyncFnOnce(Hands)) -> Vec<(u64, bool)> {
    let Harness { mut source, mut sink, mut letters, .. } = Setup::default().harness();
    let max_events = NonZeroUsize::new(2).unwrap();
    let batching = Batching { max_events, max_bytes: NonZeroUsize::MAX, linger };
    sink.terms.batch = Some(batch(batching));
    sink.tick = HOUR;
    let (fed, takes, wakes) = (Fed::default(), Takes::of([]), Arc::<Wakes>::default());
    let heard = fed.heard.clone();
    let hands = Hands {
        feed: fed.feed.clone(),
        heard: heard.clone(),
        takes: takes.clone(),
        wakes: wakes.clone(),
        linger,
    };
    let connection = Arc::<Connection>::default();
    let double: Box<dyn DynSink> = Box::new(Taking(takes));
    let sink_runs = async {
        assert!(matches!(sink.run(double, &connection).await, End::Finished));
    };
    let sink_runs = Watched { future: Box::pin(sink_runs), wakes };
    let source_runs = async {
        assert!(matches!(source.run(Box::new(fed), &Arc::default()).await, End::Finished));
    };
    let no_letters = async {
        assert!(std::future::poll_fn(|it| letters.poll_receive(it)).await.is_none());
    };
    block_on(both(both(sink_runs, no_letters), both(source_runs, work(hands))));
    sorted(&heard)
}

#[test]
fn while_nothing_waits_to_be_joined_the_time_that_events_may_wait_wakes_nobody() {
    let heard = run(Duration::from_millis(2), async |hands| {
        assert_eq!(hands.wakes_while_idle().await, 0, "nothing has come");
        for count in 1..=3 {
            hands.bring("1").await;
            hands.are_acknowledged(count).await;
            assert_eq!(hands.wakes_while_idle().await, 0, "what came has waited, and left");
        }
        assert_eq!(hands.delivered(), [["1"]; 3]);
        hands.change(|feed| feed.is_over = true);
    });
    assert_eq!(heard, pulls(3, true));
}

#[test]
fn a_delivery_that_is_full_leaves_no_timer_of_its_first_event_behind() {
    run(Duration::from_millis(50), async |hands| {
        // On a busy machine the first event may have waited its time before the second one is there.
        for round in 1.. {
            let begun = Instant::now();
            hands.bring("1").await;
            hands.bring("2").await;
            hands.are_acknowledged(2 * round).await;
            if begun.elapsed() < hands.linger / 2 {
                break;
            }
        }
        assert_eq!(hands.wakes_while_idle().await, 0);
        assert_eq!(hands.delivered().pop().unwrap(), ["1", "2"]);
        hands.change(|feed| feed.is_over = true);
    });
}
