use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Batch, Operator, Pull, Result, abi::batch::Rejected, dynamic::DynSource};

use super::{
    Setup, doubles,
    doubles::{Pulls, Sees, Shared},
};
use crate::{
    codec::BatchDecoder,
    engine::{
        intake::{Inlet, Intake},
        lane::Lane,
        worker::Worker,
    },
    executor::block_on,
};

fn pull(intake: &mut Intake, batch: &mut Batch) -> Poll<Result<Pull>> {
    intake.poll_pull(&mut Context::from_waker(Waker::noop()), batch, false)
}

fn try_pull(intake: &mut Intake, batch: &mut Batch) -> bool {
    intake.try_pull(&mut Context::from_waker(Waker::noop()), batch)
}

/// An intake whose source has brought events so often that others may pull.
fn steady(double: impl DynSource + 'static) -> Intake {
    let mut intake = Intake::new(Inlet::default(), Box::new(double));
    while !intake.is_steady() {
        assert!(pull(&mut intake, &mut Batch::new()).is_ready());
    }
    intake
}

#[test]
fn others_may_pull_once_several_pulls_in_a_row_did_not_wait() {
    let mut intake = Intake::new(Inlet::default(), Box::new(Pulls::numbers(100)));
    let mut own = 0;
    while !try_pull(&mut intake, &mut Batch::new()) {
        assert!(pull(&mut intake, &mut Batch::new()).is_ready());
        own += 1;
    }
    assert_eq!(own, 4);
}

#[test]
fn a_source_that_waits_is_pulled_by_its_own_task_again() {
    let until = Arc::<AtomicBool>::default();
    let double = Pulls { until: Some(until.clone()), ..Pulls::numbers(4) };
    let mut intake = steady(double);
    assert!(!try_pull(&mut intake, &mut Batch::new()));
    assert!(!intake.is_steady());
    assert!(pull(&mut intake, &mut Batch::new()).is_pending());
}

#[test]
fn what_another_tasks_pull_came_to_is_left_to_the_sources_own() {
    let mut intake = steady(Pulls::numbers(4));
    assert!(!try_pull(&mut intake, &mut Batch::new()));
    assert!(!try_pull(&mut intake, &mut Batch::new()), "the source has ended");
    assert!(matches!(pull(&mut intake, &mut Batch::new()), Poll::Ready(Ok(Pull::Finished))));
}

/// Decodes its first batch only when the other task has got its first too.
struct Together {
    decoder: Box<dyn BatchDecoder>,
    barrier: Option<Arc<Barrier>>,
    count: Arc<AtomicUsize>,
}

impl BatchDecoder for Together {
    fn decode_batch(&mut self, batch: &mut Batch) -> Vec<Rejected> {
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
    let lanes = Setup { operators, helpers: 1, ..Setup::default() }.lanes();
    let super::Lanes { mut source, sink, .. } = lanes;
    let barrier = Arc::new(Barrier::new(2));
    let workers = [source.helpers.remove(0), source.worker].map(|worker| {
        let count = Arc::<AtomicUsize>::default();
        let (Some(decoder), barrier) = (worker.codec, Some(barrier.clone())) else { panic!() };
        let codec = Some(Box::new(Together { decoder, barrier, count: count.clone() }) as _);
        (Worker { codec, ..worker }, count)
    });
    let counts = workers.each_ref().map(|(_, count)| count.clone());
    // Those that made it steady are gone.
    let lane = Arc::new(Lane::new(steady(Pulls::numbers(PULLS + 4))));
    let threads = workers.map(|(mut worker, _)| {
        let lane = lane.clone();
        std::thread::spawn(move || {
            while block_on(lane.help_once(&mut worker)) {}
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
    let numbers: Vec<String> = (12..3 * (PULLS + 4)).map(|number| number.to_string()).collect();
    assert_eq!(*seen.lock().unwrap(), numbers);
    assert_eq!(delivered.join().unwrap(), numbers);
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 0) && counts.iter().sum::<usize>() == PULLS);
}
