use std::collections::BTreeSet;

use proptest::prelude::{prop_assert, prop_assert_eq};

use super::{Acks, Begin, Form, Part, PositionWriter, Rewind, TypedBatch, Watermarks};
use crate::{Raw, RawBatch, StructuredBatch};

/// Returns watermarks with the pulls 1 to 3 in the streams 0 and 1. The position is ten times the pull.
fn three() -> Watermarks<u64> {
    let watermarks = Watermarks::new();
    for pull in 1..=3 {
        for stream in [0, 1] {
            record(&watermarks, pull, stream, pull);
            record(&watermarks, pull, stream, pull * 10);
        }
    }
    watermarks
}

fn record(watermarks: &Watermarks<u64>, pull: u64, stream: u64, position: u64) {
    watermarks.record(pull, vec![Part { begin: 0, stream, position }]);
}

fn acked(watermarks: &mut Watermarks<u64>, pull: u64) -> Vec<(u64, u64)> {
    watermarks.ack(pull).unwrap();
    watermarks.take().acknowledged
}

fn failed(watermarks: &mut Watermarks<u64>, pull: u64) -> Vec<Rewind<u64>> {
    watermarks.fail(pull, &[]).unwrap();
    rewinds(watermarks)
}

fn batch<F: Form>(pull: u64) -> TypedBatch<F> {
    let mut batch = TypedBatch::new();
    batch.set_pull(pull);
    batch
}

fn rewinds(watermarks: &Watermarks<u64>) -> Vec<Rewind<u64>> {
    match watermarks.begin(&mut RawBatch::new()) {
        Begin::Rewind(rewinds) => rewinds,
        Begin::Write(_) => Vec::new(),
    }
}

fn writer<'b, F: Form>(
    watermarks: &'b Watermarks<u64>,
    batch: &'b mut TypedBatch<F>,
) -> PositionWriter<'b, u64, F> {
    match watermarks.begin(batch) {
        Begin::Write(writer) => writer,
        Begin::Rewind(rewinds) => panic!("{rewinds:?}"),
    }
}

#[test]
fn watermark_is_end_of_first_pulls_without_gap() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let mut watermarks = three();
        let mut ended = Vec::new();
        for pull in order {
            let moved = acked(&mut watermarks, pull);
            ended.push(pull);
            let whole = (1..=3).take_while(|pull| ended.contains(pull)).last();
            assert_eq!(watermarks.of(1), whole.map(|pull| pull * 10), "{order:?}");
            let watermark = watermarks.of(0);
            assert!(moved.iter().all(|&(_, position)| Some(position) == watermark));
            assert_eq!(moved.is_empty(), whole.is_none_or(|whole| whole < pull));
        }
        assert!(watermarks.is_settled(0) && watermarks.is_settled(1));
    }
}

#[test]
fn failed_stream_rewinds_to_watermark_and_ignores_late_acks() {
    let mut watermarks = three();
    acked(&mut watermarks, 1);
    let from_ten = |stream| Rewind { stream, from: Some(10) };
    assert_eq!(failed(&mut watermarks, 2), [from_ten(0), from_ten(1)]);
    assert_eq!(acked(&mut watermarks, 3), []);
    record(&watermarks, 4, 0, 20);
    assert_eq!(failed(&mut watermarks, 2), []);
    assert_eq!(acked(&mut watermarks, 4), [(0, 20)]);
    assert_eq!((watermarks.of(0), watermarks.of(1)), (Some(20), Some(10)));
}

#[test]
fn failure_keeps_earlier_pulls_open() {
    let mut watermarks = three();
    let from = |stream, from| Rewind { stream, from };
    assert_eq!(failed(&mut watermarks, 3), [from(0, Some(20)), from(1, Some(20))]);
    assert_eq!(acked(&mut watermarks, 2), []);
    assert!(!watermarks.is_settled(0), "the first pull is in flight");
    assert_eq!(acked(&mut watermarks, 1), [(0, 20), (1, 20)]);
    // An earlier pull may fail after a later pull.
    let mut watermarks = three();
    watermarks.fail(3, &[]).unwrap();
    assert_eq!(failed(&mut watermarks, 2), [from(0, Some(10)), from(1, Some(10))]);
    assert_eq!(failed(&mut watermarks, 1), [from(0, None), from(1, None)]);
    assert!(!watermarks.has_in_flight(0));
}

