//! Checks of the records that the sinks of the fixture `dice` write.

use std::{
    collections::{HashMap, HashSet},
    fs, mem,
    path::Path,
};

use serde_json::Value;

use super::flow::{Flow, Sink, WhenFull};

/// Checks that every acknowledged event was accepted by each sink, or left it through `err`, unless the queue of the sink
/// drops events, or is on disk and `has_ended` is `false`. For ordered sinks, checks that the events of each stream arrived in one delivery at a time, and in order
/// if the queue of the sink gives nothing up.
#[track_caller]
pub(super) fn judge(flow: &Flow, folder: &Path, has_ended: bool) {
    let acknowledged = flow.acknowledged(folder);
    for sink in &flow.sinks {
        let record = fs::read_to_string(folder.join(format!("{}.record", sink.name)));
        let record = record.unwrap_or_default();
        let dead = left_through_err(folder, sink);
        let ended = ended(flow, sink, whole_lines(&record), &dead);
        let is_known = |event: &String| sink.sources.iter().any(|at| flow.has(*at, event));
        let unknown: Vec<_> = ended.iter().filter(|event| !is_known(event)).collect();
        assert!(unknown.is_empty(), "{}: events of no source: {unknown:?}", sink.name);
        if sink.when_full.drops() || (sink.is_stored && !has_ended) {
            continue;
        }
        for &at in &sink.sources {
            let name = &flow.sources[at].name;
            let missing: Vec<_> = (0..acknowledged[at])
                .filter(|number| !ended.contains(&flow.event(at, *number)))
                .collect();
            assert!(missing.is_empty(), "{}: events of {name} are lost: {missing:?}", sink.name);
        }
    }
}

/// Returns the events that a sink has accepted or that are its dead letters.
#[track_caller]
fn ended(flow: &Flow, sink: &Sink, record: &str, dead: &HashSet<String>) -> HashSet<String> {
    let mut ended = dead.clone();
    let mut taken = HashSet::new();
    // Events that were rejected. They become dead letters, unless the process is killed before; then they are delivered
    // again.
    let mut rejected = HashSet::new();
    // An event that the queue gave up leaves a gap.
    let has_gaps = sink.when_full != WhenFull::Block;
    // The streams of each delivery that has not ended.
    let mut open: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut last_process = "";
    for line in record.lines() {
        let mut parts = line.split(';');
        let (delivery, step) = parts.next().unwrap().split_once(' ').unwrap();
        // Discard the open deliveries of a killed process, which have no end in the record.
        let process = delivery.split('-').next().unwrap();
        if mem::replace(&mut last_process, process) != process {
            open.clear();
        }
        match step {
            "begin" => {
                let streams: HashSet<&str> =
                    parts.map(|event| event.rsplit_once(' ').unwrap().0).collect();
                for (other, others) in open.iter().filter(|_| sink.is_ordered) {
                    let both: Vec<_> = streams.intersection(others).collect();
                    let name = &sink.name;
                    assert!(both.is_empty(), "{name}: {other} and {delivery} overlap: {both:?}");
                }
                open.insert(delivery, streams);
            }
            "rejected" => rejected.extend(parts),
            "refused" if sink.gives_up => rejected.extend(parts),
            "taken" => {
                for event in parts {
                    let before = flow.before(event).filter(|_| sink.is_ordered && !has_gaps);
                    let is_next = taken.contains(event)
                        || before.is_none_or(|before| {
                            taken.contains(before.as_str()) || rejected.contains(before.as_str())
                        });
                    assert!(is_next, "{}: `{event}` in {delivery} is out of order", sink.name);
                    taken.insert(event);
                }
            }
            "end" => drop(open.remove(delivery)),
            _ => {}
        }
    }
    ended.extend(taken.into_iter().map(str::to_owned));
    ended
}

/// Returns the text without its last line if a process was killed while it wrote that line. The events of the line have
/// no answer.
fn whole_lines(text: &str) -> &str {
    text.rsplit_once('\n').map_or("", |(whole, _)| whole)
}

/// Returns the events that left a sink through `err`, as dead letters or as they were.
fn left_through_err(folder: &Path, sink: &Sink) -> HashSet<String> {
    let text = fs::read_to_string(folder.join(format!("{}.dead", sink.name))).unwrap_or_default();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = event.as_str().or_else(|| event["original"].as_str());
        let is_given_up = event.is_string();
        assert!(!is_given_up || sink.when_full == WhenFull::DeadLetter, "{}: {line}", sink.name);
        text.unwrap().trim().to_owned()
    };
    whole_lines(&text).lines().map(event).collect()
}

impl Flow {
    fn event(&self, source: usize, number: u64) -> String {
        let source = &self.sources[source];
        format!("{} {} {number}", source.name, number % source.streams)
    }

    /// Returns whether an event is one of a source.
    fn has(&self, source: usize, event: &str) -> bool {
        let number = event.rsplit(' ').next().and_then(|number| number.parse().ok());
        number.is_some_and(|number| {
            number < self.sources[source].count && self.event(source, number) == event
        })
    }

    /// Returns the predecessor of an event in its stream.
    fn before(&self, event: &str) -> Option<String> {
        let mut parts = event.split(' ');
        let source = parts.next().unwrap();
        let at = self.sources.iter().position(|it| it.name == source).unwrap();
        let number: u64 = parts.nth(1).unwrap().parse().unwrap();
        let before = number.checked_sub(self.sources[at].streams)?;
        Some(self.event(at, before))
    }
}
