//! The latest sample of each series.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    ops::Bound,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tremor_pdk::{Error, Memory, Result, lock};

use crate::prometheus::{
    family::Kind,
    number::{self, MS, text_of_non_finite},
    sample::{Labels, Sample},
};

/// Estimated memory of a series or a family in addition to its texts, in bytes.
const OVERHEAD: usize = 160;

/// The series that the page shows.
pub(crate) struct Registry {
    limits: Limits,
    state: Mutex<State>,
}

/// Limits of the series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_series: usize,
    /// Time after which a series without a sample is removed.
    pub(crate) expire_after: Duration,
    /// `true` if the page shows the times of samples.
    pub(crate) has_timestamps: bool,
}

struct State {
    families: BTreeMap<Box<str>, Family>,
    /// Number of series of all families.
    series: usize,
    /// Estimated bytes of all families and series.
    bytes: usize,
    memory: Memory,
}

/// A family of the text format: the series with a common `TYPE` line.
struct Family {
    kind: Kind,
    help: Option<Box<str>>,
    /// The series by their names and labels, as a line of the page has them.
    series: HashMap<Box<str>, Series>,
}

struct Series {
    order: Option<Order>,
    value: f64,
    timestamp_ns: Option<i64>,
    /// Time of the last sample by the monotonic clock, in ns.
    seen_ns: u64,
}

/// Position of a series of a histogram or a summary among the others: the format requires buckets and quantiles in
/// numerical order.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    /// Labels other than `le` or `quantile`.
    group: Box<str>,
    /// The name of the sample: buckets and quantiles precede sums and counts.
    has_number: bool,
    number: f64,
}

/// Result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The page shows the sample.
    Shown,
    /// The series has ended, or has a later sample already.
    Passed,
}

/// Buffers for the texts of samples, so that a sample of a known series allocates nothing.
#[derive(Default)]
pub(crate) struct Texts {
    line: String,
    group: String,
}

impl Registry {
    pub(crate) fn new(limits: Limits, memory: Memory) -> Self {
        let state = State { families: BTreeMap::new(), series: 0, bytes: 0, memory };
        Self { limits, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the number of series.
    pub(crate) fn len(&self) -> usize {
        self.state().series
    }

    /// Stores a sample as the latest one of its series.
    ///
    /// # Errors
    /// The family has another type, or the number of series has reached its limit. The sample is not stored.
    pub(crate) fn store<'v>(
        &self,
        sample: &Sample<'v>,
        labels: &mut Labels<'v>,
        texts: &mut Texts,
        now_ns: u64,
    ) -> Result<Stored> {
        let (name, kind) = sample.kind.in_text(sample.family, sample.name);
        let Texts { line, group } = texts;
        labels.sort();
        line.clear();
        line.push_str(sample.name);
        write_labels(labels, None, line);
        let mut state = self.state();
        let state = &mut *state;
        if number::is_stale(sample.value) {
            state.remove(name, line);
            return Ok(Stored::Passed);
        }
        let max_series = self.limits.max_series;
        let full = || {
            Error::full(format_args!(
                "the page has `max_series` {max_series} series already; raise `max_series`, or remove labels with many \
                 values"
            ))
            .with_policy(tremor_pdk::ErrorPolicy::DEAD_LETTER)
        };
        let is_full = state.series >= max_series;
        let family = match state.families.get_mut(name) {
            Some(family) => family,
            None if is_full => return Err(full()),
            None => {
                state.bytes += OVERHEAD + name.len();
                let family = Family { kind, help: None, series: HashMap::new() };
                state.families.entry(name.into()).or_insert(family)
            }
        };
        family.describe(name, kind, sample.help, &mut state.bytes)?;
        let timestamp_ns = sample.timestamp_ns;
        if let Some(series) = family.series.get_mut(line.as_str()) {
            series.seen_ns = now_ns;
            let is_earlier =
                matches!((timestamp_ns, series.timestamp_ns), (Some(new), Some(old)) if new < old);
            if is_earlier {
                return Ok(Stored::Passed);
            }
            (series.value, series.timestamp_ns) = (sample.value, timestamp_ns);
            return Ok(Stored::Shown);
        }
        if is_full {
            return Err(full());
        }
        let order = kind.ordering_label().map(|label| {
            group.clear();
            write_labels(labels, Some(label), group);
            let number = labels.iter().find(|(name, _)| *name == label);
            let number = number.and_then(|(_, text)| text.parse().ok());
            let group = Box::from(group.as_str());
            Order { group, has_number: number.is_some(), number: number.unwrap_or_default() }
        });
        state.bytes += OVERHEAD + line.len() + order.as_ref().map_or(0, |order| order.group.len());
        state.series += 1;
        let series = Series { order, value: sample.value, timestamp_ns, seen_ns: now_ns };
        family.series.insert(line.as_str().into(), series);
        state.memory.resize(state.bytes);
        Ok(Stored::Shown)
    }

    /// Removes the series without a sample for `expire_after`. Returns the number of removed series.
    pub(crate) fn expire(&self, now_ns: u64) -> usize {
        let most_ns = u64::try_from(self.limits.expire_after.as_nanos()).unwrap_or(u64::MAX);
        let state = &mut *self.state();
        let before = state.series;
        let (mut series, mut bytes) = (0, 0);
        state.families.retain(|name, family| {
            family.series.retain(|_, series| now_ns.saturating_sub(series.seen_ns) < most_ns);
            series += family.series.len();
            if family.series.is_empty() {
                return false;
            }
            bytes += family.bytes(name);
            true
        });
        if series != before {
            (state.series, state.bytes) = (series, bytes);
            state.memory.resize(bytes);
        }
        before - series
    }

    /// Returns the page in the text format, version 0.0.4. The page is consistent within a family: samples can be
    /// stored between two families.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        let mut last: Option<Box<str>> = None;
        loop {
            let state = self.state();
            let begin = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = state.families.range::<str, _>((begin, Bound::Unbounded)).next();
            let Some((name, family)) = next else { return page };
            family.write(name, self.limits.has_timestamps, &mut page);
            last = Some(name.clone());
        }
    }
}

