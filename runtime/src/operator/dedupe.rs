//! The operator `dedupe`, which removes events whose key occurred before within a time window.

use std::num::NonZeroU32;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, EventRef, Operator, Output, Result, Verdict,
    template::Field, units::Interval,
};

use super::{
    bounded::{Bounded, Evictions, Found},
    key::KeyBuffer,
};

/// Passes the first event of each key within a window of time, and discards the others.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Fields that make up the key. An event that has none of them passes.
    by: Vec<Field>,
    /// Time after the first event of a key in which further events are its duplicates.
    within: Interval,
    /// Maximum number of keys that are remembered. If there are more, the oldest is forgotten.
    #[serde(default = "max_keys")]
    max_keys: NonZeroU32,
    /// Treatment of duplicates.
    #[serde(default)]
    duplicates: Duplicates,
}

#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Duplicates {
    /// Duplicates are dropped and counted as discarded.
    #[default]
    Discard,
    /// Duplicates leave by the port `duplicates`.
    Port,
}

fn max_keys() -> NonZeroU32 {
    NonZeroU32::new(1_000_000).expect("not zero")
}

pub(crate) struct Dedupe {
    config: Config,
    key: KeyBuffer,
    /// Times at which the keys first occurred, in ns since the Unix epoch.
    seen: Bounded<u64>,
    /// Number of keys that were evicted before their window ended.
    evictions: Evictions,
}

impl Component for Dedupe {
    const NAME: &str = "dedupe";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        if config.by.is_empty() {
            return Err(Error::configuration(
                "`by`: expected at least one field, found none; `\"\"` is the whole event",
            ));
        }
        Ok(Self::of(config))
    }
}

impl Operator for Dedupe {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let duplicate = match self.config.duplicates {
            Duplicates::Discard => Verdict::Discard,
            Duplicates::Port => Verdict::Port(0),
        };
        output.divert(batch, |event| {
            if self.is_new(event.get()) { Verdict::Keep } else { duplicate.clone() }
        });
        Ok(())
    }

    fn ports(&self) -> Vec<String> {
        match self.config.duplicates {
            Duplicates::Discard => Vec::new(),
            Duplicates::Port => vec!["duplicates".to_owned()],
        }
    }
}

impl Dedupe {
    fn of(config: Config) -> Self {
        let seen = Bounded::new(config.max_keys.get());
        Self { config, key: KeyBuffer::new(), seen, evictions: Evictions::default() }
    }

