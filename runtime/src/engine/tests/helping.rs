use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Batch, Limit, Pull, Result};

use super::{
    Harness, Setup, doubles,
    doubles::{Pulls, Records, Shared},
};
use crate::clock::Clock;
use crate::{
    codec::{BatchDecoder, Decoded},
    dynamic::DynSource,
    engine::{
        processors::Processors,
        source::{
            batch_sizer::BatchSizer,
            intake::{Intake, IntakeState},
            preprocessors::Next,
            shared_intake::SharedIntake,
        },
        tracking::token::Ended,
        tuning::STEADY,
    },
    executor::block_on,
};

/// Returns an empty batch with a limit of three events.
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

/// Returns an intake in the steady state, without pulled events.
pub(super) fn steady(double: impl DynSource + 'static) -> Intake {
    let mut intake = Intake::new(
        IntakeState::default(),
        Box::new(double),
        Processors::default(),
        Clock::simulated(0),
    );
    while !intake.is_steady() {
        assert!(pull(&mut intake, &mut batch()).is_ready());
    }
    assert_eq!(drain(&mut intake), 3 * STEADY);
    intake
}

/// Removes the pulled messages and returns their number.
fn drain(intake: &mut Intake) -> usize {
    let mut messages = 0;
    while let Next::Piece(piece) = intake.state.preprocessors.next() {
        messages += piece.batch.len();
    }
    messages
}

#[test]
fn helpers_may_pull_after_consecutive_full_pulls() {
    let mut intake = Intake::new(
        IntakeState::default(),
        Box::new(Pulls::numbers(100)),
        Processors::default(),
        Clock::simulated(0),
    );
    let mut own = 0;
    while !try_pull(&mut intake, &mut batch()) {
        assert!(pull(&mut intake, &mut batch()).is_ready());
        own += 1;
    }
    assert_eq!(own, STEADY);
}

#[test]
fn helpers_may_not_pull_if_a_source_has_less_than_a_batch() {
    let mut intake = Intake::new(
        IntakeState::default(),
        Box::new(Pulls::numbers(100)),
        Processors::default(),
        Clock::simulated(0),
    );
    for _ in 0..2 * STEADY {
        assert!(pull(&mut intake, &mut Batch::new()).is_ready());
        assert!(!intake.is_steady());
    }
    let mut intake = steady(Pulls::numbers(100));
    assert!(!try_pull(&mut intake, &mut Batch::new()));
    assert_eq!(drain(&mut intake), 3, "the pull read events");
    assert!(!intake.is_steady());
}

#[test]
fn helper_leaves_a_source_that_waits_to_its_own_task() {
    let until = Arc::<AtomicBool>::default();
    let double = Pulls { until: Some(until.clone()), ..Pulls::numbers(STEADY) };
    let mut intake = steady(double);
    assert!(!try_pull(&mut intake, &mut batch()));
    assert!(!intake.is_steady());
    assert!(pull(&mut intake, &mut batch()).is_pending());
}

#[test]
fn result_of_a_helpers_pull_is_left_to_the_sources_task() {
    let mut intake = steady(Pulls::numbers(STEADY));
    assert!(!try_pull(&mut intake, &mut batch()));
    assert!(!try_pull(&mut intake, &mut batch()), "the source has ended");
    assert!(matches!(pull(&mut intake, &mut batch()), Poll::Ready(Ok(Pull::Finished))));
}

#[test]
fn rejected_acknowledgement_does_not_prevent_later_reports() {
    let mut double = Pulls::numbers(3);
    let reports = double.reports.clone();
    double.rejects_acks = true;
    let mut intake = Intake::new(
        IntakeState::default(),
        Box::new(double),
        Processors::default(),
        Clock::simulated(0),
    );
    for _ in 0..3 {
        assert!(pull(&mut intake, &mut batch()).is_ready());
    }
    let ended = [(1, None), (2, Some(Vec::new()))].map(|(pull, failed)| Ended::of(pull, failed));
    assert!(intake.acknowledge(ended.into()).is_err(), "the source rejects acknowledgements");
    assert_eq!(*reports.lock().unwrap(), [(2, false)]);
    // The end of the connection fails the remaining pull.
    intake.fail_outstanding().unwrap();
    assert_eq!(*reports.lock().unwrap(), [(2, false), (3, false)]);
}

/// A decoder that waits for the other task before it decodes its first batch, so that both tasks decode.
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
fn batches_of_concurrent_tasks_keep_their_order() {
    const PULLS: usize = 2_000;
    let seen = Shared::<Vec<String>>::default();
    let setup = Setup::default().helpers(1);
    let setup = setup.operators("main", vec![Box::new(Records(seen.clone()))]);
    let Harness { mut source, sink, .. } = setup.harness();
    let barrier = Arc::new(Barrier::new(2));
    let workers = [source.helpers.remove(0), source.worker].map(|mut worker| {
        let count = Arc::<AtomicUsize>::default();
        let (decoder, barrier) = (worker.codec.take().unwrap(), Some(barrier.clone()));
        worker.codec = Some(Box::new(Together { decoder, barrier, count: count.clone() }));
        (worker, count)
    });
    let counts = workers.each_ref().map(|(_, count)| count.clone());
    let intake = Arc::new(SharedIntake::new(
        steady(Pulls::numbers(PULLS + STEADY)),
        Processors::default(),
        Clock::simulated(0),
    ));
    let has_ended = Arc::<AtomicBool>::default();
    // The second worker belongs to the source's own task.
    let mut is_own = false;
    let threads = workers.map(|(mut worker, _)| {
        let (intake, has_ended) = (intake.clone(), has_ended.clone());
        // Every pull has three events.
        worker.sizer = BatchSizer::fixed(3);
        let is_own = std::mem::replace(&mut is_own, true);
        std::thread::spawn(move || {
            // A helper pulls nothing if another task is using the intake. Only the source's own task waits for the
            // intake, so only that task learns that the source has ended.
            while !has_ended.load(Ordering::Relaxed) {
                let continues = block_on(intake.help_once(&mut worker));
                if is_own && !continues && !block_on(intake.lock()).is_steady() {
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