impl State {
    fn remove(&mut self, family: &str, line: &str) {
        let Some(found) = self.families.get_mut(family) else { return };
        let Some(series) = found.series.remove(line) else { return };
        self.series -= 1;
        self.bytes = self.bytes.saturating_sub(series.bytes(line));
        if found.series.is_empty() {
            self.bytes = self.bytes.saturating_sub(found.bytes(family));
            self.families.remove(family);
        }
        self.memory.resize(self.bytes);
    }
}

impl Family {
    /// Adds the type and the description of a sample.
    ///
    /// # Errors
    /// The family has another type.
    fn describe(
        &mut self,
        name: &str,
        kind: Kind,
        help: Option<&str>,
        bytes: &mut usize,
    ) -> Result<()> {
        if self.kind == Kind::Untyped {
            self.kind = kind;
        } else if kind != Kind::Untyped && kind != self.kind {
            let (own, other) = (self.kind.name(), kind.name());
            return Err(Error::bad_data(format_args!(
                "`{name}` is a {other} in this event, but a {own} in earlier ones; rename one of the metrics"
            )));
        }
        if self.help.is_none()
            && let Some(help) = help
        {
            *bytes += help.len();
            self.help = Some(help.into());
        }
        Ok(())
    }

    /// Returns the estimated memory of the family and its series, in bytes.
    fn bytes(&self, name: &str) -> usize {
        let series: usize = self.series.iter().map(|(line, series)| series.bytes(line)).sum();
        OVERHEAD + name.len() + self.help.as_ref().map_or(0, |help| help.len()) + series
    }

    fn write(&self, name: &str, has_timestamps: bool, page: &mut String) {
        if let Some(help) = &self.help {
            put(page, format_args!("# HELP {name} "));
            escape(help, false, page);
            page.push('\n');
        }
        put(page, format_args!("# TYPE {name} {}\n", self.kind.name()));
        let mut all: Vec<_> = self.series.iter().collect();
        all.sort_unstable_by(|(one, a), (other, b)| {
            let by_order = match (&a.order, &b.order) {
                (Some(a), Some(b)) => (&a.group, !a.has_number)
                    .cmp(&(&b.group, !b.has_number))
                    .then(a.number.total_cmp(&b.number)),
                (a, b) => a.is_none().cmp(&b.is_none()),
            };
            by_order.then_with(|| one.cmp(other))
        });
        for (line, series) in all {
            page.push_str(line);
            page.push(' ');
            write_value(series.value, page);
            if let Some(ns) = series.timestamp_ns.filter(|_| has_timestamps) {
                put(page, format_args!(" {}", ns.div_euclid(MS)));
            }
            page.push('\n');
        }
    }
}

impl Series {
    fn bytes(&self, line: &str) -> usize {
        OVERHEAD + line.len() + self.order.as_ref().map_or(0, |order| order.group.len())
    }
}

/// Writes the labels other than `without` in braces, or nothing if there are none.
fn write_labels(labels: &Labels<'_>, without: Option<&str>, out: &mut String) {
    let mut separator = '{';
    for (name, value) in labels.iter().filter(|(name, _)| Some(*name) != without) {
        out.push(separator);
        out.push_str(name);
        out.push_str("=\"");
        escape(value, true, out);
        out.push('"');
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
}

fn write_value(value: f64, out: &mut String) {
    if !value.is_finite() {
        out.push_str(text_of_non_finite(value));
    } else if value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
        put(out, format_args!("{value}"));
    } else {
        put(out, format_args!("{value:e}"));
    }
}

fn escape(raw: &str, has_quotes: bool, out: &mut String) {
    for character in raw.chars() {
        match character {
            '\\' => out.push_str(r"\\"),
            '\n' => out.push_str(r"\n"),
            '"' if has_quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

/// Appends to a `String`, which cannot fail.
fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}
