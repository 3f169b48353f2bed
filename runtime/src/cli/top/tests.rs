//! Tests of the screen of `tremor top`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Flows, Rates, lines, short};

fn flows(taken: u64, delivered: u64) -> Flows {
    let events = json!({
        "taken": taken, "created": 0, "delivered": delivered, "dead_lettered": 0, "discarded": 0,
        "merged": 0, "failed": 0, "dropped": 0, "in_flight": 0,
    });
    let component = json!({ "name": "c", "role": "sink", "events": events, "bytes": 1 });
    let connector = json!({ "name": "c", "state": "paused", "restarts": 0 });
    let flow = json!({
        "name": "f", "state": "running", "connectors": [connector], "components": [component],
    });
    serde_json::from_value(json!({ "flows": [flow] })).unwrap()
}

#[test]
fn rates_need_two_queries() {
    let (mut rates, now) = (Rates::default(), Instant::now());
    let first = rates.of(&flows(10, 10), now);
    assert!(first[0].rates.is_none() && first[0].name == "f/c" && first[0].state == "paused");
    let later = rates.of(&flows(110, 60), now + Duration::from_secs(2));
    assert_eq!(later[0].rates, Some((50.0, 25.0)));
}

#[test]
fn large_numbers_are_shortened_with_a_unit() {
    let numbers = [0.0, 0.5, 99.0, 123.4, 9_999.0, 12_345.0, 1_234_567.0, 2e9];
    let expected = ["0", "0.5", "99.0", "123", "9999", "12.3k", "1.23M", "2.00G"];
    assert_eq!(numbers.map(short), expected);
}

#[test]
fn number_of_any_size_has_at_most_six_characters() {
    let rounded = [999_949.0, 999_951.0, 99_994_000.0, 99_996_000.0, 123_456_789.0, 1e9, 999.96e9];
    let expected = ["999.9k", "1.00M", "99.99M", "100.0M", "123.5M", "1.00G", "1.00T"];
    assert_eq!(rounded.map(short), expected);
    let mut number = 0.01;
    while number < 1.9e19 {
        assert!(short(number).len() <= 6, "{number}: {}", short(number));
        number *= 1.003;
    }
}

fn waiting(source: &str, sink: &str) -> Flows {
    let events = json!({
        "taken": u64::MAX, "delivered": 0, "dead_lettered": u64::MAX, "discarded": 0,
        "failed": u64::MAX, "dropped": 0, "in_flight": i64::MAX,
    });
    let component = |name, role, queue| {
        let mut events = events.clone();
        events["dropped"] = json!(if role == "sink" { 7 } else { 0 });
        json!({ "name": name, "role": role, "events": events, "queue": queue })
    };
    let waits = json!([{ "sink": sink, "reason": "connecting", "seconds": 12.3 }]);
    let connectors = json!([
        { "name": source, "state": "running", "restarts": 0, "waits_for": waits },
        { "name": sink, "state": "connecting", "restarts": 0 },
    ]);
    let components = json!([
        component(source, "source", json!(null)),
        component(sink, "sink", json!({ "events": u64::MAX })),
    ]);
    let flow = json!({
        "name": "orders", "state": "running", "connectors": connectors, "components": components,
    });
    serde_json::from_value(json!({ "flows": [flow] })).unwrap()
}

fn screen(flows: &Flows, columns: usize) -> Vec<String> {
    let mut rates = Rates::default();
    rates.of(flows, Instant::now());
    let rows = rates.of(flows, Instant::now() + Duration::from_secs(1));
    lines("host", &rows, flows, None, columns).into_iter().map(|line| line.text).collect()
}

#[test]
fn screen_of_80_columns_has_all_columns_aligned() {
    let shown = screen(&waiting("from_customers", "out"), 80);
    let expected = [
        "tremor at host; q quits",
        "COMPONENT       ROLE     STATE           IN/s  OUT/s QUEUED FLIGHT   DEAD FAILED",
        "orders/…stomers source   waits for out      0      0         9.22E 18.45E 18.45E",
        "orders/out      sink     connecting         0      0 18.45E  9.22E 18.45E 18.45E",
        "orders/out dropped 7 events",
        "orders/from_customers: waits for out, connecting for 12 s",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn queue_on_disk_is_shown_with_its_age_and_damage() {
    let mut flows = waiting("in", "out");
    let stored = json!({
        "at_start": 5, "now": 70, "redelivered": 0, "bytes": 1_572_864, "oldest_seconds": 12.3,
        "damaged_parts": 0,
    });
    let mut show = |stored| {
        flows.flows[0].components[1].stored = Some(serde_json::from_value(stored).unwrap());
        screen(&flows, 80)[5].clone()
    };
    let expected = "orders/out has 70 events on disk, 1.5 MiB, the oldest for 12 s";
    assert_eq!(show(stored.clone()), expected);
    let mut damaged = stored;
    damaged["damaged_parts"] = json!(2);
    damaged["oldest_seconds"] = json!(null);
    damaged["redelivered"] = json!(3);
    let expected = "orders/out has 70 events on disk, 1.5 MiB, 3 redelivered, 2 damaged parts";
    assert_eq!(show(damaged), expected);
}

#[test]
fn retrying_source_shows_its_state_duration_and_error() {
    let mut flows = waiting("in", "out");
    let connector = json!({
        "name": "in", "state": "retrying", "state_seconds": 12.3, "restarts": 0, "error": "no answer",
    });
    flows.flows[0].connectors[0] = serde_json::from_value(connector).unwrap();
    let shown = screen(&flows, 80);
    assert!(shown[2].starts_with("orders/in       source   retrying "), "{shown:?}");
    let line = "orders/in: retrying for 12 s, last error: no answer";
    assert!(shown.iter().any(|it| it == line), "{shown:?}");
}

#[test]
fn error_behind_a_long_name_is_shown_on_several_lines() {
    let mut flows = waiting("in", "out");
    let error = format!("`POST http://collector/{}`: status 503", "x".repeat(60));
    let connector = json!({ "name": "out", "state": "running", "restarts": 0, "error": error });
    flows.flows[0].connectors[1] = serde_json::from_value(connector).unwrap();
    let shown = screen(&flows, 80);
    let [.., first, second] = &*shown else { panic!("{shown:?}") };
    assert!(first.starts_with("orders/out: last error: `POST ") && first.chars().count() == 80);
    assert!(second.starts_with("  xxx") && second.ends_with("status 503"), "{shown:?}");
}

#[test]
fn wide_screen_shows_whole_names_and_states() {
    let shown = screen(&waiting("from_customers", "archive_of_orders"), 120);
    let row = "orders/from_customers    source   waits for archive_of_orders      0      0";
    assert!(shown[2].starts_with(row), "{}", shown[2]);
    let narrow = screen(&waiting("from_customers", "archive_of_orders"), 81);
    assert!(narrow[1..4].iter().all(|line| line.chars().count() == 81), "{narrow:?}");
}

#[test]
fn state_of_waiting_source_is_one_word_in_a_row() {
    let rows = Rates::default().of(&waiting("in", "out"), Instant::now());
    assert_eq!((&*rows[0].state, &*rows[1].state), ("waiting", "connecting"));
    assert_eq!(rows[0].waits_for.as_deref(), Some("out"));
}
