//! Tests of what a sink delivers next.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use super::{Backlog, Batching, Lane, Part, Pending, SINK_WAITING_BYTES};
use crate::engine::sink::pending::CUT_EVENTS;
use crate::engine::{
    account::token::{InFlight, Token},
    retry::backoff::{Attempts, Policy},
};

fn batching(max_events: usize, max_bytes: usize, linger: Duration) -> Batching {
    let count = |count| NonZeroUsize::new(count).unwrap();
    Batching { max_events: count(max_events), max_bytes: count(max_bytes), linger }
}

/// A batch of a message of each of these streams.
fn part(streams: &[u64], message: impl Fn(usize) -> String) -> Part {
    let mut batch = Batch::new();
    for (position, stream) in streams.iter().enumerate() {
        batch.stream(*stream).push_message(message(position).as_bytes());
    }
    let outgoing = Some(batch.clone());
    Part::new(InFlight::new(batch, Token::untracked()), outgoing)
}

fn backlog(batches: &[&[u64]], slots: usize, batching: Option<Batching>) -> Backlog {
    let mut backlog = Backlog::new(batching);
    backlog.begin(slots, true, backlog.batching);
    for (place, streams) in batches.iter().enumerate() {
        backlog.push(part(streams, |_| place.to_string()));
    }
    backlog
}

/// The messages of a delivery, of which the sink gets all.
fn messages(mut pending: Pending) -> Vec<String> {
    let outgoing = pending.take_encoded();
    let all: Vec<_> = pending.into_items().flat_map(|item| text(&item.batch)).collect();
    outgoing.iter().for_each(|outgoing| assert_eq!(text(outgoing), all));
    all
}

fn text(batch: &Batch) -> Vec<String> {
    let text = |event| String::from_utf8_lossy(batch.raw(event).unwrap()).into_owned();
    batch.events().iter().map(text).collect()
}

/// Begins the deliveries that may be in flight at the same time, and returns their numbers.
fn taken(backlog: &mut Backlog) -> Vec<u64> {
    let mut places = Vec::new();
    while let Some(pending) = backlog.take_next() {
        places.push(pending.place - 1);
        begin(backlog, pending);
    }
    places
}

fn begin(backlog: &mut Backlog, mut pending: Pending) {
    if pending.is_unencoded() {
        let mut encoded = Batch::new();
        pending.items_mut().for_each(|item| encoded.append(item.batch.clone()));
        pending.set_encoded(encoded);
    }
    pending.begin(None);
    backlog.slots.put(pending);
}

/// Answers all deliveries in flight.
fn answered(backlog: &mut Backlog) -> Vec<Pending> {
    std::iter::from_fn(|| backlog.slots.take(0)).collect()
}

#[test]
fn large_delivery_reaches_its_maximum_beyond_the_waiting_bound() {
    let most = 2 * SINK_WAITING_BYTES;
    let mut backlog = Backlog::new(Some(batching(1 << 20, most, Duration::from_hours(1))));
    backlog.begin(1, true, backlog.batching);
    let message = "x".repeat(1 << 20);
    let mut bytes = 0;
    while backlog.has_room() {
        backlog.push(part(&[1], |_| message.clone()));
        bytes += message.len();
        assert!(bytes <= 2 * most, "the backlog takes more than a delivery");
    }
    let delivery = backlog.take_next().unwrap();
    assert_eq!(delivery.events(), most >> 20);
}

#[test]
fn streams_go_side_by_side_and_the_batches_of_one_after_each_other() {
    let mut backlog = backlog(&[&[1], &[1, 2], &[3], &[3, 1]], 4, None);
    // The second and the fourth are divided: their parts of stream 1 wait for the first.
    assert_eq!(taken(&mut backlog), [0, 1, 2]);
    assert_eq!(backlog.waiting_events(), 3);
    backlog.slots.take(0).unwrap().settle();
    assert_eq!(taken(&mut backlog), [1]);
    answered(&mut backlog);
    assert_eq!(taken(&mut backlog), [3, 3]);
    assert!(!backlog.has_waiting());
}

