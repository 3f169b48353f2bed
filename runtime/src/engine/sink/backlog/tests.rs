//! Tests of the order and the size of a sink's deliveries.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use proptest::prelude::*;
use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use super::{Backlog, Batching, Lane, Part, Pending, SINK_WAITING_BYTES};
use crate::clock::Clock;
use crate::engine::sink::pending::{CUT_EVENTS, State};
use crate::engine::{
    retry::backoff::{Attempts, Policy},
    tracking::token::{InFlight, Token},
};

fn batching(max_events: usize, max_bytes: usize, linger: Duration) -> Batching {
    let count = |count| NonZeroUsize::new(count).unwrap();
    Batching { max_events: count(max_events), max_bytes: count(max_bytes), linger }
}

/// Returns a part with one message of each stream in `streams`.
fn part(streams: &[u64], message: impl Fn(usize) -> String) -> Part {
    let mut batch = Batch::new();
    for (position, stream) in streams.iter().enumerate() {
        batch.stream(*stream).push_message(message(position).as_bytes());
    }
    let outgoing = Some(batch.clone());
    Part::new(InFlight::new(batch, Token::untracked()), outgoing)
}

fn backlog(batches: &[&[u64]], slots: usize, batching: Option<Batching>) -> Backlog {
    let mut backlog = Backlog::new(batching, Clock::simulated(0));
    backlog.begin(slots, true, backlog.batching);
    for (number, streams) in batches.iter().enumerate() {
        backlog.push(part(streams, |_| number.to_string()));
    }
    backlog
}

/// Checks that the encoded form of a delivery has the same messages as its events, and returns them.
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

/// Begins all deliveries that may be in flight now, and returns the indexes of their batches.
fn taken(backlog: &mut Backlog) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(pending) = backlog.take_next() {
        numbers.push(pending.sequence - 1);
        begin(backlog, pending);
    }
    numbers
}

fn begin(backlog: &mut Backlog, mut pending: Pending) {
    if matches!(pending.state, State::Returned { .. }) {
        let mut encoded = Batch::new();
        pending.items_mut().for_each(|item| encoded.append(item.batch.clone()));
        pending.state = State::Encoded { encoded };
    }
    pending.begin(None);
    backlog.slots.put(pending);
}

/// Answers all deliveries in flight.
fn answered(backlog: &mut Backlog) -> Vec<Pending> {
    std::iter::from_fn(|| backlog.slots.take_nth(0)).collect()
}

#[test]
fn large_delivery_is_filled_beyond_the_waiting_limit() {
    let most = 2 * SINK_WAITING_BYTES;
    let mut backlog =
        Backlog::new(Some(batching(1 << 20, most, Duration::from_hours(1))), Clock::simulated(0));
    backlog.begin(1, true, backlog.batching);
    let message = "x".repeat(1 << 20);
    let mut bytes = 0;
    while backlog.has_capacity() {
        backlog.push(part(&[1], |_| message.clone()));
        bytes += message.len();
        assert!(bytes <= 2 * most, "the backlog accepts more than two deliveries");
    }
    let delivery = backlog.take_next().unwrap();
    assert_eq!(delivery.events(), most >> 20);
}

#[test]
fn storage_of_a_full_delivery_is_reused() {
    let limits = batching(16 << 10, 2 << 20, Duration::from_hours(1));
    let mut backlog = backlog(&[], 1, Some(limits));
    let delivery = loop {
        if let Some(delivery) = backlog.take_next() {
            break delivery;
        }
        backlog.push(part(&[1; 1_000], |_| "x".repeat(128)));
    };
    assert_eq!(delivery.events(), 16 << 10);
    delivery.settle();
    assert_eq!(backlog.pool.waiting(), 1);
}

#[test]
fn streams_are_parallel_and_batches_of_a_stream_sequential() {
    let mut backlog = backlog(&[&[1], &[1, 2], &[3], &[3, 1]], 4, None);
    // The second and the fourth batch are divided among lanes. Their shares of stream 1 wait for the first batch.
    assert_eq!(taken(&mut backlog), [0, 1, 2]);
    assert_eq!(backlog.waiting_events(), 3);
    backlog.slots.take_nth(0).unwrap().settle();
    assert_eq!(taken(&mut backlog), [1]);
    answered(&mut backlog);
    assert_eq!(taken(&mut backlog), [3, 3]);
    assert!(!backlog.has_waiting());
}

#[test]
fn retried_delivery_delays_only_its_own_streams() {
    let mut backlog = backlog(&[&[1], &[2], &[1]], 2, None);
    let mut first = backlog.take_next().unwrap();
    let later = backlog.clock.now() + Duration::from_hours(1);
    first.state = State::Returned { due: Some(later) };
    backlog.put_back(first);
    assert_eq!(taken(&mut backlog), [1]);
    assert_eq!(backlog.next_due(), Some(later));
    backlog.begin(2, true, backlog.batching);
    assert_eq!(taken(&mut backlog), [0]);
}

