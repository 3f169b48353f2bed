//! Reports to sources how their pulls ended.

use std::{
    future::poll_fn,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Acks, Batch, Buffered, Error, Operator, Output, Pull, Result};

use super::{
    Harness, Setup, both,
    doubles::{Pulls, ScriptedSink, Shared, SinkScript},
    fragments,
};
use crate::clock::Clock;
use crate::{
    dynamic::DynSource,
    engine::{
        handle::connection::{Connection, End},
        processors::Processors,
        source::{intake::Intake, preprocessors::Next, worker::Worker},
        tracking::token::{Ended, InFlight, Ledger, Token},
    },
    executor::block_on,
};

/// A source that reads one message and ends once the message is acknowledged.
#[derive(Clone, Default)]
struct Waits {
    has_read: bool,
    acknowledged: Shared<Option<u64>>,
    waiting: Shared<Option<Waker>>,
    given_up: Arc<AtomicUsize>,
}

impl DynSource for Waits {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if !self.has_read {
            self.has_read = true;
            batch.push_message(b"1");
            return Poll::Ready(Ok(Pull::Events));
        }
        if self.acknowledged.lock().map_err(Error::internal)?.is_some() {
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
        *self.acknowledged.lock().map_err(Error::internal)? = Some(pull);
        let waiting = self.waiting.lock().map_err(Error::internal)?.take();
        waiting.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn fail(&mut self, pull: u64, _: &[Range<usize>]) -> Result<()> {
        Err(Error::internal(format_args!("pull {pull} has failed")))
    }
}

#[test]
fn waiting_source_is_notified_without_giving_up_its_pull() {
    let Harness { mut source, mut sink, .. } = Setup::default().harness();
    let (waits, connection) = (Waits::default(), Arc::<Connection>::default());
    let (double, scripted) = (waits.clone(), ScriptedSink(SinkScript::of([])));
    let sink_runs = async {
        assert!(matches!(sink.run(Box::new(scripted), &connection).await, End::Finished));
    };
    let source_runs = async {
        assert!(matches!(source.run(Box::new(double), &connection).await, End::Finished));
    };
    block_on(both(sink_runs, source_runs));
    assert_eq!(*waits.acknowledged.lock().unwrap(), Some(1));
    assert_eq!(waits.given_up.load(Ordering::Relaxed), 0, "no pull was canceled");
}

#[test]
fn source_at_its_limit_is_pulled_only_to_complete_a_message() {
    let mut double = Pulls::of(&[&["half"], &[" a line\n"], &["whole\n"], &["more\n"]]);
    (double.fragments, double.most_in_flight) = (true, 1);
    let Harness { source, .. } = fragments::lines().harness();
    let mut intake =
        Intake::new(source.intake, Box::new(double), Processors::default(), Clock::simulated(0));
    let egress = source.worker.router.egress.clone();
    let mut pull = || {
        let mut context = Context::from_waker(Waker::noop());
        assert!(intake.poll_pull(&mut context, &mut Batch::new(), false).is_ready());
        let pulled = intake.next(&egress);
        (intake.may_pull(), pulled)
    };
    assert!(pull().0, "the remainder of the line was not pulled yet");
    let (may_pull, line) = pull();
    assert!(!may_pull);
    let Next::Piece((line, _)) = line else { panic!("a line was pulled") };
    line.token.settle();
    assert!(!intake.may_pull());
    intake.report_ended().unwrap();
    assert!(intake.may_pull());
}

/// An operator that keeps the first event of a batch, and emits it when the pipeline is drained.
#[derive(Default)]
struct Sums {
    first: Batch,
    buffered: Buffered,
}

impl Operator for Sums {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.first = self.buffered.absorb_all(batch, output).part(0..1);
        Ok(())
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        self.buffered.emit_events(output, Output::OUT, std::mem::take(&mut self.first));
        Ok(())
    }
}

#[test]
fn failed_aggregate_fails_the_whole_pull_of_its_parts() {
    let setup = Setup::default().operators("main", vec![Box::new(Sums::default())]);
    let Harness { source, mut sink, .. } = setup.harness();
    let Worker { mut router, codec, .. } = source.worker;
    let ledger = Arc::<Ledger>::default();
    let mut batch = Batch::new();
    (0..3).for_each(|_| batch.push_message(b"1"));
    assert!(codec.unwrap().decode_batch(&mut batch).rejected.is_empty());
    for (position, event) in batch.events_mut().iter_mut().enumerate() {
        event.pull = 1;
        event.set_position(position);
    }
    block_on(router.emit(InFlight::new(batch, Token::of(1, &ledger))));
    block_on(router.close());
    let sum = block_on(poll_fn(|context| sink.queue.poll_receive(context))).unwrap().item;
    assert_eq!(sum.batch.len(), 1);
    sum.token.fail(sum.batch.events());
    // The positions are unknown, because the aggregate does not contain those of the other two events.
    assert_eq!(ledger.take_ended(), [Ended::of(1, Some(Vec::new()))]);
}
