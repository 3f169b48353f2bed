//! Checks of the records that the sinks of the fixture `dice` write.

use std::{
    collections::{HashMap, HashSet},
    fs, mem,
    path::Path,
};

use serde_json::Value;

use super::flow::{Flow, Sink};

/// Checks that every acknowledged event was accepted by each sink or is a dead letter. For ordered sinks, checks that
/// the events of each stream arrived in order and in one delivery at a time.
#[track_caller]
pub(super) fn judge(flow: &Flow, folder: &Path) {
    let acknowledged = flow.acknowledged(folder);
    let dead = dead_letters(folder);
    for sink in &flow.sinks {
        let record = fs::read_to_string(folder.join(format!("{}.record", sink.name)));
        let record = record.unwrap_or_default();
        let dead = dead.get(&sink.name).cloned().unwrap_or_default();
        let ended = ended(flow, sink, whole_lines(&record), &dead);
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
                    let before = flow.before(event).filter(|_| sink.is_ordered);
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

/// Returns the dead letters of each component.
fn dead_letters(folder: &Path) -> HashMap<String, HashSet<String>> {
    let text = fs::read_to_string(folder.join("dead")).unwrap_or_default();
    let text = whole_lines(&text);
    let mut letters: HashMap<String, HashSet<String>> = HashMap::new();
    for line in text.lines() {
        let letter: Value = serde_json::from_str(line).unwrap();
        let [component, event] =
            ["component", "original"].map(|key| letter[key].as_str().unwrap().trim().to_owned());
        letters.entry(component).or_default().insert(event);
    }
    letters
}

impl Flow {
    fn event(&self, source: usize, number: u64) -> String {
        let source = &self.sources[source];
        format!("{} {} {number}", source.name, number % source.streams)
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
