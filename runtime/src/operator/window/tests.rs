use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Operator as _, Output, testing::TestHost};

use super::{Config, Windows};
use crate::operator::testing::{Bench, Ran, batch, creation_error, timed};

const MS: u64 = 1_000_000;

fn parsed(texts: &[String]) -> Vec<Json> {
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "written in place")]
fn counting(config: Json) -> Bench {
    let mut whole = json!({ "aggregates": { "n": { "function": "count" } } });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    Bench::new("window", whole)
}

/// Processes events, each with its time in ms and its group.
fn at(window: &mut Bench, events: &[(u64, &str)]) -> Ran {
    let events: Vec<_> = events.iter().map(|(ms, by)| (ms * MS, json!({ "by": by }))).collect();
    window.process(timed(&events))
}

/// Returns start in ms, end in ms, group and count of each row.
fn rows(texts: &[String]) -> Vec<(u64, u64, String, u64)> {
    let row = |row: Json| {
        let time = |key: &str| row["window"][key].as_u64().unwrap() / MS;
        let by = row["group"]["by"].as_str().unwrap_or("-").to_owned();
        assert_eq!(row["window"]["events"], row["n"]);
        (time("start"), time("end"), by, row["n"].as_u64().unwrap())
    };
    parsed(texts).into_iter().map(row).collect()
}

fn row(start: u64, end: u64, by: &str, n: u64) -> (u64, u64, String, u64) {
    (start, end, by.to_owned(), n)
}

#[test]
fn time_window_emits_its_groups_when_the_next_begins() {
    let mut window = counting(json!({ "every": "10ms", "by": ["by"] }));
    let ran = at(&mut window, &[(12, "a"), (13, "b"), (19, "a")]);
    assert_eq!((ran.out.len(), ran.buffered), (0, 3));
    let ran = at(&mut window, &[(20, "b"), (55, "a")]);
    let expected = [row(10, 20, "a", 2), row(10, 20, "b", 1), row(20, 30, "b", 1)];
    assert_eq!(
        rows(&ran.out),
        expected,
        "an event at the end of a window belongs to the next window"
    );
    assert_eq!(rows(&window.flush().out), [row(50, 60, "a", 1)]);
}

#[test]
fn time_window_without_further_events_ends_on_time() {
    let mut window = counting(json!({ "every": "10ms", "by": ["by"] }));
    assert_eq!(window.operator.due(), None);
    at(&mut window, &[(12, "a")]);
    assert_eq!(window.operator.due(), Some(20 * MS));
    assert!(window.on_time(20 * MS - 1).out.is_empty());
    assert_eq!(rows(&window.on_time(20 * MS).out), [row(10, 20, "a", 1)]);
    assert_eq!(window.operator.due(), None);
    let ran = at(&mut window, &[(19, "a"), (20, "a")]);
    assert_eq!(
        (ran.port("late").len(), ran.buffered),
        (1, 1),
        "an event after the end of its window is late"
    );
}

