//! Keys of connectors and pipelines whose values are not components, such as `reconnect`, `restart` and `queue`.

use std::{num::NonZeroU64, path::PathBuf, time::Duration};

use crate::{parse_size, parse_time};

use super::{
    super::{
        diagnostic::{Diagnostic, Report},
        source::Located,
        suggest::quote,
        yaml::{Data, Node},
    },
    Batch, DeadLetters, Disk, Isolation, LEAST_DISK_BYTES, LEAST_MEMORY, OnFailure, Pull, Queue,
    Restart, Retry, Unhandled, WhenFull,
    fields::Fields,
    keys,
};

/// Reads one of the keys `reconnect` and `retry`, which have the same form.
pub(super) fn retry(
    connector: &Fields<'_>,
    key: &str,
    owner: &str,
    report: &mut Report,
) -> Option<Retry> {
    let fields = connector.section(key, owner, keys::RETRY, report)?;
    let (backoff, max_backoff) =
        (fields.read("backoff", report, time), fields.read("max_backoff", report, time));
    if let (Some(node), Some(first), Some(max)) = (fields.get("max_backoff"), backoff, max_backoff)
        && max < first
    {
        let message = format!("`max_backoff` of `{key}` of {owner} is shorter than its `backoff`");
        report.push(
            report.error(node.at, message).help("waits grow from `backoff` to `max_backoff`"),
        );
    }
    Some(Retry { attempts: fields.read("attempts", report, number), backoff, max_backoff })
}

pub(super) fn restart(connector: &Fields<'_>, owner: &str, report: &mut Report) -> Option<Restart> {
    let fields = connector.section("restart", owner, keys::RESTART, report)?;
    let attempts = fields.read("attempts", report, number);
    Some(Restart { attempts, within: fields.read("within", report, time) })
}

/// Reads a time greater than zero. A wait of zero, for example, would repeat attempts without a pause.
pub(super) fn time(node: &Node, key: &str, report: &mut Report) -> Option<Duration> {
    let time = duration(node, key, report)?;
    if time.is_zero() {
        report.push(wrong(node, key, "`1ms` or more", report));
        return None;
    }
    Some(time)
}

pub(super) fn pull(connector: &Fields<'_>, owner: &str, report: &mut Report) -> Option<Pull> {
    let fields = connector.section("pull", owner, keys::PULL, report)?;
    Some(Pull { max_events: fields.read("max_events", report, count) })
}

pub(super) fn queue(connector: &Fields<'_>, owner: &str, report: &mut Report) -> Option<Queue> {
    let fields = connector.section("queue", owner, keys::QUEUE, report)?;
    let max_events = fields.read("max_events", report, count);
    let max_bytes = fields.read("max_bytes", report, bytes);
    let when_full = fields.read("when_full", report, |node, key, report| {
        let help = "`block` lets the sources wait; the others never stop them: events are dropped and counted, or sent \
                    to the port `err` of the sink";
        one_of(WhenFull::WORDS, help, node, key, report)
    });
    let when_full = when_full.unwrap_or_default();
    let disk = disk(&fields, owner, report);
    Some(Queue { max_events, max_bytes, when_full, disk })
}

/// Reads `queue.disk`. Its path and its limit are required, because the runtime cannot know how much of a disk it may use.
fn disk(queue: &Fields<'_>, owner: &str, report: &mut Report) -> Option<Disk> {
    let fields = queue.section("disk", &format!("`queue` of {owner}"), keys::DISK, report)?;
    let at = queue.entry("disk")?.at;
    let mut is_complete = true;
    for (key, example) in [("path", "path: queue"), ("max_bytes", "max_bytes: 10GiB")] {
        if fields.get(key).is_none() && !fields.is_misspelt(key) {
            let message = format!("`queue.disk` of {owner} has no `{key}`");
            report.push(report.error(at, message).help(format!("add it, such as `{example}`")));
            is_complete = false;
        }
    }
    let path = fields.read("path", report, |node, key, report| match &node.data {
        Data::Text(path) if !path.is_empty() => Some(Located::new(PathBuf::from(path), node.at)),
        _ => {
            report.push(wrong(node, key, "the path of a folder", report));
            None
        }
    });
    let max_bytes = fields.read("max_bytes", report, |node, key, report| {
        let bytes = bytes(node, key, report)?;
        if bytes.get() < LEAST_DISK_BYTES {
            let error = wrong(node, key, "`1MiB` or more", report);
            report.push(error.help("a queue consists of eight segments or more"));
            return None;
        }
        Some(bytes)
    });
    let identify = fields.read("identify", report, boolean).unwrap_or_default();
    let (path, max_bytes) = (path?, max_bytes?);
    is_complete.then_some(Disk { path, max_bytes, identify })
}