#[test]
fn waiting_batches_keep_their_order_if_slots_change() {
    let mut backlog = backlog(&[&[1], &[2], &[1, 2], &[2]], 2, None);
    backlog.begin(1, true, backlog.batching);
    let mut numbers = Vec::new();
    while let Some(pending) = backlog.take_next() {
        numbers.extend(messages(pending));
    }
    assert_eq!(numbers, ["0", "1", "2", "2", "3"]);
}

#[test]
fn attempts_are_kept_if_the_number_of_slots_changes() {
    let policy = Policy { attempts: Some(1), first: Duration::ZERO, max: Duration::ZERO };
    let mut backlog = backlog(&[&[1, 2]], 1, None);
    let mut failed = backlog.take_next().unwrap();
    assert!(failed.attempts.get_or_insert_with(|| Attempts::new(policy).into()).fail());
    failed.begin(None);
    backlog.put_back(failed);
    backlog.begin(2, true, backlog.batching);
    assert_eq!(taken(&mut backlog).len(), 2, "the delivery is divided");
    for mut pending in answered(&mut backlog) {
        assert!(!pending.attempts.take().unwrap().fail(), "no attempt is left");
    }
}

#[test]
fn small_batches_are_joined_and_large_ones_are_split() {
    let limits = Some(batching(3, 100, Duration::from_hours(1)));
    let mut backlog = backlog(&[&[1], &[1], &[1; 2], &[1; 5]], 1, limits);
    let mut next = || backlog.take_next().map(messages);
    assert_eq!(next().unwrap(), ["0", "1", "2"]);
    assert_eq!(next().unwrap(), ["2", "3", "3"]);
    assert_eq!(next().unwrap(), ["3", "3", "3"]);
    assert!(next().is_none());
    backlog.push(part(&[1], |_| "4".to_owned()));
    assert!(backlog.take_next().is_none(), "the delivery waits for more batches");
    assert_eq!(backlog.next_due(), Some(backlog.clock.now() + Duration::from_hours(1)));
    assert!(backlog.complete(), "no more batches follow");
    assert_eq!(backlog.take_next().map(messages).unwrap(), ["4"]);
    assert!(backlog.is_empty() && backlog.events() == 0);
}

#[test]
fn full_size_batch_is_not_copied_if_no_delivery_is_filling() {
    let limits = Some(batching(2, 100, Duration::from_hours(1)));
    let mut backlog = backlog(&[], 1, limits);
    for (count, is_uncopied) in [(5, true), (1, false), (2, true)] {
        let part = part(&vec![1; count], |_| "x".to_owned());
        let original = part.outgoing.as_ref().unwrap().bytes().as_ptr_range();
        backlog.push(part);
        while let Some(mut pending) = backlog.take_next() {
            let outgoing = pending.take_encoded().unwrap();
            assert_eq!(outgoing.len(), 2);
            assert_eq!(original.contains(&outgoing.bytes().as_ptr()), is_uncopied, "{count}");
        }
    }
    assert!(backlog.is_empty());
}

