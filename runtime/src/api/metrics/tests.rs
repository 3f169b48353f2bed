//! Tests that the text follows the rules of its format for all names and values.

#![expect(clippy::float_cmp, reason = "floats represent all of these numbers exactly")]

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use super::text;
use crate::{
    engine::{
        Awaited, BOUNDS, Component, ComponentCounts, FlowState, FlowStatus, Kind, Latencies, Queue,
        State, Status, Stored,
    },
    instance_metrics::OwnMetrics,
    memory::MemoryStatus,
    plugin::{Metric, MetricKind},
    reloads::{Action, Outcome, ReloadResult, ReloadStatus, Step},
};

/// Sample: name, labels and value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses the text and checks the rules of the format.
fn parse(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'));
    let (mut samples, mut families) = (Vec::new(), HashSet::new());
    let mut family = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && families.insert(name.to_owned()), "{line}");
            family = (name.to_owned(), String::new());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(
                name == family.0 && ["counter", "gauge", "summary", "histogram"].contains(&kind),
                "{line}"
            );
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            kind.clone_into(&mut family.1);
        } else {
            let sample = sample(line);
            let of = sample.0.strip_prefix(&family.0).unwrap_or_else(|| panic!("{line}"));
            let endings: &[&str] = match &*family.1 {
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["_sum", "_count"],
                _ => &[""],
            };
            assert!(endings.contains(&of) && sample.2.is_finite(), "{line}");
            let is_new =
                samples.iter().all(|(name, labels, _)| (name, labels) != (&sample.0, &sample.1));
            assert!(is_new, "{line}");
            samples.push(sample);
        }
    }
    samples
}

fn sample(line: &str) -> Sample {
    let (named, value) = line.rsplit_once(' ').unwrap();
    let (name, mut rest) = match named.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
        None => (named, ""),
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(name.chars().all(is_plain), "{line}");
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (label, text) = rest.split_once("=\"").unwrap();
        assert!(label.chars().all(is_plain), "{line}");
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in text.char_indices() {
            match c {
                _ if escaped => {
                    value.push(if c == 'n' { '\n' } else { c });
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(at);
                    break;
                }
                c => value.push(c),
            }
        }
        assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
        let after = &text[end.unwrap() + 1..];
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.to_owned(), labels, value.parse().unwrap())
}

fn find<'s>(samples: &'s [Sample], name: &str, labels: &[(&str, &str)]) -> Vec<&'s Sample> {
    let has = |of: &BTreeMap<String, String>| {
        labels.iter().all(|(label, text)| of.get(*label).is_some_and(|it| it == text))
    };
    samples.iter().filter(|(known, of, _)| known == name && has(of)).collect()
}

const ODD: &str = "a \"flow\"\nof \\ its own";

pub(in crate::api) fn flow() -> FlowStatus {
    let counts = ComponentCounts {
        taken: 10,
        created: 5,
        delivered: 7,
        letters: 1,
        dead_lettered: 2,
        discarded: 1,
        merged: 1,
        failed: 1,
        dropped: 2,
        dropped_at_end: 1,
        returned: 0,
        unrecoverable: 1,
        undelivered: 0,
        bytes: 1 << 60,
        busy_ns: 2_500_000_000,
        in_order_ns: 500_000_000,
    };
    let component = |kind, queue| {
        let latencies = (kind == Kind::Sink).then(|| Latencies {
            counts: [1; BOUNDS.len() + 1],
            sum: Duration::from_millis(1_500),
        });
        Component {
            name: "c".to_owned(),
            kind,
            counts,
            queue,
            latencies,
            replays_failed: None,
            stored: (kind == Kind::Sink).then_some(Stored {
                at_start: 5,
                now: 70,
                redelivered: 6,
                bytes: 4_096,
                oldest_seconds: Some(1.5),
                damaged_parts: 2,
                syncs: latencies.unwrap_or_default(),
            }),
        }
    };
    let errors = BTreeMap::from([("connection lost", 3)]);
    FlowStatus {
        given_up: Vec::new(),
        name: ODD.to_owned(),
        state: FlowState::Draining,
        connectors: vec![Status {
            connector: "c".to_owned(),
            state: State::Restarting,
            since: Instant::now(),
            error: None,
            restarts: 4,
            errors,
            retries: BTreeMap::from([(("pull", "timeout"), 5)]),
            is_tried: true,
            queued: 0,
            in_flight: 0,
            waits_for: vec![Awaited {
                sink: "out".to_owned(),
                reason: "queue full",
                since: Instant::now(),
                error: None,
                limit: None,
                bytes: None,
            }],
        }],
        components: vec![
            component(Kind::Source, None),
            component(Kind::Sink, Some(Queue { events: 3, bytes: 900 })),
        ],
        memory: MemoryStatus {
            limit: Some(1 << 30),
            is_short: true,
            components: vec![("c".to_owned(), 65_536)],
        },
        failure: None,
        long_turns: [(("in\"put".into(), "source".into()), 2)].into(),
    }
}

