//! The operator `bucket`, which limits the number of events per class and dimensions within a time window.

use std::num::NonZeroU32;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, EventRef, Operator, Output, Result, ValueRef,
    Verdict,
    template::{EventParts, Field},
    units::Interval,
};

use super::{
    bounded::{Bounded, Evictions, Found},
    key::KeyBuffer,
};

/// Passes a limited number of events of a class and its dimensions within a time window. Events above the limit
/// leave by the port `overflow`.
#[tremor_pdk::config]
#[serde(default)]
pub(crate) struct Config {
    /// Field with the class of the event. Each class is limited separately.
    class: Field,
    /// Field with the rate: the number of events of the class and dimensions that may pass in a window, a whole
    /// number.
    rate: Field,
    /// Field with the dimensions. Each value, of any kind, is counted separately. A missing field counts as
    /// `null`.
    dimensions: Field,
    /// Duration of a window. A window begins with the first event of its class and dimensions.
    window: Interval,
    /// Maximum number of pairs of a class and dimensions that are counted at the same time. If there are more, the
    /// pair whose window began first is dropped.
    max_dimensions: NonZeroU32,
}

impl Default for Config {
    fn default() -> Self {
        let field = |path: &str| path.parse().expect("a good path");
        Self {
            class: field("%class"),
            rate: field("%rate"),
            dimensions: field("%dimensions"),
            window: Interval::of_ms(1_000),
            max_dimensions: NonZeroU32::new(1_000_000).expect("not zero"),
        }
    }
}

#[derive(Clone, Copy)]
struct Window {
    /// Start of the window, in ns since the Unix epoch.
    start: u64,
    passed: u64,
}

pub(crate) struct Bucket {
    config: Config,
    key: KeyBuffer,
    windows: Bounded<Window>,
    /// Number of windows that were evicted before they ended.
    evictions: Evictions,
}

const OVERFLOW: Verdict = Verdict::Port(0);

impl Component for Bucket {
    const NAME: &str = "bucket";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self::of(config))
    }
}

impl Operator for Bucket {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.verdict(event.get()));
        Ok(())
    }

    fn ports(&self) -> Vec<String> {
        vec!["overflow".to_owned()]
    }
}

impl Bucket {
    fn of(config: Config) -> Self {
        let windows = Bounded::new(config.max_dimensions.get());
        Self { config, key: KeyBuffer::new(), windows, evictions: Evictions::default() }
    }

    fn verdict(&mut self, event: EventRef<'_>) -> Verdict {
        let parts = EventParts::of(event);
        let class = self.config.class.get_in(&parts);
        // `text_bytes` comes first, because `is_null` also checks that text is UTF-8.
        let Some(class) = class.filter(|it| it.text_bytes().is_some() || !it.is_null()) else {
            return Verdict::Reject(missing("class", &self.config.class));
        };
        let rate = match self.config.rate.get_in(&parts) {
            Some(rate) => match rate.whole().and_then(|it| u64::try_from(it).ok()) {
                Some(rate) => rate,
                None => return Verdict::Reject(invalid_rate(&self.config.rate, rate)),
            },
            None => return Verdict::Reject(missing("rate", &self.config.rate)),
        };
        let dimensions = self.config.dimensions.get_in(&parts).unwrap_or(ValueRef::NULL);
        self.key.clear();
        self.key.push(Some(class));
        self.key.push(Some(dimensions));
        if self.passes(event.ingest_ns(), rate) { Verdict::Keep } else { OVERFLOW }
    }

    /// Counts an event with the current key. Returns whether the event may pass.
    fn passes(&mut self, now: u64, rate: u64) -> bool {
        let length = self.config.window.ns();
        // The clock may have jumped back. The window still contains an event whose time is before the start of the
        // window by less than `length`. An earlier event begins a new window.
        let has_ended = |window: &Window| now.abs_diff(window.start) >= length;
        let begin = Window { start: now, passed: 0 };
        let slot = match self.windows.find_or_insert(self.key.key(), || begin) {
            Found::Known(slot) => {
                if has_ended(self.windows.get_mut(slot)) {
                    *self.windows.get_mut(slot) = begin;
                    self.windows.renew(slot);
                }
                slot
            }
            Found::New(slot, evicted) => {
                if evicted.is_some_and(|window| !has_ended(&window)) {
                    self.evictions.count("bucket", "raise `max_dimensions`");
                }
                slot
            }
        };
        let window = self.windows.get_mut(slot);
        let passes = window.passed < rate;
        window.passed += u64::from(passes);
        passes
    }
}

#[cold]
fn missing(what: &str, field: &Field) -> Error {
    Error::bad_data(format_args!(
        "the event has no {what}: expected one at `{field}`; set it with an operator before \
         `bucket`"
    ))
}

#[cold]
fn invalid_rate(field: &Field, found: ValueRef<'_>) -> Error {
    Error::bad_data(format_args!(
        "invalid rate at `{field}`: expected a whole number of events, zero or more, found {found}"
    ))
}

#[cfg(test)]
mod tests;