#[test]
fn position_pushed_while_its_pull_fails_is_not_recorded() {
    let mut watermarks = three();
    watermarks.fail(2, &[]).unwrap();
    record(&watermarks, 4, 0, 40);
    for pull in [1, 4] {
        watermarks.ack(pull).unwrap();
    }
    assert_eq!(watermarks.of(0), Some(10));
    assert_eq!(rewinds(&watermarks)[0], Rewind { stream: 0, from: Some(10) });
    drop(watermarks.take());
    record(&watermarks, 5, 0, 20);
    assert_eq!(acked(&mut watermarks, 5), [(0, 20)]);
}

/// A model of a source with one stream, whose pulls have one event each.
#[derive(Default)]
struct Model {
    /// The next event, as a position in the stream.
    next: u64,
    pull: u64,
    /// Number and event of each pull that has not ended.
    open: Vec<(u64, u64)>,
    /// Open pulls whose events are read again.
    superseded: BTreeSet<u64>,
    /// Events that are acknowledged and not read again.
    acknowledged: BTreeSet<u64>,
}

impl Model {
    fn pull(&mut self, watermarks: &Watermarks<u64>) {
        match watermarks.begin(&mut batch(self.pull + 1)) {
            Begin::Rewind(rewinds) => self.next = rewinds[0].from.unwrap_or(0),
            Begin::Write(mut writer) => {
                self.pull += 1;
                writer.push_message(7, self.next + 1, b"");
                self.open.push((self.pull, self.next));
                self.next += 1;
            }
        }
    }

    fn ack(&mut self, at: usize, watermarks: &mut Watermarks<u64>) {
        let (pull, event) = self.open.swap_remove(at);
        watermarks.ack(pull).unwrap();
        if !self.superseded.contains(&pull) {
            self.acknowledged.insert(event);
        }
    }

    fn fail(&mut self, at: usize, watermarks: &mut Watermarks<u64>) {
        let (pull, event) = self.open.swap_remove(at);
        watermarks.fail(pull, &[]).unwrap();
        if !self.superseded.contains(&pull) {
            self.superseded
                .extend(self.open.iter().map(|other| other.0).filter(|other| *other > pull));
            self.acknowledged.retain(|other| *other < event);
        }
    }

    /// Returns the number of events, from the first event on, that are acknowledged without a gap.
    fn prefix(&self) -> u64 {
        let events = self.acknowledged.iter().zip(0..);
        events.take_while(|(event, position)| *event == position).count() as u64
    }
}

proptest::proptest! {
    #[test]
    fn position_is_the_acknowledged_prefix_in_any_order(
        steps in proptest::collection::vec((0..8_u8, 0..64_usize), 0..200),
    ) {
        let (mut watermarks, mut model, mut before) = (Watermarks::new(), Model::default(), 0);
        for (step, chosen) in steps {
            match (step, chosen.checked_rem(model.open.len())) {
                (0..=2, _) => model.pull(&watermarks),
                (3..=5, Some(at)) => model.ack(at, &mut watermarks),
                (6, Some(at)) => model.fail(at, &mut watermarks),
                _ => drop(watermarks.take()),
            }
            let position = watermarks.of(7).unwrap_or(0);
            prop_assert_eq!(position, model.prefix());
            prop_assert!(position >= before, "the position went back");
            before = position;
        }
        // If a pull has failed, the source goes back to its position.
        model.pull(&watermarks);
        while !model.open.is_empty() {
            model.ack(0, &mut watermarks);
        }
        prop_assert_eq!(watermarks.of(7).unwrap_or(0), model.next, "all pulls have ended");
    }
}

#[test]
fn failed_stream_is_settled_once_it_can_be_read_again() {
    let mut watermarks = three();
    watermarks.fail(1, &[]).unwrap();
    assert!(!watermarks.is_settled(0) && !watermarks.is_settled(1));
    assert_eq!(rewinds(&watermarks).len(), 2);
    assert!(!watermarks.is_settled(0), "the source may not have gone back yet");
    drop(writer(&watermarks, &mut batch::<Raw>(2)));
    assert!(watermarks.is_settled(0));
}

#[test]
fn forgotten_stream_reports_no_progress() {
    let mut watermarks = three();
    watermarks.ack(1).unwrap();
    assert_eq!(watermarks.forget(0), Some(10));
    assert_eq!(watermarks.forget(0), None);
    assert_eq!(watermarks.take().acknowledged, [(1, 10)]);
    assert_eq!(acked(&mut watermarks, 2), [(1, 20)]);
    assert_eq!(failed(&mut watermarks, 3), [Rewind { stream: 1, from: Some(20) }]);
    assert_eq!(watermarks.of(0), None);
}