    fn is_new(&mut self, event: EventRef<'_>) -> bool {
        self.key.clear();
        let mut has_key = false;
        for field in &self.config.by {
            let value = field.get(event);
            has_key |= value.is_some();
            self.key.push(value);
        }
        if !has_key {
            return true;
        }
        let (now, within) = (event.ingest_ns(), self.config.within.ns());
        // The clock may have jumped back. A key also no longer counts if `now` is a window or more before its first
        // event.
        let is_over = |first: u64| now.abs_diff(first) >= within;
        while self.seen.oldest().is_some_and(|first| is_over(*first)) {
            self.seen.pop_oldest();
        }
        match self.seen.find_or_insert(self.key.key(), || now) {
            Found::Known(slot) if is_over(*self.seen.get_mut(slot)) => {
                *self.seen.get_mut(slot) = now;
                self.seen.renew(slot);
                true
            }
            Found::Known(_) => false,
            Found::New(_, evicted) => {
                if evicted.is_some() {
                    self.evictions.count("dedupe", "raise `max_keys` or shorten `within`");
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};
    use tremor_pdk::{Operator as _, Output};

    use super::{Config, Dedupe};
    use crate::operator::testing::{Bench, creation_error, timed};

    fn passing(config: Json, events: &[(u64, Json)]) -> Vec<String> {
        let ran = Bench::new("dedupe", config).process(timed(events));
        assert_eq!(ran.out.len() + ran.discarded + ran.port("duplicates").len(), events.len());
        ran.out
    }

    #[test]
    fn first_event_of_a_key_passes_and_others_are_discarded() {
        let config = json!({ "by": ["id", "host.name"], "within": "1s" });
        let events = [
            json!({ "id": 1, "host": { "name": "a" } }),
            json!({ "id": 1, "host": { "name": "b" } }),
            json!({ "id": 1.0, "host": { "name": "a" }, "else": 1 }),
            json!({ "id": "1", "host": { "name": "a" } }),
            json!({ "id": 1 }),
            json!({ "id": 1 }),
            json!({ "id": null }),
        ];
        let all: Vec<_> = events.iter().map(|event| (0, event.clone())).collect();
        let expected = [0, 1, 3, 4, 6].map(|position: usize| events[position].to_string());
        let mut texts = passing(config, &all);
        texts.iter_mut().for_each(|text| {
            *text = serde_json::from_str::<Json>(text).unwrap().to_string();
        });
        assert_eq!(texts, expected);
    }

    #[test]
    fn events_without_any_field_of_the_key_all_pass() {
        let config = json!({ "by": ["id", "%id"], "within": "1s" });
        let events = [(0, json!({})), (0, json!({})), (0, json!("text")), (0, json!({ "ID": 1 }))];
        assert_eq!(passing(config, &events).len(), 4);
    }

    #[test]
    fn key_is_forgotten_one_window_after_its_first_event() {
        let config = json!({ "by": [""], "within": "1ms" });
        let times = [100, 1_000_099, 1_000_100, 2_000_099, 2_000_100, 50];
        let events = times.map(|time| (time, json!("x")));
        let ran = Bench::new("dedupe", config.clone()).process(timed(&events));
        assert_eq!((ran.out.len(), ran.discarded), (4, 2), "at 100, 1,000,100, 2,000,100 and 50");
        let back = [(5_000_000, json!("x")), (4_000_001, json!("x")), (5_000_000, json!("x"))];
        assert_eq!(
            passing(config, &back).len(),
            1,
            "a time that is less than a window earlier is in the window"
        );
    }

    #[test]
    fn duplicates_leave_by_port_if_configured() {
        let config = json!({ "by": ["id"], "within": "1s", "duplicates": "port" });
        let events = [(0, json!({ "id": 1 })), (1, json!({ "id": 1 }))];
        let ran = Bench::new("dedupe", config).process(timed(&events));
        assert_eq!((ran.out.len(), ran.port("duplicates").len(), ran.discarded), (1, 1, 0));
    }

    #[test]
    fn oldest_key_is_evicted_and_counted() {
        let config = json!({ "by": [""], "within": "1s", "max_keys": 100 });
        let mut dedupe = Dedupe::of(serde_json::from_value::<Config>(config).unwrap());
        let mut output = Output::new();
        let events: Vec<_> = (0..1_000_u64).map(|number| (number, json!(number))).collect();
        dedupe.process(&mut timed(&events), &mut output).unwrap();
        assert_eq!((dedupe.seen.len(), dedupe.evictions.total()), (100, 900));
        let mut last = timed(&events[900..]);
        dedupe.process(&mut last, &mut output).unwrap();
        assert!(last.is_empty(), "the newest keys were not evicted");
    }

    #[test]
    fn configuration_without_key_fields_is_rejected() {
        let error = creation_error("dedupe", &json!({ "by": [], "within": "1s" }));
        assert!(error.starts_with("`by`: expected at least one field"), "{error}");
    }

    proptest! {
        #[test]
        fn each_key_passes_once_per_window(
            events in prop::collection::vec((0..5u64, 0..6u64), 0..200),
        ) {
            let (mut now, mut first, mut expected) = (0, [None; 6], Vec::new());
            let mut timed_events = Vec::new();
            for (step, key) in events {
                now += step;
                timed_events.push((now * 1_000_000, json!(key)));
                let seen = &mut first[usize::try_from(key).unwrap()];
                if seen.is_none_or(|seen| now - seen >= 7) {
                    *seen = Some(now);
                    expected.push(key.to_string());
                }
            }
            let config = json!({ "by": [""], "within": "7ms" });
            prop_assert_eq!(passing(config, &timed_events), expected);
        }
    }
}
