//! Models of the intake of a source. If the source's own task waits for the intake, it gets the
//! intake. Helpers end when the intake ends.

use std::sync::Arc;

use super::processors::Processors;
use crate::{
    Model,
    clock::Clock,
    rt::{block_on, thread},
};

#[path = "../../../runtime/src/engine/source/shared_intake.rs"]
mod shared_intake;

use intake::Intake;
use shared_intake::SharedIntake;
use worker::Worker;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "source_and_helper_pull",
        run: source_and_helper_pull,
        preemptions: 9,
        faults: &[
            ("intake_waits_without_fence", "deadlock"),
            ("intake_is_released_without_fence", "deadlock"),
            ("intake_waits_without_second_try", "deadlock"),
        ],
    },
    Model {
        name: "helper_ends",
        run: helper_ends,
        preemptions: 6,
        faults: &[("intake_ends_without_notice", "deadlock")],
    },
];

/// The source's own task takes the intake twice, and a helper pulls on another thread.
fn source_and_helper_pull() {
    let intake = Arc::new(SharedIntake::new(Intake::of(3), Processors, Clock));
    let helps = intake.clone();
    let helps = thread::spawn(move || block_on(helps.help_once(&mut Worker::default())));
    for _ in 0..2 {
        block_on(intake.lock()).left -= 1;
    }
    helps.join().unwrap();
    assert!(block_on(intake.lock()).left <= 1, "remaining of three pulls");
}

/// A helper waits for work, gets a batch, and ends when the intake ends.
fn helper_ends() {
    let intake = Arc::new(SharedIntake::new(Intake::of(2), Processors, Clock));
    let helps = intake.clone();
    let helps = thread::spawn(move || block_on(helps.help(Worker::default())));
    intake.offer();
    block_on(intake.end());
    helps.join().unwrap();
}

pub(crate) mod intake {
    use std::task::Context;

    use super::preprocessors::Next;
    use crate::{Batch, rt::UnsafeCell};

    /// A source that yields `left` batches.
    #[derive(Debug)]
    pub(crate) struct Intake {
        seen: UnsafeCell<()>,
        pub(crate) left: usize,
    }

    impl Intake {
        pub(crate) fn of(left: usize) -> Self {
            Self { seen: UnsafeCell::new(()), left }
        }

        pub(crate) fn leave_steady(&mut self) {
            self.seen.with_mut(|_| ());
            self.left = 0;
        }

        pub(crate) fn has_more(&self) -> bool {
            self.seen.with(|_| ());
            false
        }

        pub(crate) fn is_steady(&self) -> bool {
            self.left > 0
        }

        pub(crate) fn try_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> bool {
            self.seen.with_mut(|_| ());
            batch.0.extend((self.left > 0).then_some(1));
            self.left = self.left.saturating_sub(1);
            self.is_steady()
        }

        pub(crate) fn next(&mut self, (): &()) -> Next<(Batch, ())> {
            Next::Nothing
        }
    }
}

pub(crate) mod preprocessors {
    /// Result of a round of preprocessing. The intake of the models only returns `Nothing`.
    #[derive(Debug)]
    pub(crate) enum Next<T> {
        Piece(T),
        More,
        Nothing,
    }
}

pub(crate) mod worker {
    use std::time::Instant;

    use crate::Batch;

    /// The double of a worker, which gets no batch from the intake of the models.
    #[derive(Debug, Default)]
    pub(crate) struct Worker {
        pub(crate) router: Router,
        pub(crate) sizer: BatchSizer,
    }

    #[derive(Debug, Default)]
    pub(crate) struct Router {
        pub(crate) egress: (),
    }

    #[derive(Debug, Default)]
    pub(crate) struct BatchSizer;

    impl BatchSizer {
        pub(crate) fn forget_waits(&mut self) {}

        pub(crate) fn mostly_waits(&self) -> bool {
            false
        }
    }

    impl Worker {
        pub(crate) fn batch(&self) -> Batch {
            Batch::default()
        }

        pub(crate) async fn decode_and_route(&mut self, _: Batch, (): (), _: Instant) -> bool {
            false
        }
    }
}