#[test]
fn stream_without_acknowledgement_rewinds_to_start() {
    let mut watermarks = Watermarks::<u64>::new();
    record(&watermarks, 1, 5, 3);
    assert_eq!(failed(&mut watermarks, 1), [Rewind { stream: 5, from: None }]);
}

#[test]
#[cfg(feature = "testing")]
fn waiting_task_gets_latest_position_of_each_stream() {
    let host = crate::testing::TestHost::new();
    let mut watermarks = three();
    for pull in [1, 2] {
        watermarks.ack(pull).unwrap();
    }
    let progress = host.block_on(watermarks.progress());
    assert_eq!(progress.acknowledged, [(0, 20), (1, 20)]);
    assert_eq!(watermarks.take(), super::Progress::default());
    let (acks, other) = (watermarks.clone(), watermarks.clone());
    let task = host.block_on(async move {
        let mut acks = acks;
        let mut progress = Box::pin(other.progress());
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        assert!(progress.as_mut().poll(&mut context).is_pending());
        acks.ack(3).unwrap();
        progress.await
    });
    assert_eq!(task.acknowledged, [(0, 30), (1, 30)]);
}

#[test]
fn writer_records_last_position_of_each_stream() {
    let mut watermarks = Watermarks::new();
    let mut first = batch(1);
    let mut writer = writer(&watermarks, &mut first);
    writer.push_message(0, 1, b"a");
    writer.push_message(0, 2, b"b");
    writer.push_message(5, 7, b"c");
    writer.stream(0, 3).push_fragment(b"d");
    writer.stream_of(9, 5, 8).push_message(b"e");
    assert_eq!((writer.len(), writer.is_full()), (5, false));
    writer.last_mut().unwrap().write_metadata(|writer| writer.u64(1)).unwrap();
    drop(writer);
    assert!(watermarks.has_in_flight(0) && watermarks.has_in_flight(5));
    assert!(!watermarks.has_in_flight(9), "the positions are those of another stream");
    let streams: Vec<_> = first.iter().map(|event| event.stream().number()).collect();
    assert_eq!(streams, [0, 0, 5, 0, 9]);
    assert_eq!(acked(&mut watermarks, 1), [(0, 3), (5, 8)]);
}

#[test]
fn exchanged_batch_keeps_number_of_its_pull() {
    let mut watermarks = Watermarks::new();
    let (mut pull, mut filled) = (batch(4), RawBatch::new());
    filled.push_message(b"elsewhere");
    writer(&watermarks, &mut pull).exchange(2, 9, &mut filled);
    assert_eq!((pull.len(), pull.pull(), filled.len()), (1, 4, 0));
    assert_eq!(acked(&mut watermarks, 4), [(2, 9)]);
}

#[test]
fn value_that_cannot_be_written_records_no_position() {
    struct Fails;
    impl serde::Serialize for Fails {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }
    let watermarks = Watermarks::new();
    let mut first: StructuredBatch = batch(1);
    let mut writer = writer(&watermarks, &mut first);
    assert!(writer.push(0, 1, &Fails).is_err());
    drop(writer);
    assert!(first.is_empty() && watermarks.is_settled(0));
}

#[test]
fn failure_is_reported_once_and_returned_once() {
    let mut watermarks = three();
    watermarks.fail(2, &[]).unwrap();
    assert!(watermarks.take().has_failed);
    assert!(watermarks.take().is_empty());
    assert_eq!(rewinds(&watermarks).len(), 2);
    assert_eq!(rewinds(&watermarks), []);
    watermarks.fail(3, &[]).unwrap();
    assert!(watermarks.take().is_empty(), "the earlier failure has removed this pull");
}

#[test]
fn late_ends_of_forgotten_stream_change_nothing() {
    let mut watermarks = three();
    watermarks.forget(0);
    record(&watermarks, 4, 0, 99);
    assert_eq!(acked(&mut watermarks, 1), [(1, 10)]);
    assert_eq!(failed(&mut watermarks, 2), [Rewind { stream: 1, from: Some(10) }]);
    assert!(watermarks.has_in_flight(0));
    assert_eq!(acked(&mut watermarks, 4), [(0, 99)]);
}

/// Fails events of a pull. Returns the streams to read again and those that were acknowledged further.
fn failed_events(
    watermarks: &mut Watermarks<u64>,
    pull: u64,
    events: &[std::ops::Range<usize>],
) -> (Vec<Rewind<u64>>, Vec<(u64, u64)>) {
    watermarks.fail(pull, events).unwrap();
    let moved = watermarks.take().acknowledged;
    (rewinds(watermarks), moved)
}

