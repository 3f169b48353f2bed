//! Problems because of which an instance of a connector works only in part.

use std::{collections::BTreeMap, time::Instant};

use tremor_pdk::Error;

/// Maximum number of problems of an instance at a time. Further ones are not shown.
const MOST: usize = 1_000;

/// The problems that an instance has reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    /// Problems that exist now by name, each with the time at which it began.
    present: BTreeMap<String, (Instant, Error)>,
    /// Description of the problem that was reported last, even if it does not exist any more.
    last: Option<String>,
    /// Number of problems that have begun so far, by kind.
    pub(super) errors: BTreeMap<&'static str, u64>,
}

impl Problems {
    /// Sets a problem at `now`. `None` means that the problem does not exist any more.
    pub(super) fn set(&mut self, name: &str, problem: Option<Error>, now: Instant) {
        let Some(error) = problem else {
            self.present.remove(name);
            return;
        };
        if self.present.len() >= MOST && !self.present.contains_key(name) {
            return;
        }
        self.last = Some(error.to_string());
        let since = self.present.get(name).map(|(since, _)| *since);
        // A new description of the problem, such as one file less, is not another error.
        if since.is_none() {
            *self.errors.entry(error.kind().as_str()).or_default() += 1;
        }
        let since = since.unwrap_or(now);
        self.present.insert(name.to_owned(), (since, error));
    }

    /// Returns the time at which the first of the present problems began; `None` if there are none.
    pub(super) fn since(&self) -> Option<Instant> {
        self.present.values().map(|(since, _)| *since).min()
    }

    /// Returns the descriptions of the present problems; `None` if there are none.
    pub(super) fn description(&self) -> Option<String> {
        let all: Vec<_> = self.present.values().map(|(_, error)| error.to_string()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the description of the problem that was reported last.
    pub(super) fn last(&self) -> Option<String> {
        self.last.clone()
    }
}