/// Maximum of `batch.max_bytes`. Offsets into a batch have 32 bits, and decoded nodes take more memory than the bytes
/// from which they were decoded.
pub(crate) const MOST_BATCH_BYTES: u64 = 1 << 30;

/// Maximum of `batch.linger`. Waiting events exist only in memory, so they should not wait for long.
pub(crate) const MOST_LINGER: Duration = Duration::from_hours(1);

pub(super) fn batch(connector: &Fields<'_>, owner: &str, report: &mut Report) -> Option<Batch> {
    let fields = connector.section("batch", owner, keys::BATCH, report)?;
    let max_events = fields.read("max_events", report, count);
    let max_bytes = fields.read("max_bytes", report, |node, key, report| {
        let bytes = bytes(node, key, report)?;
        if bytes.get() > MOST_BATCH_BYTES {
            let error = wrong(node, key, "`1GiB` or less", report);
            report.push(error.help("a delivery is one batch in memory"));
            return None;
        }
        Some(bytes)
    });
    let linger = fields.read("linger", report, |node, key, report| {
        let linger = duration(node, key, report)?;
        if linger > MOST_LINGER {
            report.push(wrong(node, key, "`1h` or less", report));
            return None;
        }
        Some(linger)
    });
    Some(Batch { max_events, max_bytes, linger })
}

/// Maximum of `dead_letters.max_bytes`, in bytes: the memory that the event of a message of up to 4 MiB may take.
const MOST_DEAD_LETTER_BYTES: u64 = 16 << 20;

pub(super) fn dead_letters(
    fields: &Fields<'_>,
    owner: &str,
    report: &mut Report,
) -> Option<DeadLetters> {
    let fields = fields.section("dead_letters", owner, keys::DEAD_LETTERS, report)?;
    let max_bytes = fields.read("max_bytes", report, |node, key, report| {
        let bytes = bytes(node, key, report)?;
        if bytes.get() > MOST_DEAD_LETTER_BYTES {
            let error = wrong(node, key, "`16MiB` or less", report);
            report.push(error.help("the event of a message of up to 4 MiB is not larger"));
            return None;
        }
        Some(bytes)
    });
    Some(DeadLetters { max_bytes })
}

pub(super) fn on_failure(node: &Node, key: &str, report: &mut Report) -> Option<OnFailure> {
    let words = [("continue", OnFailure::Continue), ("exit", OnFailure::Exit)];
    let help = "`exit` ends the other flows of the process as well, after they have drained";
    one_of(words, help, node, key, report)
}

/// Reads `isolation` and `memory`.
pub(super) fn isolation(
    connector: &Fields<'_>,
    owner: &str,
    report: &mut Report,
) -> Option<Isolation> {
    let is_isolated = connector.read("isolation", report, |node, key, report| {
        let words = [("process", true), ("none", false)];
        let help = "`process` runs the plugin in a process of its own, so that a crash ends only that process";
        one_of(words, help, node, key, report)
    });
    let memory = connector.read("memory", report, |node, key, report| {
        let memory = bytes(node, key, report)?;
        if memory.get() < LEAST_MEMORY {
            let error = wrong(node, key, "`32MiB` or more", report);
            report.push(error.help("the process also needs memory for the runtime in it"));
            return None;
        }
        Some(memory)
    });
    if let Some(node) = connector.get("memory")
        && is_isolated != Some(true)
        && connector.get("isolation").is_none_or(|_| is_isolated.is_some())
    {
        let message = format!("`memory` of {owner} has no effect without `isolation: process`");
        let help = "add `isolation: process`, or remove `memory`: the memory of all flows is limited by `--memory-limit`";
        report.push(report.error(node.at, message).help(help));
    }
    is_isolated.map(|it| if it { Isolation::Process { memory } } else { Isolation::None })
}

