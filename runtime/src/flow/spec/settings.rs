//! The keys of connectors and pipelines that are no components: `reconnect`, `restart`, `queue` and so on.

use std::{num::NonZeroU64, time::Duration};

use tremor_pdk::units::{parse_size, parse_time};

use super::{
    super::{
        diagnostic::Report,
        suggest::quote,
        yaml::{Data, Node},
    },
    Batch, OnFailure, Pull, Queue, Restart, Retry, Unhandled,
    fields::Fields,
    keys,
};

/// The keys `reconnect` and `retry`, which say the same of different things.
pub(super) fn retry(node: &Node, key: &str, owner: &str, report: &mut Report) -> Retry {
    let what = format!("`{key}` of {owner}");
    let Some(fields) = Fields::open(node, &what, keys::RETRY, report) else {
        return Retry::default();
    };
    let mut wait = |key| fields.get(key).and_then(|node| time(node, key, report));
    let (backoff, max_backoff) = (wait("backoff"), wait("max_backoff"));
    if let (Some(node), Some(first), Some(max)) = (fields.get("max_backoff"), backoff, max_backoff)
        && max < first
    {
        let message = format!("`max_backoff` of {what} is shorter than its `backoff`");
        report.push(report.error(node.at, message).help("waits grow from `backoff` to it"));
    }
    Retry {
        attempts: fields.get("attempts").and_then(|node| whole(node, 0, "attempts", report)),
        backoff,
        max_backoff,
    }
}

pub(super) fn restart(node: &Node, owner: &str, report: &mut Report) -> Restart {
    let what = format!("`restart` of {owner}");
    let Some(fields) = Fields::open(node, &what, keys::RESTART, report) else {
        return Restart::default();
    };
    Restart {
        attempts: fields.get("attempts").and_then(|node| whole(node, 0, "attempts", report)),
        within: fields.get("within").and_then(|node| time(node, "within", report)),
    }
}

/// A time that is none at all would make no sense: a peer would get one attempt after the other, say.
pub(super) fn time(node: &Node, key: &str, report: &mut Report) -> Option<Duration> {
    let time = duration(node, key, report)?;
    if time.is_zero() {
        let found = text_or_kind(node);
        let message = format!("expected `1ms` or more for `{key}`, found {found}");
        report.push(report.error(node.at, message));
        return None;
    }
    Some(time)
}

pub(super) fn pull(node: &Node, owner: &str, report: &mut Report) -> Pull {
    let what = format!("`pull` of {owner}");
    let Some(fields) = Fields::open(node, &what, keys::PULL, report) else {
        return Pull::default();
    };
    let max_events = fields.get("max_events").and_then(|node| count(node, "max_events", report));
    Pull { max_events }
}

pub(super) fn queue(node: &Node, owner: &str, report: &mut Report) -> Queue {
    let what = format!("`queue` of {owner}");
    let Some(fields) = Fields::open(node, &what, keys::QUEUE, report) else {
        return Queue::default();
    };
    let max_events = fields.get("max_events").and_then(|node| count(node, "max_events", report));
    let max_bytes = fields.get("max_bytes").and_then(|node| bytes(node, "max_bytes", report));
    Queue { max_events, max_bytes }
}

/// The most bytes of a delivery: offsets into a batch have 32 bits, and nodes take more room than the bytes
/// they come from.
pub(in super::super) const MOST_BATCH_BYTES: u64 = 1 << 30;

/// What waits is in memory, and nowhere else.
const MOST_LINGER: Duration = Duration::from_hours(1);

