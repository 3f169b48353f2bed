use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::json;
use tremor_pdk::{Batch, Operator as _, Output, Value, literal};

use super::{Bucket, Config};
use crate::operator::testing::{Bench, with_metadata};

const SECOND: u64 = 1_000_000_000;

fn limited(rate: i64, dimension: &'static str) -> Value<'static> {
    literal!({ "class": "c", "rate": rate, "dimensions": dimension })
}

/// Processes the events, each with its time, and returns the positions of the events that pass.
fn passing(bucket: &mut Bench, events: &[(u64, Value<'static>)]) -> Vec<usize> {
    let ran = bucket.process(with_metadata(events));
    assert_eq!(ran.out.len() + ran.port("overflow").len() + ran.rejected.len(), events.len());
    assert_eq!(ran.discarded, 0);
    ran.out.iter().map(|position| position.parse().unwrap()).collect()
}

#[test]
fn events_above_rate_within_a_window_overflow() {
    let mut bucket = Bench::new("bucket", json!({}));
    let events = [0, 1, 2, 3].map(|time| (time, limited(2, "a")));
    assert_eq!(passing(&mut bucket, &events), [0, 1]);
    assert_eq!(passing(&mut bucket, &events), [0; 0], "the window has not ended");
}

#[test]
fn window_begins_with_event_and_excludes_its_end() {
    let mut bucket = Bench::new("bucket", json!({ "window": "1s" }));
    let start = 500;
    let times =
        [start, start + SECOND - 1, start + SECOND, start + 2 * SECOND - 1, start + 2 * SECOND];
    let events = times.map(|time| (time, limited(1, "a")));
    assert_eq!(passing(&mut bucket, &events), [0, 2, 4]);
}

#[test]
fn each_class_and_dimension_has_its_own_window() {
    let mut bucket = Bench::new("bucket", json!({}));
    let of = |class: i64, dimensions: Value<'static>| {
        (0, literal!({ "class": class, "rate": 1, "dimensions": dimensions }))
    };
    let events = [
        of(1, literal!("a")),
        of(1, literal!("b")),
        of(2, literal!("a")),
        of(1, literal!(["a", "b"])),
        of(1, literal!(["b", "a"])),
        of(1, literal!({ "x": 1 })),
        of(1, literal!(null)),
        of(1, literal!("a")),
        of(1, literal!(["a", "b"])),
        (0, literal!({ "class": 1, "rate": 1 })),
    ];
    assert_eq!(
        passing(&mut bucket, &events),
        [0, 1, 2, 3, 4, 5, 6],
        "missing dimensions count as null"
    );
}

#[test]
fn rate_of_the_current_event_applies() {
    let mut bucket = Bench::new("bucket", json!({}));
    let events = [1, 1, 3, 0, 3, 3].map(|rate| (0, limited(rate, "a")));
    assert_eq!(passing(&mut bucket, &events), [0, 2, 4]);
    let floats = [(SECOND, literal!({ "class": 1, "rate": 1.0 }))];
    assert_eq!(passing(&mut bucket, &floats), [0], "1.0 is a whole number");
}

#[test]
fn stopped_clock_keeps_window_and_jump_back_begins_one() {
    let mut bucket = Bench::new("bucket", json!({}));
    let at = |time| (time, limited(1, "a"));
    assert_eq!(passing(&mut bucket, &[at(10 * SECOND), at(10 * SECOND)]), [0]);
    let back = [at(9 * SECOND + 1), at(9 * SECOND), at(9 * SECOND), at(10 * SECOND - 1)];
    assert_eq!(
        passing(&mut bucket, &back),
        [1],
        "a time that is less than a window earlier is in the window"
    );
    assert_eq!(passing(&mut bucket, &[at(0), at(0), at(u64::MAX), at(u64::MAX)]), [0, 2]);
}

#[test]
fn event_without_class_or_valid_rate_is_rejected() {
    let mut bucket = Bench::new("bucket", json!({ "rate": "%limit" }));
    let events = [
        literal!({ "class": "a" }),
        literal!({ "limit": 1 }),
        literal!({ "class": null, "limit": 1 }),
        literal!({ "class": "a", "limit": "1" }),
        literal!({ "class": "a", "limit": -1 }),
        literal!({ "class": "a", "limit": 1.5 }),
        literal!("no object"),
    ];
    let ran = bucket.process(with_metadata(&events.map(|metadata| (0, metadata))));
    let expected = [
        "no rate: expected one at `%limit`",
        "no class: expected one at `%class`",
        "no class",
        "invalid rate at `%limit`",
        "found -1",
        "found 1.5",
        "no class",
    ];
    assert_eq!(ran.rejected.len(), expected.len());
    for (error, expected) in ran.rejected.iter().zip(expected) {
        assert!(error.contains(expected), "{error}");
    }
    let mut plain = Batch::new();
    plain.push(&1).unwrap();
    assert!(
        bucket.process(plain).rejected[0].contains("no class"),
        "an event without metadata is rejected"
    );
}

#[test]
fn fields_can_be_in_the_payload() {
    let config = json!({ "class": "kind", "rate": "limit", "dimensions": "by" });
    let mut bucket = Bench::new("bucket", config);
    let event = json!({ "kind": 1, "limit": 1, "by": [1] });
    let ran = bucket.process(crate::operator::testing::batch(&[event.clone(), event]));
    assert_eq!((ran.out.len(), ran.port("overflow").len()), (1, 1));
}

fn bucket(config: serde_json::Value) -> Bucket {
    Bucket::of(serde_json::from_value::<Config>(config).unwrap())
}

#[test]
fn oldest_dimensions_are_evicted_and_counted() {
    let mut bucket = bucket(json!({ "max_dimensions": 1_000 }));
    let mut passes = |dimension: u64| {
        bucket.key.clear();
        bucket.key.push(Some(Value::from(dimension).view()));
        let passes = bucket.passes(0, 1);
        (passes, bucket.windows.len(), bucket.evictions.total())
    };
    for dimension in 0..20_000 {
        assert!(passes(dimension).0, "the first event of each dimension passes");
    }
    assert_eq!(passes(19_999), (false, 1_000, 19_000), "the newest dimensions are still counted");
    assert_eq!(passes(0), (true, 1_000, 19_001), "the oldest dimensions were evicted");
}

#[test]
fn eviction_of_ended_window_is_not_counted() {
    let mut bucket = bucket(json!({ "max_dimensions": 1 }));
    let mut output = Output::new();
    let events = [(0, limited(1, "a")), (SECOND, limited(1, "b")), (SECOND, limited(1, "a"))];
    bucket.process(&mut with_metadata(&events), &mut output).unwrap();
    assert_eq!(bucket.evictions.total(), 1, "only the window of `b` was evicted before its end");
}

proptest! {
    /// Compares the operator with a direct implementation of its rule.
    #[test]
    fn bucket_behaves_like_a_map_of_windows(
        events in prop::collection::vec((0..60u64, 0..3i64, 0..4i64, 0..4i64), 0..300),
        length in 1..20u64,
    ) {
        let mut bucket = Bench::new("bucket", json!({ "window": format!("{length}ms") }));
        let mut windows: HashMap<(i64, i64), (u64, i64)> = HashMap::new();
        let mut expected = Vec::new();
        let mut batch = Vec::new();
        for (position, (time, class, dimension, rate)) in events.into_iter().enumerate() {
            let metadata = literal!({ "class": class, "rate": rate, "dimensions": [dimension] });
            batch.push((time * 1_000_000, metadata));
            let (start, count) = windows.entry((class, dimension)).or_insert((time, 0));
            if time.abs_diff(*start) >= length {
                (*start, *count) = (time, 0);
            }
            if *count < rate {
                *count += 1;
                expected.push(position);
            }
        }
        prop_assert_eq!(passing(&mut bucket, &batch), expected);
    }
}
