//! Preprocessors that emit buffered bytes when their timer runs.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{Acks, Batch, Error, Exception, Output, Preprocessor, Pull, Result};

use super::{
    Harness, Setup,
    doubles::{Pulls, RecordingAcks, Reports, ScriptedSink, SinkScript},
    pulls,
};
use crate::{
    dynamic::{DynSink, DynSource},
    engine::{
        control::Phase,
        handle::connection::{Connection, End},
    },
};

/// A preprocessor that joins all fragments to one message. Once it has received `missing` fragments, it sets its timer
/// to `due`.
struct Joins {
    text: Vec<u8>,
    missing: usize,
    due: u64,
}

impl Joins {
    /// Returns a flow whose source has this preprocessor.
    fn flow(missing: usize, due: u64) -> Setup {
        let joins = move || Box::new(Self { text: Vec::new(), missing, due }) as _;
        Setup::default().preprocessor(joins(), joins)
    }
}

impl Preprocessor for Joins {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.reject_all(batch.cut(|cutter| {
            if !cutter.event().is_stream_end() {
                self.missing = self.missing.saturating_sub(1);
                return self.text.extend_from_slice(cutter.payload());
            }
            let text = std::mem::take(&mut self.text);
            if !text.is_empty() {
                cutter.reject(&text, Error::connection_lost("cut off"));
            }
            cutter.pass();
        }));
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        (self.missing == 0 && self.buffers(0)).then_some(self.due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, _: &mut Output) -> Result<()> {
        assert!(now >= self.due);
        batch.stream(0).push_message(&std::mem::take(&mut self.text));
        Ok(())
    }

    fn buffers(&self, _: u64) -> bool {
        !self.text.is_empty()
    }

    fn streams(&self) -> Vec<u64> {
        if self.buffers(0) { vec![0] } else { Vec::new() }
    }
}

/// A sink that makes the source end once the sink gets its first delivery.
struct EndsSource {
    scripted: ScriptedSink,
    until: Arc<AtomicBool>,
}

impl DynSink for EndsSource {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.until.store(true, Ordering::Relaxed);
        self.scripted.poll_deliver(context, slot, batch)
    }
}

/// The source waits for more data until the message is delivered. Therefore only the timer can cause the message to be
/// emitted.
#[test]
fn pulls_of_a_message_by_timer_are_acknowledged_with_it() {
    for helpers in [0, 3] {
        let until = Arc::<AtomicBool>::default();
        let parts = Pulls::of(&[&["\"one "], &["stack "], &["trace\""]]);
        let parts = Pulls { fragments: true, until: Some(until.clone()), ..parts };
        let script = SinkScript::of([]);
        let scripted = ScriptedSink(script.clone());
        let outcome = Joins::flow(3, 1).helpers(helpers).run_into(parts, &script, move || {
            Box::new(EndsSource { scripted: scripted.clone(), until: until.clone() })
        });
        assert_eq!(outcome.messages(), ["\"one stack trace\""]);
        assert_eq!(outcome.reports, pulls(3, true));
    }
}

/// A source that reads one fragment and asks for a wait of one hour.
struct Hourly {
    has_read: bool,
    reports: Reports,
}

impl DynSource for Hourly {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        assert!(!self.has_read, "the source is pulled only after an hour");
        self.has_read = true;
        batch.stream(0).push_fragment(b"1");
        Poll::Ready(Ok(Pull::Idle(Duration::from_hours(1))))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(RecordingAcks {
            reports: self.reports.clone(),
            ..RecordingAcks::default()
        })))
    }
}

#[test]
fn idle_source_emits_by_timer_but_not_during_a_pause() {
    let Harness { mut source, sink: _sink, .. } = Joins::flow(1, 1).harness();
    let (handle, stats) = (source.handle.clone(), source.worker.router.stats.clone());
    let connection = Arc::default();
    let double = Hourly { has_read: false, reports: Reports::default() };
    let mut runs = pin!(source.pull_until_end(Box::new(double), &connection));
    let mut poll = |times| {
        let mut context = Context::from_waker(Waker::noop());
        (0..times).for_each(|_| assert!(runs.as_mut().poll(&mut context).is_pending()));
    };
    handle.gate.pause();
    poll(100);
    assert_eq!(stats.counts().taken, 0, "the pause comes before the first pull");
    handle.gate.resume();
    handle.gate.open();
    poll(100);
    assert_eq!(stats.counts().taken, 1);
}

/// Calls `interrupt` while a preprocessor waits for a timer that does not become due. Returns how the connection and
/// its pulls ended.
fn interrupted(
    interrupt: impl FnOnce(&crate::engine::control::Control, &Connection),
) -> (Result<(), End>, Vec<(u64, bool)>) {
    let Harness { mut source, sink: _sink, .. } = Joins::flow(1, u64::MAX).harness();
    let (control, connection) = (source.control.clone(), Arc::<Connection>::default());
    let reports = Reports::default();
    let double = Hourly { has_read: false, reports: reports.clone() };
    let end = {
        let mut runs = pin!(source.pull_until_end(Box::new(double), &connection));
        let mut context = Context::from_waker(Waker::noop());
        (0..10).for_each(|_| assert!(runs.as_mut().poll(&mut context).is_pending()));
        interrupt(&control, &connection);
        (0..100).find_map(|_| match runs.as_mut().poll(&mut context) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        })
    };
    let end = match end.expect("the source ends") {
        Ok(acks) => crate::executor::block_on(acks.run()).map_err(End::of),
        Err(end) => Err(end),
    };
    assert_eq!(source.intake.preprocessors.due(), None, "no timer is left for the next connection");
    (end, super::sorted(&reports))
}

#[test]
fn drain_fails_the_pulls_of_a_message_that_waits_for_timer() {
    let (end, reports) = interrupted(|control, _| {
        control.advance(Phase::Draining);
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(reports, [(1, false)]);
}

#[test]
fn lost_connection_fails_the_pulls_of_a_message_that_waits() {
    let (end, reports) = interrupted(|_, connection| connection.break_off());
    assert!(matches!(end, Err(End::Interrupted)), "{end:?}");
    assert_eq!(reports, [(1, false)]);
}