#[test]
fn text_is_valid_for_unusual_names_of_flows() {
    let samples = parse(&text(&[flow()], &[], &ReloadStatus::default()));
    let of_flow = [("flow", ODD), ("component", "c")];
    let states = find(&samples, "tremor_connector_state", &of_flow);
    assert_eq!(states.len(), State::ALL.len());
    assert_eq!(states.iter().map(|it| it.2).sum::<f64>(), 1.0);
    let state = find(&samples, "tremor_flow_state", &[("flow", ODD), ("state", "draining")]);
    assert_eq!(state[0].2, 1.0);
    assert_eq!(find(&samples, "tremor_queue_bytes", &[("role", "sink")])[0].2, 900.0);
    for (name, expected) in [
        ("tremor_stored_events", 70.0),
        ("tremor_stored_redelivered_events_total", 6.0),
        ("tremor_stored_bytes", 4_096.0),
        ("tremor_stored_oldest_seconds", 1.5),
        ("tremor_stored_damaged_parts_total", 2.0),
        ("tremor_stored_sync_seconds_sum", 1.5),
        ("tremor_stored_sync_seconds_count", 12.0),
    ] {
        assert_eq!(find(&samples, name, &of_flow)[0].2, expected, "{name}");
    }
    assert_eq!(find(&samples, "tremor_errors_total", &[("kind", "connection lost")])[0].2, 3.0);
    let pulls = [("operation", "pull"), ("kind", "timeout")];
    assert_eq!(find(&samples, "tremor_retries_total", &pulls)[0].2, 5.0);
    assert_eq!(find(&samples, "tremor_long_turns_total", &[("task", "source")])[0].2, 2.0);
    assert_eq!(find(&samples, "tremor_waiting", &[("component", "c"), ("for", "out")]).len(), 1);
    assert_eq!(find(&samples, "process_open_fds", &[]).len(), 1);
    let bucket = |le| find(&samples, "tremor_delivery_seconds_bucket", &[("le", le)])[0].2;
    assert_eq!([bucket("0.0001"), bucket("30"), bucket("+Inf")], [1.0, 11.0, 12.0]);
    assert_eq!(find(&samples, "tremor_delivery_seconds_sum", &[])[0].2, 1.5);
}

#[test]
fn reloads_are_counted_by_result_and_shown_while_they_last() {
    let run = crate::run::RunHandle::default();
    let reloads = run.reloads();
    let value = |name: &str, labels: &[(&str, &str)]| {
        find(&parse(&text(&[], &[], &reloads.status())), name, labels)[0].2
    };
    reloads.serve();
    reloads.enter(Step::Reading, None, Instant::now());
    let request = reloads.request(Action::Keep);
    reloads.set_confirmation(Some(Instant::now()));
    for name in
        ["tremor_reload_in_progress", "tremor_reload_unconfirmed", "tremor_reload_requests_waiting"]
    {
        assert_eq!(value(name, &[]), 1.0, "{name}");
    }
    drop(request);
    let (applied, refused) = (ReloadResult::Applied, ReloadResult::Refused);
    for result in [applied, applied, applied, refused, refused, ReloadResult::Returned] {
        let (flows, errors) = (Vec::new(), Vec::new());
        let outcome = Outcome { result, flows, errors, confirm_seconds: None };
        reloads.record(&outcome, Instant::now());
    }
    for (result, count) in [("applied", 3.0), ("failed", 2.0), ("returned", 1.0)] {
        assert_eq!(value("tremor_reloads_total", &[("result", result)]), count, "{result}");
    }
    assert_eq!(value("tremor_last_reload_failed", &[]), 1.0);
    assert_eq!(value("tremor_reload_in_progress", &[]), 0.0);
}

#[test]
fn incoming_events_equal_outgoing_and_in_flight() {
    let samples = parse(&text(&[flow()], &[], &ReloadStatus::default()));
    for role in ["source", "sink"] {
        let events = find(&samples, "tremor_events_total", &[("role", role)]);
        let (incoming, outgoing): (Vec<_>, Vec<_>) =
            events.iter().partition(|it| ["taken", "created"].contains(&&*it.1["result"]));
        let sum = |samples: Vec<&&Sample>| samples.iter().map(|it| it.2).sum::<f64>();
        let in_flight = find(&samples, "tremor_in_flight_events", &[("role", role)])[0].2;
        assert_eq!(sum(incoming), sum(outgoing) + in_flight);
    }
}

#[test]
fn metrics_of_plugins_are_added_up_and_escaped() {
    let metric = |kind, name: &str, value, count| Metric {
        kind,
        name: name.to_owned(),
        help: "in\ntwo lines".to_owned(),
        value,
        count,
        min: 0.0,
        max: 0.0,
    };
    let of = |component: &str, metrics| OwnMetrics {
        flow: "f".to_owned(),
        component: component.to_owned(),
        kind: "http-client".to_owned(),
        metrics,
    };
    let plugins = [
        of("a", vec![metric(MetricKind::Counter, "sent", 1.0, 1)]),
        of("a", vec![metric(MetricKind::Counter, "sent", 2.0, 1)]),
        of(
            "b",
            vec![
                metric(MetricKind::Gauge, "täglich/open", 0.5, 1),
                metric(MetricKind::Histogram, "wait_seconds", 2.5, 4),
                // This gauge has the name that the counter gets with its suffix.
                metric(MetricKind::Gauge, "sent_total", 9.0, 1),
            ],
        ),
    ];
    let samples = parse(&text(&[], &plugins, &ReloadStatus::default()));
    let value = |name: &str| find(&samples, &format!("tremor_plugin_http_client_{name}"), &[])[0].2;
    assert_eq!(value("sent_total"), 3.0);
    assert_eq!(value("t_glich_open"), 0.5);
    assert_eq!((value("wait_seconds_sum"), value("wait_seconds_count")), (2.5, 4.0));
}