#[test]
fn events_before_the_first_failed_one_are_acknowledged() {
    for (failed, position) in [(0..1, None), (1..2, Some(10)), (2..3, Some(20)), (3..9, Some(30))] {
        let mut watermarks = Watermarks::new();
        let mut first = batch(1);
        let mut writer = writer(&watermarks, &mut first);
        (1..=4).for_each(|at| writer.push_message(7, at * 10, b"a"));
        drop(writer);
        record(&watermarks, 2, 7, 50);
        let (rewinds, moved) = failed_events(&mut watermarks, 1, std::slice::from_ref(&failed));
        assert_eq!(rewinds, [Rewind { stream: 7, from: position }], "{failed:?}");
        assert_eq!(moved, position.map(|it| (7, it)).into_iter().collect::<Vec<_>>());
        assert_eq!(watermarks.of(7), position);
        assert_eq!(acked(&mut watermarks, 2), [], "the events are read again");
    }
}

#[test]
fn part_of_a_pull_counts_once_earlier_pulls_have_ended() {
    let mut watermarks = Watermarks::new();
    record(&watermarks, 1, 7, 5);
    let mut second = batch(2);
    let mut writer = writer(&watermarks, &mut second);
    (1..=4).for_each(|at| writer.push_message(7, at * 10, b"a"));
    drop(writer);
    let (rewinds, moved) = failed_events(&mut watermarks, 2, std::slice::from_ref(&(2..3)));
    assert_eq!((rewinds, moved), (vec![Rewind { stream: 7, from: Some(20) }], vec![]));
    assert_eq!(acked(&mut watermarks, 1), [(7, 20)]);
}

#[test]
fn stream_without_a_failed_event_is_acknowledged() {
    let mut watermarks = Watermarks::new();
    let mut first = batch(1);
    let mut writer = writer(&watermarks, &mut first);
    writer.push_message(0, 1, b"a");
    writer.push_message(5, 7, b"b");
    writer.stream_of(0, 0, 2).push_fragment(b"c");
    writer.stream(5, 8).push_fragment(b"d");
    writer.skip(6, 9);
    drop(writer);
    record(&watermarks, 2, 5, 20);
    let (rewinds, moved) = failed_events(&mut watermarks, 1, std::slice::from_ref(&(2..3)));
    assert_eq!(rewinds, [Rewind { stream: 0, from: Some(1) }]);
    assert_eq!(moved, [(0, 1), (5, 8), (6, 9)]);
    assert_eq!(acked(&mut watermarks, 2), [(5, 20)], "the stream is not read again");
}

#[test]
fn exchanged_parts_have_positions_of_their_own() {
    let mut watermarks = Watermarks::new();
    let (mut pull, mut filled) = (batch(4), RawBatch::new());
    (0..3).for_each(|_| filled.stream(2).push_fragment(b"x"));
    filled.stream(2).end();
    writer(&watermarks, &mut pull).exchange_parts(2, &[1, 2, 3], 3, &mut filled);
    let (_, moved) = failed_events(&mut watermarks, 4, &[1..2, 3..4]);
    assert_eq!(moved, [(2, 1)]);
}

#[test]
fn events_of_several_writers_of_a_pull_fail_with_it() {
    let mut watermarks = Watermarks::new();
    let mut first = batch(1);
    let mut one = writer(&watermarks, &mut first);
    one.push_message(7, 10, b"a");
    one.push_message(7, 20, b"b");
    drop(one);
    let mut two = writer(&watermarks, &mut first);
    two.push_message(7, 30, b"c");
    two.push_message(7, 40, b"d");
    drop(two);
    let (_, moved) = failed_events(&mut watermarks, 1, std::slice::from_ref(&(1..2)));
    assert!(moved.iter().all(|(_, position)| *position < 20), "{moved:?}");
}

/// A pull that adds no event has the same number as the next one.
#[test]
fn positions_of_a_pull_without_events_do_not_count_for_the_next() {
    let mut watermarks = Watermarks::new();
    let mut first = batch(1);
    let mut skips = writer(&watermarks, &mut first);
    skips.skip(0, 5);
    skips.skip(5, 6);
    drop(skips);
    writer(&watermarks, &mut first).push_message(0, 7, b"a");
    let (rewinds, _) = failed_events(&mut watermarks, 1, std::slice::from_ref(&(0..1)));
    assert!(rewinds.contains(&Rewind { stream: 0, from: None }), "{rewinds:?}");
}