#[test]
fn oversized_batch_is_cut_only_as_its_deliveries_leave() {
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
fn edited_value_is_only_in_the_delivery_of_its_event() {
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
        let mut backlog =
            Backlog::new(Some(batching(max_events, 1 << 20, Duration::ZERO)), Clock::simulated(0));
        backlog.begin(4, true, backlog.batching);
        for events in [60, 3, 70] {
            backlog.push(edited(events));
        }
        // The next connection has one lane, to which the deliveries of the four lanes are moved.
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
fn delivery_leaves_after_its_linger_time() {
    let limits = Some(batching(3, 100, Duration::ZERO));
    let mut at_once = backlog(&[&[1], &[1]], 1, limits);
    assert_eq!(at_once.take_next().map(messages).unwrap(), ["0", "1"]);
}

#[test]
fn delivery_is_within_max_bytes_unless_one_event_is_larger() {
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
fn few_events_wait_if_they_retain_much_memory() {
    let mut backlog = backlog(&[], 1, Some(batching(1_000, 1 << 20, Duration::from_hours(1))));
    let mut count = 0;
    while backlog.has_capacity() {
        let mut large = part(&[0; 2], |_| "x".repeat(1 << 20));
        large.item.batch.retain(|_| false);
        large.item.batch = part(&[0], |_| "y".repeat(1 << 20)).item.batch;
        large.outgoing = part(&[0], |_| "z".to_owned()).outgoing;
        backlog.push(large);
        count += 1;
    }
    assert_eq!(count, SINK_WAITING_BYTES >> 20);
    assert_eq!(backlog.take_next().unwrap().events(), count);
    assert!(backlog.has_capacity());
}

#[test]
fn share_of_a_batch_does_not_retain_the_other_shares() {
    let limits = batching(100, 1 << 20, Duration::from_hours(1));
    let (pool, mut backlog) = (Pool::new(100), Backlog::new(Some(limits), Clock::simulated(0)));
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
    assert_eq!(pool.waiting(), 2, "storages of divided batches are reused immediately");
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
fn waiting_and_in_flight_batches_stay_within_the_memory_limit() {
    for is_divided in [true, false] {
        let mut backlog = backlog(&[], 8, Some(batching(1_000, 1 << 20, Duration::from_hours(1))));
        let mut streams = (0..64).cycle();
        let (mut most, mut one) = (0, 0);
        while backlog.has_capacity() {
            let streams: Vec<u64> = if is_divided {
                streams.by_ref().take(64).collect()
            } else {
                vec![streams.next().unwrap(); 64]
            };
            // The encoded form is much smaller than the events.
            let mut part = part(&streams, |_| "x".repeat(6_000));
            part.outgoing = self::part(&streams, |_| "y".repeat(500)).outgoing;
            part.weigh();
            one = part.weight;
            backlog.push(part);
            taken(&mut backlog);
            most = most.max(backlog.weight());
        }
        assert!(!backlog.slots.has_free());
        let retained: usize = backlog.lanes.iter_mut().map(Lane::compact).sum::<usize>()
            + backlog.slots.pending().map(Pending::retained_bytes).sum::<usize>();
        let allowed = SINK_WAITING_BYTES + 8 * 2 * (1 << 20);
        assert!((allowed..allowed + one).contains(&most), "{most}, {allowed} and {one} allowed");
        assert!(retained < allowed + one, "{retained} retained, {allowed} and {one} allowed");
        answered(&mut backlog);
        assert!(backlog.has_capacity());
    }
}

#[test]
fn blocked_lane_does_not_retain_events_of_other_lanes() {
    // With a limit of one event, a share is a delivery by itself, so it is not copied when it is added.
    for max_events in [1_000, 1] {
        check_blocked_lane(max_events);
    }
}

fn check_blocked_lane(max_events: usize) {
    let mut backlog =
        Backlog::new(Some(batching(max_events, 1 << 20, Duration::ZERO)), Clock::simulated(0));
    backlog.begin(2, true, backlog.batching);
    for number in 0..100 {
        let is_first = number == 0;
        // Each batch has little data of the first stream and much of the second.
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"little");
        (0..63).for_each(|_| batch.stream(2).push_message(&[b'x'; 16 << 10]));
        let outgoing = Some(batch.clone());
        let part = Part::new(InFlight::new(batch, Token::untracked()), outgoing);
        backlog.push(part);
        if is_first {
            let blocking = backlog.take_next().unwrap();
            begin(&mut backlog, blocking);
        }
        while let Some(pending) = backlog.take_next() {
            pending.settle();
        }
        if backlog.should_compact() {
            backlog.compact();
        }
    }
    assert_eq!(backlog.waiting_events(), 99);
    let waiting = backlog.lanes.drain(..).flat_map(Lane::into_waiting);
    let retained: usize = waiting.map(|pending| pending.retained_bytes()).sum();
    assert!(retained < SINK_WAITING_BYTES * 5 / 4, "{retained} bytes");
}

/// An action of the peer.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Delivered,
    Failed,
    /// The sink was reconnected and has this number of slots.
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
        let mut backlog = Backlog::new(limits, Clock::simulated(0));
        backlog.begin(slots, true, backlog.batching);
        let (mut pushed, mut received) = (BTreeMap::new(), BTreeMap::new());
        let mut number = 0;
        let mut delivered = |pending: Pending| {
            for message in messages(pending) {
                let (stream, number) = message.split_once(' ').unwrap();
                let of_stream = received.entry(stream.parse().unwrap()).or_insert_with(Vec::new);
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
                    pushed.entry(*stream).or_insert_with(Vec::new).push(number as u64);
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
                Answer::Delivered => backlog.slots.take_nth(at).into_iter().for_each(&mut delivered),
                Answer::Failed => {
                    if let Some(pending) = backlog.slots.take_nth(at) {
                        backlog.put_back(pending);
                    }
                }
            }
            if backlog.is_empty() && batches.len() == 0 {
                break;
            }
        }
        prop_assert_eq!(pushed, received);
        prop_assert_eq!(backlog.events(), 0);
    }
}

/// If each delivery were cut off the front of all remaining events, 800 million events would be copied in this test.
#[test]
fn cutting_a_batch_into_deliveries_is_not_quadratic() {
    const EVENTS: usize = 40_000;
    for (max_events, max_bytes) in [(1, usize::MAX), (7, usize::MAX), (usize::MAX, 20)] {
        let mut backlog = Backlog::new(
            Some(batching(max_events, max_bytes, Duration::ZERO)),
            Clock::simulated(0),
        );
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