#[test]
fn what_is_tried_again_later_holds_up_its_own_streams_only() {
    let mut backlog = backlog(&[&[1], &[2], &[1]], 2, None);
    let mut first = backlog.take_next().unwrap();
    let later = Instant::now() + Duration::from_hours(1);
    first.retry_at(later);
    backlog.put_back(first);
    assert_eq!(taken(&mut backlog), [1]);
    assert_eq!(backlog.next_due(), Some(later));
    backlog.begin(2, true, backlog.batching);
    assert_eq!(taken(&mut backlog), [0]);
}

#[test]
fn what_waits_keeps_its_order_where_the_next_connection_has_other_slots() {
    let mut backlog = backlog(&[&[1], &[2], &[1, 2], &[2]], 2, None);
    backlog.begin(1, true, backlog.batching);
    let mut places = Vec::new();
    while let Some(pending) = backlog.take_next() {
        places.extend(messages(pending));
    }
    assert_eq!(places, ["0", "1", "2", "2", "3"]);
}

#[test]
fn attempts_count_on_where_the_next_connection_has_other_slots() {
    let policy = Policy { attempts: Some(1), first: Duration::ZERO, max: Duration::ZERO };
    let mut backlog = backlog(&[&[1, 2]], 1, None);
    let mut failed = backlog.take_next().unwrap();
    assert!(failed.attempts.get_or_insert_with(|| Attempts::new(policy).into()).fail());
    failed.begin(None);
    backlog.put_back(failed);
    backlog.begin(2, true, backlog.batching);
    assert_eq!(taken(&mut backlog).len(), 2, "it is divided");
    for mut pending in answered(&mut backlog) {
        assert!(!pending.attempts.take().unwrap().fail(), "this was the last");
    }
}

#[test]
fn small_batches_are_put_together_and_large_ones_taken_apart() {
    let limits = Some(batching(3, 100, Duration::from_hours(1)));
    let mut backlog = backlog(&[&[1], &[1], &[1; 2], &[1; 5]], 1, limits);
    let mut next = || backlog.take_next().map(messages);
    assert_eq!(next().unwrap(), ["0", "1", "2"]);
    assert_eq!(next().unwrap(), ["2", "3", "3"]);
    assert_eq!(next().unwrap(), ["3", "3", "3"]);
    assert!(next().is_none());
    backlog.push(part(&[1], |_| "4".to_owned()));
    assert!(backlog.take_next().is_none(), "it waits for others");
    assert!(backlog.next_due() > Some(Instant::now() + Duration::from_mins(59)));
    assert!(backlog.complete(), "there is nothing to wait for");
    assert_eq!(backlog.take_next().map(messages).unwrap(), ["4"]);
    assert!(backlog.is_empty() && backlog.events() == 0);
}

#[test]
fn a_batch_that_is_as_large_as_a_delivery_is_not_copied_where_none_is_begun() {
    let limits = Some(batching(2, 100, Duration::from_hours(1)));
    let mut backlog = backlog(&[], 1, limits);
    for (count, is_in_place) in [(5, true), (1, false), (2, true)] {
        let part = part(&vec![1; count], |_| "x".to_owned());
        let lies = part.outgoing.as_ref().unwrap().bytes().as_ptr_range();
        backlog.push(part);
        while let Some(mut pending) = backlog.take_next() {
            let outgoing = pending.take_encoded().unwrap();
            assert_eq!(outgoing.len(), 2);
            assert_eq!(lies.contains(&outgoing.bytes().as_ptr()), is_in_place, "{count}");
        }
    }
    assert!(backlog.is_empty());
}

