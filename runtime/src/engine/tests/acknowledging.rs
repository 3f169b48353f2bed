//! What a source hears of its pulls, and when.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Acks, Batch, Error, Pull, Result, dynamic::DynSource};

use super::{
    Harness, Setup, both,
    doubles::{Pulls, Shared, Takes, Taking},
    fragments,
};
use crate::{
    engine::{
        life::connection::{Connection, End},
        processors::Processors,
        source::intake::{Inlet, Intake},
    },
    executor::block_on,
};

/// A source that waits for the end of its first pull, and ends with that.
#[derive(Clone, Default)]
struct Waits {
    has_brought: bool,
    heard: Shared<Option<u64>>,
    waiting: Shared<Option<Waker>>,
    given_up: Arc<AtomicUsize>,
}

impl DynSource for Waits {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if !self.has_brought {
            self.has_brought = true;
            batch.push_message(b"1");
            return Poll::Ready(Ok(Pull::Events));
        }
        if self.heard.lock().map_err(Error::internal)?.is_some() {
            return Poll::Ready(Ok(Pull::Finished));
        }
        *self.waiting.lock().map_err(Error::internal)? = Some(context.waker().clone());
        Poll::Pending
    }

    fn give_up(&mut self, _: &mut Batch) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

impl Acks for Waits {
    fn ack(&mut self, pull: u64) -> Result<()> {
        *self.heard.lock().map_err(Error::internal)? = Some(pull);
        let waiting = self.waiting.lock().map_err(Error::internal)?.take();
        waiting.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn fail(&mut self, pull: u64, _: &[Range<usize>]) -> Result<()> {
        Err(Error::internal(format_args!("pull {pull} has failed")))
    }
}

#[test]
fn a_source_hears_of_its_pulls_while_it_waits_for_events_and_goes_on_waiting() {
    let Harness { mut source, mut sink, .. } = Setup::default().harness();
    let (waits, connection) = (Waits::default(), Arc::<Connection>::default());
    let (double, taking) = (waits.clone(), Taking(Takes::of([])));
    let sink_runs = async {
        assert!(matches!(sink.run(Box::new(taking), &connection).await, End::Finished));
    };
    let source_runs = async {
        assert!(matches!(source.run(Box::new(double), &connection).await, End::Finished));
    };
    block_on(both(sink_runs, source_runs));
    assert_eq!(*waits.heard.lock().unwrap(), Some(1));
    assert_eq!(waits.given_up.load(Ordering::Relaxed), 0, "no pull was dropped for it");
}

#[test]
fn a_source_that_has_as_much_in_flight_as_it_may_is_pulled_for_the_rest_of_a_message_only() {
    let mut double = Pulls::of(&[&["half"], &[" a line\n"], &["whole\n"], &["more\n"]]);
    (double.fragments, double.most_in_flight) = (true, 1);
    let inlet = Inlet { preprocessors: fragments::lines(), ..Inlet::default() };
    let mut intake = Intake::new(inlet, Box::new(double), Processors::default());
    let Harness { source, .. } = Setup::default().harness();
    let egress = source.worker.router.egress.clone();
    let mut pull = || {
        let mut context = Context::from_waker(Waker::noop());
        assert!(intake.poll_pull(&mut context, &mut Batch::new(), false).is_ready());
        let pulled = intake.next(&egress);
        (intake.may_pull(), pulled)
    };
    assert!(pull().0, "the rest of the line is to come");
    let (may_pull, line) = pull();
    assert!(!may_pull);
    line.unwrap().0.token.settle();
    assert!(!intake.may_pull());
    intake.tell_ended().unwrap();
    assert!(intake.may_pull());
}
