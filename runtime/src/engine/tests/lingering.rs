//! Wake-ups of an idle sink that joins batches.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tremor_pdk::{Acks, Batch, Pull, Result};

use super::{
    Harness, Reports, Setup, both,
    doubles::{RecordingAcks, ScriptedSink, Shared, SinkScript},
    parallel::batch,
    pulls, sorted,
};
use crate::{
    dynamic::{DynSink, DynSource},
    engine::{
        handle::connection::{Connection, End},
        sink::lane::Batching,
    },
    executor::alone::{self, pass, until_idle},
};

const HOUR: Duration = Duration::from_hours(1);
/// Time for which a delivery waits for further events.
const LINGER: Duration = Duration::from_millis(2);

/// A future that counts its wake-ups.
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

/// Messages that a source has not read yet. The source reads one message per pull.
#[derive(Default)]
struct Feed {
    messages: VecDeque<&'static str>,
    is_over: bool,
    waits: Option<Waker>,
}

#[derive(Default)]
struct Fed {
    feed: Shared<Feed>,
    reports: Reports,
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
        Ok(Some(Box::new(RecordingAcks {
            reports: self.reports.clone(),
            ..RecordingAcks::default()
        })))
    }
}

/// Values through which a test controls and observes a run.
struct Controls {
    feed: Shared<Feed>,
    reports: Reports,
    script: Shared<SinkScript>,
    wakes: Arc<Wakes>,
}

impl Controls {
    fn change(&self, change: impl FnOnce(&mut Feed)) {
        let feed = &mut *self.feed.lock().unwrap();
        change(feed);
        feed.waits.take().into_iter().for_each(Waker::wake);
    }

    /// Lets the source read a message, and waits until the sink has received it.
    async fn send(&self, message: &'static str) {
        self.change(|feed| feed.messages.push_back(message));
        until_idle().await;
    }

    /// Returns the number of acknowledged pulls.
    fn acknowledged(&self) -> usize {
        self.reports.lock().unwrap().len()
    }

    /// Lets several linger times pass, and returns the number of wake-ups of the sink in this time.
    async fn wakes_while_idle(&self) -> usize {
        let before = self.wakes.count.load(Ordering::Relaxed);
        pass(4 * LINGER).await;
        self.wakes.count.load(Ordering::Relaxed) - before
    }

    fn delivered(&self) -> Vec<Vec<String>> {
        self.script.lock().unwrap().delivered.clone()
    }
}

/// Runs a source, a sink whose deliveries have at most two events, and `work` at the same time. Returns how the pulls
/// ended.
fn run(work: impl AsyncFnOnce(Controls)) -> Vec<(u64, bool)> {
    let max_events = NonZeroUsize::new(2).unwrap();
    let batching = Batching { max_events, max_bytes: NonZeroUsize::MAX, linger: LINGER };
    let setup = Setup::default().set("sink", |it| it.batch = Some(batch(batching)));
    let Harness { mut source, mut sink, mut letters, control, .. } = setup.harness();
    sink.tick = HOUR;
    let (fed, script, wakes) = (Fed::default(), SinkScript::of([]), Arc::<Wakes>::default());
    let reports = fed.reports.clone();
    let controls = Controls {
        feed: fed.feed.clone(),
        reports: reports.clone(),
        script: script.clone(),
        wakes: wakes.clone(),
    };
    let connection = Arc::<Connection>::default();
    let double: Box<dyn DynSink> = Box::new(ScriptedSink(script));
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
    let all = both(both(sink_runs, no_letters), both(source_runs, work(controls)));
    alone::run(control.clock(), all);
    sorted(&reports)
}

#[test]
fn sink_without_waiting_events_is_not_woken_by_linger_time() {
    let reports = run(async |controls| {
        assert_eq!(controls.wakes_while_idle().await, 0, "no event has arrived");
        for count in 1..=3 {
            controls.send("1").await;
            pass(LINGER.saturating_sub(Duration::from_nanos(1))).await;
            assert_eq!(controls.acknowledged(), count - 1);
            pass(Duration::from_nanos(1)).await;
            assert_eq!(controls.acknowledged(), count);
            assert_eq!(controls.wakes_while_idle().await, 0, "the event was delivered");
        }
        assert_eq!(controls.delivered(), [["1"]; 3]);
        controls.change(|feed| feed.is_over = true);
    });
    assert_eq!(reports, pulls(3, true));
}

#[test]
fn full_delivery_leaves_no_timer_of_its_first_event() {
    run(async |controls| {
        controls.send("1").await;
        pass(LINGER / 2).await;
        controls.send("2").await;
        assert_eq!(controls.acknowledged(), 2);
        assert_eq!(controls.wakes_while_idle().await, 0);
        assert_eq!(controls.delivered(), [["1", "2"]]);
        controls.change(|feed| feed.is_over = true);
    });
}