#[test]
fn what_is_larger_than_a_delivery_is_cut_as_its_deliveries_leave() {
    let limits = Some(batching(2, 100, Duration::ZERO));
    let mut backlog = backlog(&[&[1; 9], &[1; 2]], 1, limits);
    assert_eq!((backlog.lanes[0].len(), backlog.events()), (3, 11));
    let mut all = Vec::new();
    while let Some(pending) = backlog.take_next() {
        assert!(pending.events() <= 2 && backlog.lanes[0].len() <= 4);
        all.extend(messages(pending));
    }
    assert_eq!(all.concat(), "00000000011");
}

#[test]
fn what_operators_have_edited_is_in_the_delivery_of_its_event_alone() {
    const VALUE: usize = 1 << 10;
    let edited = |events: u64| {
        let mut batch = Batch::new();
        for stream in 0..events {
            batch.stream(stream).push(&stream).unwrap();
        }
        for position in 0..batch.len() {
            *batch.value_mut(position).unwrap() = "x".repeat(VALUE).into();
        }
        Part::new(InFlight::new(batch.clone(), Token::untracked()), Some(batch))
    };
    for max_events in [1, 7, 64] {
        let mut backlog = Backlog::new(Some(batching(max_events, 1 << 20, Duration::ZERO)));
        backlog.begin(4, true, backlog.batching);
        for events in [60, 3, 70] {
            backlog.push(edited(events));
        }
        // Another connection has one lane, to which what waits in four comes piece by piece.
        backlog.begin(3, false, backlog.batching);
        let mut events = 0;
        while let Some(mut pending) = backlog.take_next() {
            let most = pending.events() * (2 * VALUE) + (16 << 10);
            let outgoing = pending.take_encoded().unwrap();
            assert!(outgoing.weight() <= most, "{} of {most}", outgoing.weight());
            for item in pending.items_mut() {
                assert!(item.batch.weight() <= most, "{} of {most}", item.batch.weight());
            }
            events += pending.events();
        }
        assert_eq!(events, 133);
    }
}

#[test]
fn an_event_waits_for_others_for_as_long_as_it_may() {
    let limits = Some(batching(3, 100, Duration::ZERO));
    let mut at_once = backlog(&[&[1], &[1]], 1, limits);
    assert_eq!(at_once.take_next().map(messages).unwrap(), ["0", "1"]);
}

#[test]
fn a_delivery_has_no_more_bytes_than_it_may_unless_one_event_has() {
    let mut backlog = backlog(&[], 1, Some(batching(100, 10, Duration::ZERO)));
    let texts = ["1234", "5678", "123", "456789", &"x".repeat(99), "1"].map(str::to_owned);
    backlog.push(part(&[0; 6], |position| texts[position].clone()));
    let mut sizes = Vec::new();
    while let Some(pending) = backlog.take_next() {
        sizes.push(pending.events());
    }
    assert_eq!(sizes, [2, 2, 1, 1]);
}

#[test]
fn of_events_that_hold_much_memory_few_wait() {
    let mut backlog = backlog(&[], 1, Some(batching(1_000, 1 << 20, Duration::from_hours(1))));
    let mut count = 0;
    while backlog.has_room() {
        let mut large = part(&[0; 2], |_| "x".repeat(1 << 20));
        large.item.batch.retain(|_| false);
        large.item.batch = part(&[0], |_| "y".repeat(1 << 20)).item.batch;
        large.outgoing = part(&[0], |_| "z".to_owned()).outgoing;
        backlog.push(large);
        count += 1;
    }
    assert_eq!(count, SINK_WAITING_BYTES >> 20);
    assert_eq!(backlog.take_next().unwrap().events(), count);
    assert!(backlog.has_room());
}