pub(super) fn batch(node: &Node, owner: &str, report: &mut Report) -> Option<Batch> {
    let what = format!("`batch` of {owner}");
    let fields = Fields::open(node, &what, keys::BATCH, report)?;
    let max_events = fields.get("max_events").and_then(|node| count(node, "max_events", report));
    let max_bytes = fields.get("max_bytes").and_then(|node| {
        let bytes = bytes(node, "max_bytes", report)?;
        if bytes.get() > MOST_BATCH_BYTES {
            let found = text_or_kind(node);
            let message = format!("expected `1GiB` or less for `max_bytes`, found {found}");
            report.push(report.error(node.at, message).help("a delivery is one batch in memory"));
            return None;
        }
        Some(bytes)
    });
    let linger = fields.get("linger").and_then(|node| {
        let linger = duration(node, "linger", report)?;
        if linger > MOST_LINGER {
            let found = text_or_kind(node);
            let message = format!("expected `1h` or less for `linger`, found {found}");
            report.push(report.error(node.at, message));
            return None;
        }
        Some(linger)
    });
    Some(Batch { max_events, max_bytes, linger })
}

pub(super) fn on_failure(node: &Node, report: &mut Report) -> Option<OnFailure> {
    match &node.data {
        Data::Text(text) if text == "continue" => return Some(OnFailure::Continue),
        Data::Text(text) if text == "exit" => return Some(OnFailure::Exit),
        Data::Unknown => return None,
        _ => {}
    }
    let found = text_or_kind(node);
    let message = format!("expected `continue` or `exit` for `on_failure`, found {found}");
    let help = "`exit` ends the other flows of the process as well, after they have drained";
    report.push(report.error(node.at, message).help(help));
    None
}

pub(super) fn err(node: &Node, report: &mut Report) -> Option<Unhandled> {
    match &node.data {
        Data::Text(text) if text == "dead_letter" => return Some(Unhandled::DeadLetter),
        Data::Text(text) if text == "discard" => return Some(Unhandled::Discard),
        Data::Unknown => return None,
        _ => {}
    }
    let found = text_or_kind(node);
    report.push(
        report
            .error(node.at, format!("expected `dead_letter` or `discard` for `err`, found {found}"))
            .help("`discard` drops events that cannot be handled; without it they leave by `err`"),
    );
    None
}

/// The most deliveries that a sink may have under way: each has a batch in memory.
pub(in super::super) const MOST_IN_FLIGHT: u64 = 1_024;

pub(super) fn in_flight(node: &Node, report: &mut Report) -> Option<NonZeroU64> {
    let number = whole(node, 1, "in_flight", report)?;
    if number > MOST_IN_FLIGHT {
        let found = node.describe();
        let message = format!("expected {MOST_IN_FLIGHT} or less for `in_flight`, found {found}");
        report.push(
            report.error(node.at, message).help("each delivery under way is a batch in memory"),
        );
        return None;
    }
    NonZeroU64::new(number)
}

pub(super) fn boolean(node: &Node, key: &str, report: &mut Report) -> Option<bool> {
    match node.data {
        Data::Bool(value) => return Some(value),
        Data::Unknown => return None,
        _ => {}
    }
    let found = node.describe();
    report.push(
        report.error(node.at, format!("expected `true` or `false` for `{key}`, found {found}")),
    );
    None
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

/// A number of bytes, with or without a unit.
fn bytes(node: &Node, key: &str, report: &mut Report) -> Option<NonZeroU64> {
    let parsed = match &node.data {
        Data::Unknown => return None,
        Data::Number(number) => number.as_u64(),
        Data::Text(text) => parse_size(text),
        _ => None,
    };
    let bytes = parsed.and_then(NonZeroU64::new);
    if bytes.is_none() {
        let found = text_or_kind(node);
        report.push(
            report
                .error(node.at, format!("expected a number of bytes for `{key}`, found {found}"))
                .help("write a whole number, 1 or more, alone or with `KiB`, `MiB` or `GiB`"),
        );
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
        let found = text_or_kind(node);
        report.push(
            report
                .error(node.at, format!("expected a time with its unit for `{key}`, found {found}"))
                .help("write a whole number and `ms`, `s`, `m` or `h`, such as `250ms` or `5s`"),
        );
    }
    parsed
}

fn text_or_kind(node: &Node) -> String {
    match &node.data {
        Data::Text(text) if node.references.is_none() => quote(text),
        _ => node.describe(),
    }
}