pub(super) fn err(node: &Node, key: &str, report: &mut Report) -> Option<Unhandled> {
    let words = [("dead_letter", Unhandled::DeadLetter), ("discard", Unhandled::Discard)];
    let help = "if `err` is not linked, `discard` drops events that cannot be processed, and `dead_letter` lets them fail";
    one_of(words, help, node, key, report)
}

/// Reads one of several words and returns the value of that word.
fn one_of<T: Copy, const N: usize>(
    words: [(&str, T); N],
    help: &str,
    node: &Node,
    key: &str,
    report: &mut Report,
) -> Option<T> {
    let found = match &node.data {
        Data::Unknown => return None,
        Data::Text(text) => words.iter().find(|(word, _)| word == text),
        _ => None,
    };
    if found.is_none() {
        let expected = words.map(|(word, _)| format!("`{word}`")).join(" or ");
        report.push(wrong(node, key, &expected, report).help(help));
    }
    found.map(|(_, value)| *value)
}

/// Maximum of `in_flight`. Each delivery is a batch in memory.
pub(crate) const MOST_IN_FLIGHT: u64 = 1_024;

pub(super) fn in_flight(node: &Node, key: &str, report: &mut Report) -> Option<NonZeroU64> {
    let number = count(node, key, report)?;
    if number.get() > MOST_IN_FLIGHT {
        let error = wrong(node, key, &format!("{MOST_IN_FLIGHT} or less"), report);
        report.push(error.help("each delivery in flight is a batch in memory"));
        return None;
    }
    Some(number)
}

pub(super) fn boolean(node: &Node, key: &str, report: &mut Report) -> Option<bool> {
    match node.data {
        Data::Bool(value) => Some(value),
        Data::Unknown => None,
        _ => {
            let found = node.describe();
            let message = format!("expected `true` or `false` for `{key}`, found {found}");
            report.push(report.error(node.at, message));
            None
        }
    }
}

fn number(node: &Node, key: &str, report: &mut Report) -> Option<u64> {
    whole(node, 0, key, report)
}

fn whole(node: &Node, least: u64, key: &str, report: &mut Report) -> Option<u64> {
    let number = match &node.data {
        Data::Unknown => return None,
        Data::Number(number) => number.as_u64().filter(|number| *number >= least),
        _ => None,
    };
    if number.is_none() {
        let found = node.describe();
        report.push(report.error(
            node.at,
            format!("expected a whole number for `{key}`, {least} or more, found {found}"),
        ));
    }
    number
}

fn count(node: &Node, key: &str, report: &mut Report) -> Option<NonZeroU64> {
    whole(node, 1, key, report).and_then(NonZeroU64::new)
}

/// Reads a number of bytes with or without a unit.
fn bytes(node: &Node, key: &str, report: &mut Report) -> Option<NonZeroU64> {
    let parsed = match &node.data {
        Data::Unknown => return None,
        Data::Number(number) => number.as_u64(),
        Data::Text(text) => parse_size(text),
        _ => None,
    };
    let bytes = parsed.and_then(NonZeroU64::new);
    if bytes.is_none() {
        let help = "write a whole number, 1 or more, alone or with `KiB`, `MiB` or `GiB`";
        report.push(wrong(node, key, "a number of bytes", report).help(help));
    }
    bytes
}

fn duration(node: &Node, key: &str, report: &mut Report) -> Option<Duration> {
    let parsed = match &node.data {
        Data::Unknown => return None,
        Data::Text(text) => parse_time(text),
        _ => None,
    };
    if parsed.is_none() {
        let help = "write a whole number and `ms`, `s`, `m` or `h`, such as `250ms` or `5s`";
        report.push(wrong(node, key, "a time with its unit", report).help(help));
    }
    parsed
}

/// Creates the error for a value that is not the one expected for a key.
fn wrong(node: &Node, key: &str, expected: &str, report: &Report) -> Diagnostic {
    let found = match &node.data {
        Data::Text(text) if node.references.is_none() => quote(text),
        _ => node.describe(),
    };
    report.error(node.at, format!("expected {expected} for `{key}`, found {found}"))
}