#[test]
fn what_a_lane_has_of_a_batch_keeps_nothing_of_the_rest_of_it() {
    let limits = batching(100, 1 << 20, Duration::from_hours(1));
    let (pool, mut backlog) = (Pool::new(100), Backlog::new(Some(limits)));
    backlog.begin(4, true, backlog.batching);
    for number in 0..20 {
        let storage = |text: &str| {
            let mut batch = Batch::from_pool(&pool);
            for stream in 0..8 {
                batch.stream(stream).push_message(format!("{text} {number} {stream}").as_bytes());
            }
            batch.set_pull(number);
            batch
        };
        let item = InFlight::new(storage("event"), Token::untracked());
        backlog.push(Part::new(item, Some(storage("outgoing"))));
    }
    assert_eq!(pool.waiting(), 2, "what is divided is used again at once");
    assert!(backlog.complete());
    assert_eq!(taken(&mut backlog).len(), 4, "one in each lane");
    for mut pending in answered(&mut backlog) {
        let outgoing = text(&pending.take_encoded().unwrap());
        let (mut position, mut numbers) = (0, 0..);
        for item in pending.into_items() {
            assert_eq!((item.batch.len(), item.batch.pull()), (2, numbers.next().unwrap()));
            for event in text(&item.batch) {
                assert_eq!(outgoing[position], event.replace("event", "outgoing"));
                position += 1;
            }
        }
        assert_eq!((position, numbers.start), (40, 20));
    }
}

#[test]
fn what_waits_and_what_is_under_way_take_no_more_memory_than_they_may() {
    for is_divided in [true, false] {
        let mut backlog = backlog(&[], 8, Some(batching(1_000, 1 << 20, Duration::from_hours(1))));
        let mut streams = (0..64).cycle();
        let (mut most, mut one) = (0, 0);
        while backlog.has_room() {
            let streams: Vec<u64> = if is_divided {
                streams.by_ref().take(64).collect()
            } else {
                vec![streams.next().unwrap(); 64]
            };
            // The sink gets little of what came.
            let mut part = part(&streams, |_| "x".repeat(6_000));
            part.outgoing = self::part(&streams, |_| "y".repeat(500)).outgoing;
            part.weigh();
            one = part.weight;
            backlog.push(part);
            taken(&mut backlog);
            most = most.max(backlog.weight());
        }
        assert!(!backlog.slots.has_free());
        let held: usize = backlog.lanes.iter_mut().map(Lane::let_go).sum::<usize>()
            + backlog.slots.pending().map(Pending::held).sum::<usize>();
        let allowed = SINK_WAITING_BYTES + 8 * 2 * (1 << 20);
        assert!((allowed..allowed + one).contains(&most), "{most}, {allowed} and {one} allowed");
        assert!(held < allowed + one, "{held} held, {allowed} and {one} allowed");
        answered(&mut backlog);
        assert!(backlog.has_room());
    }
}

#[test]
fn a_row_that_is_held_up_does_not_keep_what_others_have_delivered() {
    // A share that is a delivery by itself is not copied.
    for max_events in [1_000, 1] {
        of_a_row_that_is_held_up(max_events);
    }
}

fn of_a_row_that_is_held_up(max_events: usize) {
    let mut backlog = Backlog::new(Some(batching(max_events, 1 << 20, Duration::ZERO)));
    backlog.begin(2, true, backlog.batching);
    for number in 0..100 {
        let is_first = number == 0;
        // Of the first stream there is little in each batch, and much of the second.
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"little");
        (0..63).for_each(|_| batch.stream(2).push_message(&[b'x'; 16 << 10]));
        let outgoing = Some(batch.clone());
        let part = Part::new(InFlight::new(batch, Token::untracked()), outgoing);
        backlog.push(part);
        if is_first {
            let held_up = backlog.take_next().unwrap();
            begin(&mut backlog, held_up);
        }
        while let Some(pending) = backlog.take_next() {
            pending.settle();
        }
        if backlog.keeps_much() {
            backlog.let_go();
        }
    }
    assert_eq!(backlog.waiting_events(), 99);
    let waiting = backlog.lanes.drain(..).flat_map(Lane::into_waiting);
    let held: usize = waiting.map(|pending| pending.held()).sum();
    assert!(held < SINK_WAITING_BYTES * 5 / 4, "{held} bytes");
}

