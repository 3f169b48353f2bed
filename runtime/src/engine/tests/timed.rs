//! Preprocessors that emit what they buffer once time has passed.

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
    doubles::{Heard, Hears, Pulls, Takes, Taking},
    pulls,
};
use crate::{
    dynamic::{DynSink, DynSource},
    engine::{
        control::Phase,
        handle::connection::{Connection, End},
        source::preprocessors::Preprocessors,
    },
};

/// Joins all fragments to one message, and asks for `due` once it has `missing` more of them.
struct Joins {
    text: Vec<u8>,
    missing: usize,
    due: u64,
}

impl Joins {
    fn of(missing: usize, due: u64) -> Box<dyn Preprocessor> {
        Box::new(Self { text: Vec::new(), missing, due })
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
        (self.missing == 0 && self.holds(0)).then_some(self.due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, _: &mut Output) -> Result<()> {
        assert!(now >= self.due);
        batch.stream(0).push_message(&std::mem::take(&mut self.text));
        Ok(())
    }

    fn holds(&self, _: u64) -> bool {
        !self.text.is_empty()
    }

    fn streams(&self) -> Vec<u64> {
        if self.holds(0) { vec![0] } else { Vec::new() }
    }
}

/// A sink that lets the source end with its first delivery.
struct EndsSource {
    taking: Taking,
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
        self.taking.poll_deliver(context, slot, batch)
    }
}

fn harness(helpers: usize) -> Harness {
    let (source_codec, sink_codec) = ("string", "string");
    Setup { source_codec, sink_codec, helpers, ..Setup::default() }.harness()
}

/// The source waits for more until the message is delivered, so that only the time can emit it.
#[test]
fn pulls_of_a_message_by_time_are_acknowledged_with_it() {
    for helpers in [0, 3] {
        let mut harness = harness(helpers);
        harness.source.inlet.preprocessors = Preprocessors::new(vec![Joins::of(3, 1)]);
        let until = Arc::<AtomicBool>::default();
        let parts = Pulls::of(&[&["one "], &["stack "], &["trace"]]);
        let parts = Pulls { fragments: true, until: Some(until.clone()), ..parts };
        let takes = Takes::of([]);
        let outcome = harness.run_into(parts, &takes, || {
            Box::new(EndsSource { taking: Taking(takes.clone()), until: until.clone() })
        });
        assert_eq!(outcome.messages(), ["one stack trace"]);
        assert_eq!(outcome.heard, pulls(3, true));
    }
}

/// Reads one fragment, and names an hour to wait for.
struct Hourly {
    has_read: bool,
    heard: Heard,
}

impl DynSource for Hourly {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        assert!(!self.has_read, "the source is pulled after an hour");
        self.has_read = true;
        batch.stream(0).push_fragment(b"hour");
        Poll::Ready(Ok(Pull::Idle(Duration::from_hours(1))))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(Hears { heard: self.heard.clone(), ..Hears::default() })))
    }
}

#[test]
fn idle_source_emits_by_time_and_not_during_a_pause() {
    let Harness { mut source, sink: _sink, .. } = harness(0);
    source.inlet.preprocessors = Preprocessors::new(vec![Joins::of(1, 1)]);
    let (handle, stats) = (source.handle.clone(), source.worker.router.stats.clone());
    let connection = Arc::default();
    let double = Hourly { has_read: false, heard: Heard::default() };
    let mut runs = pin!(source.bring(Box::new(double), &connection));
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

/// Returns how a connection ends, and the pulls, if `interrupt` comes while a preprocessor waits for a time that
/// never comes.
fn interrupted(
    interrupt: impl FnOnce(&crate::engine::control::Control, &Connection),
) -> (Result<(), End>, Vec<(u64, bool)>) {
    let Harness { mut source, sink: _sink, .. } = harness(0);
    source.inlet.preprocessors = Preprocessors::new(vec![Joins::of(1, u64::MAX)]);
    let (control, connection) = (source.control.clone(), Arc::<Connection>::default());
    let heard = Heard::default();
    let double = Hourly { has_read: false, heard: heard.clone() };
    let end = {
        let mut runs = pin!(source.bring(Box::new(double), &connection));
        let mut context = Context::from_waker(Waker::noop());
        (0..10).for_each(|_| assert!(runs.as_mut().poll(&mut context).is_pending()));
        interrupt(&control, &connection);
        (0..100).find_map(|_| match runs.as_mut().poll(&mut context) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        })
    };
    let end = match end.expect("the source ends") {
        Ok(settling) => crate::executor::block_on(settling.run()).map_err(End::of),
        Err(end) => Err(end),
    };
    assert_eq!(source.inlet.preprocessors.due(), None, "no time is left for the next connection");
    (end, super::sorted(&heard))
}

#[test]
fn drain_fails_the_pulls_of_a_message_that_waits_for_time() {
    let (end, heard) = interrupted(|control, _| {
        control.advance(Phase::Draining);
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(heard, [(1, false)]);
}

#[test]
fn lost_connection_fails_the_pulls_of_a_message_that_waits() {
    let (end, heard) = interrupted(|_, connection| connection.break_off());
    assert!(matches!(end, Err(End::Interrupted)), "{end:?}");
    assert_eq!(heard, [(1, false)]);
}
