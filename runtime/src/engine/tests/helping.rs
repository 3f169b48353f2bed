use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Batch, Limit, Operator, Pull, Result};

use super::{
    Setup, doubles,
    doubles::{Pulls, Sees, Shared},
};
use crate::{
    codec::{BatchDecoder, Decoded},
    dynamic::DynSource,
    engine::{
        account::token::Ended,
        processors::Processors,
        source::{
            intake::{Inlet, Intake},
            pace::Pace,
            preprocessors::Next,
            shared_intake::SharedIntake,
            worker::Worker,
        },
        tuning::STEADY,
    },
    executor::block_on,
};

/// A batch that three events fill.
fn batch() -> Batch {
    let mut batch = Batch::new();
    batch.set_limit(Limit { events: 3, ..Limit::default() });
    batch
}

fn pull(intake: &mut Intake, batch: &mut Batch) -> Poll<Result<Pull>> {
    intake.poll_pull(&mut Context::from_waker(Waker::noop()), batch, false)
}

fn try_pull(intake: &mut Intake, batch: &mut Batch) -> bool {
    intake.try_pull(&mut Context::from_waker(Waker::noop()), batch)
}

/// An intake whose source has brought events so often that others may pull, and those are gone.
pub(super) fn steady(double: impl DynSource + 'static) -> Intake {
    let mut intake = Intake::new(Inlet::default(), Box::new(double), Processors::default());
    while !intake.is_steady() {
        assert!(pull(&mut intake, &mut batch()).is_ready());
    }
    assert_eq!(drain(&mut intake), 3 * STEADY);
    intake
}

/// How many messages were pulled and not taken further yet.
fn drain(intake: &mut Intake) -> usize {
    let mut messages = 0;
    while let Next::Piece(piece) = intake.inlet.preprocessors.next() {
        messages += piece.batch.len();
    }
    messages
}

#[test]
fn others_may_pull_once_several_pulls_in_a_row_brought_as_much_as_was_asked_for() {
    let mut intake =
        Intake::new(Inlet::default(), Box::new(Pulls::numbers(100)), Processors::default());
    let mut own = 0;
    while !try_pull(&mut intake, &mut batch()) {
        assert!(pull(&mut intake, &mut batch()).is_ready());
        own += 1;
    }
    assert_eq!(own, STEADY);
}

#[test]
fn others_may_not_pull_where_a_source_brings_less_than_it_is_asked_for() {
    let mut intake =
        Intake::new(Inlet::default(), Box::new(Pulls::numbers(100)), Processors::default());
    for _ in 0..2 * STEADY {
        assert!(pull(&mut intake, &mut Batch::new()).is_ready());
        assert!(!intake.is_steady());
    }
    let mut intake = steady(Pulls::numbers(100));
    assert!(!try_pull(&mut intake, &mut Batch::new()));
    assert_eq!(drain(&mut intake), 3, "it brought something");
    assert!(!intake.is_steady());
}

#[test]
fn a_source_that_waits_is_pulled_by_its_own_task_again() {
    let until = Arc::<AtomicBool>::default();
    let double = Pulls { until: Some(until.clone()), ..Pulls::numbers(STEADY) };
    let mut intake = steady(double);
    assert!(!try_pull(&mut intake, &mut batch()));
    assert!(!intake.is_steady());
    assert!(pull(&mut intake, &mut batch()).is_pending());
}

#[test]
fn what_another_tasks_pull_came_to_is_left_to_the_sources_own() {
    let mut intake = steady(Pulls::numbers(STEADY));
    assert!(!try_pull(&mut intake, &mut batch()));
    assert!(!try_pull(&mut intake, &mut batch()), "the source has ended");
    assert!(matches!(pull(&mut intake, &mut batch()), Poll::Ready(Ok(Pull::Finished))));
}

#[test]
fn a_source_that_cannot_take_an_acknowledgement_hears_of_all_others() {
    let mut double = Pulls::numbers(3);
    let heard = double.heard.clone();
    double.deaf = true;
    let mut intake = Intake::new(Inlet::default(), Box::new(double), Processors::default());
    for _ in 0..3 {
        assert!(pull(&mut intake, &mut batch()).is_ready());
    }
    let ended = [(1, None), (2, Some(Vec::new()))].map(|(pull, failed)| Ended::of(pull, failed));
    assert!(intake.acknowledge(ended.into()).is_err(), "it is deaf to what went well");
    assert_eq!(*heard.lock().unwrap(), [(2, false)]);
    // The connection is over.
    intake.fail_outstanding().unwrap();
    assert_eq!(*heard.lock().unwrap(), [(2, false), (3, false)]);
}

/// Decodes its first batch only when the other task has got its first too.
struct Together {
    decoder: Box<dyn BatchDecoder>,
    barrier: Option<Arc<Barrier>>,
    count: Arc<AtomicUsize>,
}

impl BatchDecoder for Together {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        if let Some(barrier) = self.barrier.take() {
            barrier.wait();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.decoder.decode_batch(batch)
    }
}

#[test]
fn tasks_that_take_batches_through_at_the_same_time_keep_their_order() {
    const PULLS: usize = 2_000;
    let seen = Shared::<Vec<String>>::default();
    let operators: Vec<Box<dyn Operator>> = vec![Box::new(Sees(seen.clone()))];
    let harness = Setup { operators, helpers: 1, ..Setup::default() }.harness();
    let super::Harness { mut source, sink, .. } = harness;
    let barrier = Arc::new(Barrier::new(2));
    let workers = [source.helpers.remove(0), source.worker].map(|worker| {
        let count = Arc::<AtomicUsize>::default();
        let (Some(decoder), barrier) = (worker.codec, Some(barrier.clone())) else { panic!() };
        let codec = Some(Box::new(Together { decoder, barrier, count: count.clone() }) as _);
        (Worker { codec, ..worker }, count)
    });
    let counts = workers.each_ref().map(|(_, count)| count.clone());
    let intake =
        Arc::new(SharedIntake::new(steady(Pulls::numbers(PULLS + STEADY)), Processors::default()));
    let has_ended = Arc::<AtomicBool>::default();
    // The second one is the source's own.
    let mut is_own = false;
    let threads = workers.map(|(mut worker, _)| {
        let (intake, has_ended) = (intake.clone(), has_ended.clone());
        // Pulls are of three, always.
        worker.pace = Pace::fixed(3);
        let is_own = std::mem::replace(&mut is_own, true);
        std::thread::spawn(move || {
            // A task that finds the intake in use for long pulls nothing: only the source's own
            // waits for it, and knows so that there is nothing more.
            while !has_ended.load(Ordering::Relaxed) {
                let goes_on = block_on(intake.help_once(&mut worker));
                if is_own && !goes_on && !block_on(intake.lock()).is_steady() {
                    has_ended.store(true, Ordering::Relaxed);
                }
            }
            worker
        })
    });
    let mut queue = sink.queue;
    let delivered = std::thread::spawn(move || {
        let mut delivered = Vec::new();
        block_on(async {
            while let Some(queued) = poll_fn(|context| queue.poll_receive(context)).await {
                delivered.extend(doubles::values(&queued.item.batch));
                queued.item.token.settle();
            }
        });
        delivered
    });
    for thread in threads {
        block_on(thread.join().unwrap().router.close());
    }
    let numbers: Vec<String> =
        (3 * STEADY..3 * (PULLS + STEADY)).map(|number| number.to_string()).collect();
    assert_eq!(*seen.lock().unwrap(), numbers);
    assert_eq!(delivered.join().unwrap(), numbers);
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 0) && counts.iter().sum::<usize>() == PULLS);
}