/// What the peer does next.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Delivered,
    Failed,
    /// There is another connection, with so many slots.
    Connected(usize),
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Delivered),
        4 => Just(Answer::Failed),
        1 => (1..5usize).prop_map(Answer::Connected),
    ]
}

proptest! {
    #[test]
    fn every_event_is_delivered_once_and_each_stream_in_order(
        batches in prop::collection::vec(prop::collection::vec(0..5u64, 1..9), 0..30),
        slots in 1..5usize,
        limits in prop::option::of((1..9usize, 1..40usize)),
        steps in prop::collection::vec((0..4usize, answer()), 0..100),
    ) {
        let limits = limits.map(|(events, bytes)| batching(events, bytes, Duration::ZERO));
        let mut backlog = Backlog::new(limits);
        backlog.begin(slots, true, backlog.batching);
        let (mut came, mut went) = (BTreeMap::new(), BTreeMap::new());
        let mut number = 0;
        let mut delivered = |pending: Pending| {
            for message in messages(pending) {
                let (stream, number) = message.split_once(' ').unwrap();
                let of_stream = went.entry(stream.parse().unwrap()).or_insert_with(Vec::new);
                of_stream.push(number.parse::<u64>().unwrap());
            }
        };
        let mut batches = batches.iter();
        let mut steps = steps.into_iter();
        loop {
            if let Some(batch) = batches.next() {
                let first = number;
                let message = |position| format!("{} {}", batch[position], first + position);
                backlog.push(part(batch, message));
                for stream in batch {
                    came.entry(*stream).or_insert_with(Vec::new).push(number as u64);
                    number += 1;
                }
            }
            while let Some(pending) = backlog.take_next() {
                if let Some(limits) = limits {
                    prop_assert!(pending.events() <= limits.max_events.get());
                }
                begin(&mut backlog, pending);
            }
            prop_assert!(!backlog.slots.is_empty() || backlog.is_empty());
            let (at, answer) = steps.next().unwrap_or((0, Answer::Delivered));
            match answer {
                Answer::Connected(other) => {
                    for pending in answered(&mut backlog) {
                        backlog.put_back(pending);
                    }
                    backlog.begin(other, true, backlog.batching);
                }
                Answer::Delivered => backlog.slots.take(at).into_iter().for_each(&mut delivered),
                Answer::Failed => {
                    if let Some(pending) = backlog.slots.take(at) {
                        backlog.put_back(pending);
                    }
                }
            }
            if backlog.is_empty() && batches.len() == 0 {
                break;
            }
        }
        prop_assert_eq!(came, went);
        prop_assert_eq!(backlog.events(), 0);
    }
}

/// Cutting off delivery after delivery would copy all events that are left each time: 800 million here.
#[test]
fn cutting_a_batch_into_deliveries_is_not_quadratic() {
    const EVENTS: usize = 40_000;
    for (max_events, max_bytes) in [(1, usize::MAX), (7, usize::MAX), (usize::MAX, 20)] {
        let mut backlog = Backlog::new(Some(batching(max_events, max_bytes, Duration::ZERO)));
        backlog.begin(1, true, backlog.batching);
        CUT_EVENTS.set(0);
        backlog.push(part(&vec![1; EVENTS], |position| format!("{position:05}")));
        let (mut found, mut waiting) = (Vec::new(), 0);
        while let Some(pending) = backlog.take_next() {
            waiting = waiting.max(backlog.lanes[0].len());
            let messages = messages(pending);
            let is_last = backlog.is_empty();
            let full = if max_bytes == 20 { 4 } else { max_events };
            assert!(messages.len() == full || is_last, "{} events", messages.len());
            found.extend(messages);
        }
        assert!(found.into_iter().eq((0..EVENTS).map(|position| format!("{position:05}"))));
        assert!(CUT_EVENTS.get() <= 20 * EVENTS, "{} events were copied", CUT_EVENTS.get());
        assert!(waiting <= 20, "{waiting} parts waited");
    }
}
