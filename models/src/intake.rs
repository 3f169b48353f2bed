//! The intake of a source, which its own task waits for and helpers do not: that task gets it, and helpers
//! end.

use std::sync::Arc;

use crate::rt::{block_on, thread};

use crate::{
    doubles::{Intake, Processors, Worker},
    fails, holds,
};

/// The source's own task takes the intake twice, and a helper pulls on another thread.
macro_rules! both_take_it {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                use crate::$variant::engine::source::shared_intake::SharedIntake;

                let intake = Arc::new(SharedIntake::new(Intake::of(3), Processors));
                let helps = intake.clone();
                let helps =
                    thread::spawn(move || block_on(helps.help_once(&mut Worker::default())));
                for _ in 0..2 {
                    block_on(intake.lock()).left -= 1;
                }
                helps.join().unwrap();
                assert!(block_on(intake.lock()).left <= 1, "what is left of three pulls");
            },
        }
    };
}

/// A helper waits for work, gets some, and ends with the intake.
macro_rules! a_helper_ends {
    ($variant:ident) => {
        crate::Model {
            preemptions: 6,
            run: || {
                use crate::$variant::engine::source::shared_intake::SharedIntake;

                let intake = Arc::new(SharedIntake::new(Intake::of(2), Processors));
                let helps = intake.clone();
                let helps = thread::spawn(move || block_on(helps.help(Worker::default())));
                intake.offer();
                block_on(intake.end());
                helps.join().unwrap();
            },
        }
    };
}

#[test]
fn a_source_gets_its_intake_back() {
    holds(both_take_it!(as_it_is));
}

#[test]
fn a_helper_ends_with_its_intake() {
    holds(a_helper_ends!(as_it_is));
}

#[test]
fn it_is_found_that_the_source_waits_without_a_fence() {
    fails(both_take_it!(intake_waits_without_a_fence), "deadlock");
}

#[test]
fn it_is_found_that_a_helper_lets_go_without_a_fence() {
    fails(both_take_it!(intake_is_let_go_of_without_a_fence), "deadlock");
}

#[test]
fn it_is_found_that_the_source_waits_after_one_look() {
    fails(both_take_it!(intake_waits_after_one_look), "deadlock");
}

#[test]
fn it_is_found_that_helpers_are_not_told_of_the_end() {
    fails(a_helper_ends!(intake_ends_and_tells_no_helper), "deadlock");
}
