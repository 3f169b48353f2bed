//! Tests of the structure of an event, and of the guarantee that a seed determines every byte.

use std::collections::{BTreeMap, BTreeSet};

use sample_logs::{write_container_lines, write_lines};
use serde_json::Value;

const KEYS: [&str; 13] = [
    "about",
    "guid",
    "abool",
    "aint",
    "short_message",
    "tags",
    "array",
    "index_type",
    "logger_name",
    "syslog_hostname",
    "application",
    "type",
    "doc-type",
];

fn lines(count: u64, seed: u64) -> String {
    let mut bytes = Vec::new();
    write_lines(count, seed, &mut bytes).expect("writing to memory succeeds");
    String::from_utf8(bytes).expect("lines are ASCII")
}

fn events(count: u64, seed: u64) -> Vec<BTreeMap<String, Value>> {
    lines(count, seed)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect()
}

#[test]
fn seed_determines_every_byte() {
    assert_eq!(lines(100, 7), lines(100, 7));
    assert_ne!(lines(100, 7), lines(100, 8));
}

#[test]
fn shorter_output_of_a_seed_is_a_prefix() {
    assert!(lines(100, 7).starts_with(&lines(10, 7)));
}

#[test]
fn event_has_thirteen_keys_in_order() {
    let text = lines(100, 1);
    for line in text.lines() {
        let positions: Vec<_> = KEYS.iter().map(|key| line.find(&format!("\"{key}\":"))).collect();
        assert!(positions.iter().all(Option::is_some), "{line}");
        assert!(positions.is_sorted(), "{line}");
    }
    assert!(events(100, 1).iter().all(|event| event.len() == KEYS.len()));
}

#[test]
fn event_has_about_635_bytes() {
    let text = lines(10_000, 1);
    let mean = text.len() / 10_000;
    assert!((615..=655).contains(&mean), "{mean} bytes");
    let lengths: BTreeSet<_> = text.lines().map(str::len).collect();
    assert!(lengths.first() >= Some(&400) && lengths.last() <= Some(&1_100), "{lengths:?}");
}

#[test]
fn every_field_has_all_its_values() {
    let events = events(10_000, 1);
    let distinct = |key: &str| {
        events.iter().map(|event| event[key].to_string()).collect::<BTreeSet<_>>().len()
    };
    let expected = [
        ("about", 10_000),
        ("guid", 10_000),
        ("abool", 2),
        ("aint", 21),
        ("short_message", 5),
        ("array", 1),
        ("index_type", 11),
        ("logger_name", 3),
        ("syslog_hostname", 6),
        ("application", 6),
        ("type", 3),
        ("doc-type", 1),
    ];
    for (key, count) in expected {
        assert_eq!(distinct(key), count, "{key}");
    }
}

#[test]
fn event_has_five_tags_out_of_five() {
    let events = events(1_000, 1);
    let tags: Vec<_> = events.iter().filter_map(|event| event["tags"].as_array()).collect();
    assert!(tags.len() == 1_000 && tags.iter().all(|tags| tags.len() == 5));
    let distinct: BTreeSet<_> =
        tags.iter().flat_map(|tags| tags.iter().map(Value::to_string)).collect();
    assert_eq!(distinct.len(), 5, "{distinct:?}");
}

#[test]
fn half_of_the_container_lines_belong_to_stack_traces() {
    let mut bytes = Vec::new();
    write_container_lines(10_000, 3, &mut bytes).expect("writing to memory succeeds");
    let text = String::from_utf8(bytes).expect("lines are ASCII");
    assert_eq!(text.lines().count(), 10_000);
    assert!(text.lines().all(|line| line.starts_with("2026-01-02T03:")));
    let is_frame = |line: &&str| {
        let text = line.split(" F ").nth(1).expect("a line has the flag `F`");
        text.starts_with('\t') || text.starts_with("Caused by:")
    };
    let frames = text.lines().filter(is_frame).count();
    assert!((4_000..6_000).contains(&frames), "{frames}");
}
