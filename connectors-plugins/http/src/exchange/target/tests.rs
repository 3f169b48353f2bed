use tremor_pdk::{Batch, Exceptions, RawBatch, RawEvent, literal};

use super::{Groups, MOST_GROUPS, Target, Targets};
use crate::{Escape, exchange::Escaping};

fn targets(url: &str) -> (Targets, Target) {
    let mut targets = Targets::new(Escaping::new(Escape::Json, false), None);
    let url = targets.add_url(url).unwrap();
    (targets, Target::new(url))
}

/// Returns a batch of events with the numbers of `values` as their metadata `v`.
fn batch(values: impl Iterator<Item = String>) -> RawBatch {
    let mut batch = Batch::new();
    for value in values {
        batch.push_message(b"event");
        batch.last_mut().unwrap().set_metadata(literal!({ "v": value }));
    }
    batch.into()
}

/// Returns the sizes of the groups of each round.
fn rounds(url: &str, batch: &RawBatch) -> Vec<Vec<usize>> {
    let (targets, _) = targets(url);
    let mut groups = Groups::new(&targets);
    let all: Vec<RawEvent<'_>> = batch.iter().collect();
    let mut events = &all[..];
    let mut exceptions = Exceptions::none();
    let mut rounds = Vec::new();
    while !events.is_empty() {
        events = groups.add(events, &mut exceptions);
        rounds.push(groups.take().into_iter().map(|(_, of_target)| of_target.len()).collect());
    }
    assert!(exceptions.is_empty());
    rounds
}

#[test]
fn groups_are_limited_by_number() {
    let batch = batch((0..2 * 2_500).map(|number| (number / 2).to_string()));
    let rounds = rounds("http://a/{%v}", &batch);
    let lengths: Vec<_> = rounds.iter().map(Vec::len).collect();
    assert_eq!(lengths, [MOST_GROUPS, MOST_GROUPS, 2_500 - 2 * MOST_GROUPS]);
    assert!(rounds.into_iter().flatten().all(|events| events == 2));
}

#[test]
fn groups_are_limited_by_length() {
    let batch = batch((0..400).map(|number| format!("{}{number}", "x".repeat(8_000))));
    let lengths: Vec<_> = rounds("http://a/{%v}", &batch).iter().map(Vec::len).collect();
    assert!(lengths.len() == 4 && lengths.iter().all(|count| *count < 140), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<usize>(), 400);
}

#[test]
fn boundaries_of_parts_belong_to_the_group() {
    let (mut targets, _) = targets("http://a/{%a}");
    let name = "x-b".parse().unwrap();
    assert_eq!(targets.add_header("headers.x-b", &name, "{%b}").unwrap(), None);
    let mut events = Batch::new();
    for (a, b) in [("1", "23"), ("12", "3"), ("123", "")] {
        events.push_message(b"event");
        events.last_mut().unwrap().set_metadata(literal!({ "a": a, "b": b }));
    }
    let batch: RawBatch = events.into();
    let all: Vec<_> = batch.iter().collect();
    let mut groups = Groups::new(&targets);
    groups.add(&all, &mut Exceptions::none());
    assert_eq!(groups.take().len(), 3);
}

#[test]
fn url_has_its_fields_behind_the_authority() {
    let render = |url: &str, value: &str| {
        let (targets, fixed) = targets(url);
        let batch = batch([value.to_owned()].into_iter());
        let all: Vec<_> = batch.iter().collect();
        let mut groups = Groups::new(&targets);
        let mut exceptions = Exceptions::none();
        groups.add(&all, &mut exceptions);
        let (rendered, _) = groups.take().pop()?;
        let url = targets.target(&fixed, &rendered).ok()?.url;
        assert!(url.is_same_origin(&fixed.url));
        Some(url.request_target(true).to_string())
    };
    for (url, value, expected) in [
        ("http://a/{%v}", "b", Some("http://a:80/b")),
        ("http://a:81/x/{%v}?y", "b", Some("http://a:81/x/b?y")),
        ("http://a?x={%v}", "b c", Some("http://a:80/?x=b%20c")),
        ("http://a/x?y={%v}", "", Some("http://a:80/x?y=")),
        ("http://[::1]/{%v}", "[]", Some("http://[::1]:80/%5B%5D")),
        ("http://a/{%v} ä#{%v}", "b", Some("http://a:80/b%20%C3%A4%23b")),
        ("http://a/{x:-}/{%v}", "b", Some("http://a:80//b")),
        ("http://a/{%v}x", "", Some("http://a:80/x")),
        ("http://a/{%v}", "", None),
        ("http://a/{%v}?x", "", None),
        ("http://a/x/{%v}/x", "..", None),
        ("http://a/x/.{%v}", ".", None),
        ("http://a/x?{%v}/..", "b", Some("http://a:80/x?b/..")),
    ] {
        assert_eq!(render(url, value).as_deref(), expected, "{url} {value:?}");
    }
}