#[test]
fn late_events_leave_by_port_late() {
    let mut window = counting(json!({ "every": "10ms", "by": ["by"] }));
    let ran = at(&mut window, &[(50, "a"), (49, "b"), (50, "a"), (0, "b"), (59, "a")]);
    assert_eq!(ran.port("late"), [r#"{"by":"b"}"#, r#"{"by":"b"}"#]);
    assert_eq!(ran.buffered, 3);
    assert_eq!(rows(&window.flush().out), [row(50, 60, "a", 3)]);
}

#[test]
fn last_representable_window_does_not_overflow() {
    let mut window = counting(json!({ "every": "10ms" }));
    let ran = window.process(timed(&[(u64::MAX, json!(1)), (u64::MAX, json!(2))]));
    assert_eq!(ran.buffered, 2);
    assert_eq!(window.operator.due(), Some(u64::MAX));
    assert_eq!(window.on_time(u64::MAX).out.len(), 1);
}

#[test]
fn window_of_events_ends_per_group() {
    let mut window = counting(json!({ "events": 2, "by": ["by"] }));
    let ran = at(&mut window, &[(5, "a"), (7, "b"), (6, "a"), (1, "a"), (0, "b")]);
    assert_eq!(rows(&ran.out), [row(5, 6, "a", 2), row(7, 0, "b", 2)]);
    assert_eq!((ran.merged, ran.buffered, window.operator.due()), (4, 1, None));
    let rest = window.flush();
    assert_eq!(rows(&rest.out), [row(1, 1, "a", 1)]);
    assert_eq!(parsed(&rest.out)[0]["window"]["partial"], true);
}

#[test]
fn groups_are_identified_by_any_or_missing_values() {
    let config = json!({
        "events": 2,
        "by": ["a.b", "%class"],
        "aggregates": { "last": { "function": "last", "field": "n" } },
    });
    let mut window = Bench::new("window", config);
    let events = [
        json!({ "a": { "b": [1] }, "n": 1 }),
        json!({ "n": 2 }),
        json!({ "a": { "b": [1.0] }, "n": 3 }),
        json!({ "a": "text", "n": 4 }),
    ];
    let ran = window.process(batch(&events));
    let groups: Vec<_> =
        parsed(&ran.out).iter().map(|row| (row["group"].clone(), row["last"].clone())).collect();
    let expected = [
        (json!({ "a.b": [1], "%class": null }), json!(3)),
        (json!({ "a.b": null, "%class": null }), json!(4)),
    ];
    assert_eq!(groups, expected);
}

#[test]
fn missing_fields_do_not_count_and_invalid_events_are_rejected() {
    let config = json!({
        "events": 3,
        "aggregates": {
            "n": { "function": "count" },
            "with_a": { "function": "count", "field": "a" },
            "sum": { "function": "sum", "field": "a" },
            "took": { "function": "percentiles", "field": "took", "at": [50, 99.9], "scale": 10 },
        },
    });
    let mut window = Bench::new("window", config);
    let events = [
        json!({ "a": 1, "took": 0.5 }),
        json!({ "a": "1", "took": 1 }),
        json!({ "a": null }),
        json!({ "a": 2, "took": -1 }),
        json!({ "a": 2 }),
    ];
    let ran = window.process(batch(&events));
    let expected = json!({
        "window": { "start": 0, "end": 0, "events": 3 },
        "n": 3, "with_a": 2, "sum": 3, "took": { "p50": 0.5, "p99.9": 0.5 },
    });
    assert_eq!(parsed(&ran.out), [expected]);
    assert_eq!(ran.merged, 3);
    assert!(ran.rejected[0].contains("`sum` expected a finite number at `a`, found \"1\""));
    assert!(ran.rejected[1].contains("`took` expected a number that is not negative"));
}

#[test]
fn oldest_group_beyond_limit_is_emitted_early() {
    let config = json!({
        "every": "1s", "by": [""], "max_groups": 1_000,
        "aggregates": { "n": { "function": "count" } },
    });
    let mut window = Windows::of(
        serde_json::from_value::<Config>(config).unwrap(),
        TestHost::new().host().memory(),
    )
    .unwrap();
    let mut emitted = 0;
    for round in 0..10_u64 {
        let events: Vec<_> = (0..1_000).map(|number| (0, round * 1_000 + number)).collect();
        let mut output = Output::new();
        window.process(&mut timed(&events), &mut output).unwrap();
        emitted += output.batches().map(Batch::len).sum::<usize>();
    }
    assert_eq!((emitted, window.groups.len()), (9_000, 1_000));
    assert_eq!(window.evictions.total(), 9_000);
}

/// Absorbs one event in each of 40 groups. The names of the groups have 50 KiB, and there is memory for twenty groups.
/// Returns the output of the call, and the operator.
fn with_large_groups(host: &TestHost, size: &Json) -> (Output, Windows) {
    host.set_memory_limit(1 << 20);
    let mut config = json!({ "by": [""], "aggregates": { "n": { "function": "count" } } });
    config.as_object_mut().unwrap().extend(size.as_object().unwrap().clone());
    let config = serde_json::from_value::<Config>(config).unwrap();
    let mut window = Windows::of(config, host.host().memory()).unwrap();
    let name = |group| format!("{group}{}", "x".repeat(50 << 10));
    let mut batch = timed(&(0..40).map(|group| (0, name(group))).collect::<Vec<_>>());
    let mut output = Output::new();
    window.process(&mut batch, &mut output).unwrap();
    assert!(batch.is_empty());
    (output, window)
}

fn emitted(output: &Output) -> usize {
    output.batches().map(Batch::len).sum()
}

#[test]
fn window_of_events_without_memory_emits_its_oldest_groups() {
    let host = TestHost::new();
    let (output, mut window) = with_large_groups(&host, &json!({ "events": 2 }));
    let count = emitted(&output);
    assert!((20..30).contains(&count), "{count} of 40");
    assert_eq!(count, 40 - window.groups.len());
    let row = output.batches().flatten().next().unwrap().value().unwrap().to_string();
    assert!(row.contains("\"partial\":true"), "{row}");
    assert!(host.memory() > 0 && host.memory() <= 1 << 20, "{}", host.memory());
    window.flush(&mut Output::new()).unwrap();
    assert!(host.memory() <= 64 << 10, "a block is kept");
}

#[test]
fn window_of_time_without_memory_is_counted_until_it_ends() {
    let host = TestHost::new();
    let (mut output, mut window) = with_large_groups(&host, &json!({ "every": "1s" }));
    assert_eq!((emitted(&output), window.groups.len()), (0, 40));
    assert!(host.memory() > 40 * (50 << 10), "{}", host.memory());
    window.on_time(1_000 * MS, &mut output).unwrap();
    assert_eq!((emitted(&output), window.groups.len()), (40, 0));
    assert!(output.batches().all(|it| it.weight() <= Batch::WEIGHT_AT_MOST + (1 << 20)));
    assert!(host.memory() <= 64 << 10, "a block is kept");
}

#[test]
fn invalid_configuration_is_reported_with_its_reason() {
    let with = |aggregate: Json| json!({ "events": 1, "aggregates": { "x": aggregate } });
    for (config, expected) in [
        (json!({ "aggregates": {} }), "exactly one of `every` and `events`"),
        (json!({ "every": "1s", "events": 1, "aggregates": {} }), "exactly one of"),
        (json!({ "every": "1", "aggregates": {} }), "`every`: expected a time with its unit"),
        (with(json!({ "function": "sum" })), "`aggregates.x`: expected the `field`"),
        (with(json!({ "function": "median", "field": "a" })), "unknown variant `median`"),
        (with(json!({ "function": "sum", "field": "a", "at": [1] })), "are for `percentiles`"),
        (with(json!({ "function": "percentiles", "field": "a", "at": [101] })), "at most 100"),
        (with(json!({ "function": "percentiles", "field": "a", "scale": 0 })), "above 0"),
        (
            json!({ "events": 1, "aggregates": { "group": { "function": "count" } } }),
            "`aggregates.group`: expected another name",
        ),
    ] {
        let error = creation_error("window", &config);
        assert!(error.contains(expected), "{config}: {error}");
    }
}

proptest! {
    #[test]
    fn ordered_events_are_in_the_window_of_their_time(
        steps in prop::collection::vec((0..15u64, 0..3u64), 0..100),
        length in 1..20u64,
        cut in 1..10usize,
    ) {
        let config = json!({
            "every": format!("{length}ms"), "by": ["by"],
            "aggregates": {
                "n": { "function": "count" },
                "sum": { "function": "sum", "field": "n" },
                "first": { "function": "first", "field": "n" },
                "last": { "function": "last", "field": "n" },
            },
        });
        let mut window = Bench::new("window", config);
        let (mut now, mut events) = (0, Vec::new());
        let mut expected: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for (n, (step, by)) in (0_u64..).zip(steps) {
            now += step;
            expected.entry((now / length, by)).or_default().push(n);
            events.push((now * MS, json!({ "by": by, "n": n })));
        }
        let mut found = BTreeMap::new();
        let mut texts = Vec::new();
        for events in events.chunks(cut) {
            texts.extend(window.process(timed(events)).out);
        }
        texts.extend(window.flush().out);
        for row in parsed(&texts) {
            let number = |value: &Json| value.as_u64().unwrap();
            let key = (number(&row["window"]["start"]) / MS / length, number(&row["group"]["by"]));
            let values = ["n", "sum", "first", "last"].map(|name| number(&row[name]));
            prop_assert!(found.insert(key, values).is_none(), "a window twice");
        }
        let expected: BTreeMap<_, _> = expected
            .into_iter()
            .map(|(key, n)| (key, [n.len() as u64, n.iter().sum(), n[0], n[n.len() - 1]]))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
