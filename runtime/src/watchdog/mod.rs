//! Supervision of calls into plugins: detects calls that block a thread and calls that are never answered.
//!
//! Each component of a plugin has a [`Record`](record::Record). The code that calls the component writes the state of
//! each call to the record ([`watched`]), with three stores for each poll. The thread of the watchdog samples all
//! records [periodically](PERIOD). If a call blocks a thread, the watchdog has the executor start another thread, so
//! that everything else in the process continues. A call that blocks for longer, or that is not answered in time, is
//! reported. Components can have [limits](Limit) on the time of their calls.
//!
//! The runtime's own tasks are recorded in the same way. A *turn* is one poll of such a task. A long turn is counted
//! and reported, unless a call into a plugin within the turn blocks the thread, because that call has a record of its
//! own.

mod findings;
mod limit;
mod record;
mod sampler;
mod waits;
mod watched;
mod word;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use tremor_pdk::{Error, lock};

pub(crate) use self::{
    limit::{Limit, Overrun},
    record::Call,
    watched::{Watched, WatchedCodec},
};
use self::{
    record::Record,
    sampler::Sampler,
    waits::Waits,
    word::{Word, Words},
};
use crate::{
    clock::Clock,
    executor::{self, Replacements},
};

/// Time between two samples of the watchdog.
///
/// The watchdog counts times in samples, so that time in which the whole process was stopped or got no processor does
/// not count. Time in which only the thread of a call waited for a processor does not count either ([`waits`]).
const PERIOD: Duration = Duration::from_millis(50);

/// Numbers of consecutive samples with the same call, not counting the first, after which the watchdog acts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Samples after which a thread that a call blocks is replaced.
    pub(crate) replaced: u32,
    /// Samples after which a call into a plugin that blocks its thread is reported. A turn is reported after `replaced`
    /// samples.
    pub(crate) blocked: u32,
    /// Samples after which an unanswered call is reported.
    pub(crate) unanswered: u32,
    /// Samples after which a call is reported that is polled in vain again and again.
    pub(crate) busy: u32,
    /// Samples after which a delivery is reported that is unanswered although a flush has returned since.
    pub(crate) flushed: u32,
}

impl Default for Limits {
    /// Returns limits of 100 ms for `replaced`, 1 s for `blocked`, 30 s for `unanswered`, 1 s for `busy` and 1 s for
    /// `flushed`.
    fn default() -> Self {
        Self { replaced: 2, blocked: 20, unanswered: 600, busy: 20, flushed: 20 }
    }
}

/// Returns the time that `samples` consecutive samples after the first one take.
fn lasted(samples: u32) -> Duration {
    PERIOD * samples
}

/// A record that the watchdog samples.
struct Known {
    record: Arc<Record>,
    word: Word,
    /// `true` if the record was [idle](record::is_idle) in the last sample and nothing had to be reported.
    ///
    /// While the record stays idle, the watchdog reads only its word: there may be thousands of tasks, one for each
    /// connection, most of which are idle.
    is_idle: bool,
}

#[derive(Default)]
struct Records {
    known: Vec<Known>,
    words: Words,
}

/// Records of one flow.
#[derive(Default)]
pub(crate) struct Calls {
    flow: Arc<str>,
    records: Mutex<Records>,
    /// Limits by component. A call that blocks its thread for longer than the limit is considered to hang.
    hangs: Mutex<Vec<(Box<str>, Limit)>>,
    long_turns: Mutex<LongTurns>,
    blocking: Mutex<Blocking>,
    given_up: Mutex<Vec<(GivenUp, Revive)>>,
}

/// A part of a component that has panicked too often, and is not called again: an operator of a pipeline, or the codec
/// or a processor of a connector. Its events fail.
#[derive(Clone, Debug)]
pub struct GivenUp {
    /// Name of the connector or the pipeline.
    pub component: Box<str>,
    /// Description of the part, such as "codec `x`".
    pub part: Box<str>,
    /// Error of the last panic.
    pub error: Error,
}

/// Function that returns the number of blocking functions of a component that wait for a thread, and the number of
/// those that have returned. Returns `None` once the component is gone and all its functions have returned.
type Progress = Box<dyn Fn() -> Option<(usize, u64)> + Send + Sync>;

/// The blocking functions of components, each with a number.
#[derive(Default)]
struct Blocking {
    last: usize,
    all: Vec<(usize, Box<str>, Progress)>,
}

/// Function after which a part is called again.
type Revive = Box<dyn Fn() + Send + Sync>;

/// Numbers of turns that took at least 100 ms, by component and task.
pub(crate) type LongTurns = BTreeMap<(Box<str>, Box<str>), u64>;

impl Calls {
    /// Returns the name of the flow.
    pub(crate) fn flow(&self) -> &Arc<str> {
        &self.flow
    }

    /// Creates a record for a component, or for `part` of it. The record is watched as long as the returned value
    /// or a clone of it exists.
    pub(crate) fn watch(&self, component: &str, part: Option<&str>) -> Watched {
        self.add(component, part, None)
    }

    /// Creates a record for a component, and notifies `limit` of calls that returned after blocking their thread
    /// for longer than the limit.
    pub(crate) fn watch_limited(&self, component: &str, limit: Limit) -> Watched {
        self.add(component, None, Some(limit))
    }

    fn add(&self, component: &str, part: Option<&str>, limit: Option<Limit>) -> Watched {
        let records = &mut *lock(&self.records);
        let word = records.words.take();
        let record = Arc::new(Record::new(component, part, limit, word.clone()));
        records.known.push(Known { record: record.clone(), word, is_idle: false });
        Watched::new(record)
    }

    /// Notifies `limit` of calls to a component or its parts that have not returned within the limit. Has no effect if
    /// the component has such a limit already.
    pub(crate) fn limit_hangs(&self, component: &str, limit: Limit) {
        let mut hangs = lock(&self.hangs);
        if hangs.iter().all(|(known, _)| **known != *component) {
            hangs.push((component.into(), limit));
        }
    }

    /// Removes the limits of a component that has ended, and its parts that were given up.
    pub(crate) fn forget(&self, component: &str) {
        lock(&self.hangs).retain(|(known, _)| **known != *component);
        lock(&self.given_up).retain(|(it, _)| *it.component != *component);
    }

    /// Returns the limit of `component` if it is exactly `samples` samples long.
    fn hangs_after(&self, component: &str, samples: u32) -> Option<Limit> {
        let hangs = lock(&self.hangs);
        let found = hangs.iter().find(|(name, it)| **name == *component && it.samples == samples);
        found.map(|(_, limit)| limit.clone())
    }

    /// Adds the blocking functions of a component.
    pub(crate) fn add_blocking(&self, component: &str, progress: Progress) {
        let mut blocking = lock(&self.blocking);
        blocking.all.retain(|(.., progress)| progress().is_some());
        blocking.last += 1;
        let number = blocking.last;
        blocking.all.push((number, component.into(), progress));
    }

    /// Returns the components with blocking functions that wait for a thread, each with a number that identifies these
    /// functions, the number of those that wait, and the number of those that have returned.
    pub(crate) fn blocking(&self) -> Vec<(usize, Box<str>, usize, u64)> {
        let blocking = lock(&self.blocking);
        let with_progress = blocking.all.iter().filter_map(|(number, component, progress)| {
            let (waiting, ended) = progress()?;
            Some((*number, component.clone(), waiting, ended))
        });
        with_progress.filter(|(_, _, waiting, _)| *waiting > 0).collect()
    }

    /// Records that `part` of a component is not called again, unless `revive` is called.
    pub(crate) fn give_up(&self, component: &str, part: &str, error: &Error, revive: Revive) {
        let (component, part, error) = (component.into(), part.into(), error.clone());
        lock(&self.given_up).push((GivenUp { component, part, error }, revive));
    }

    /// Returns the parts that are not called again.
    pub(crate) fn given_up(&self) -> Vec<GivenUp> {
        lock(&self.given_up).iter().map(|(given_up, _)| given_up.clone()).collect()
    }

    /// Lets the parts of `component` be called again that were given up.
    pub(crate) fn revive(&self, component: &str) {
        let is_of = |(it, _): &mut (GivenUp, Revive)| &*it.component == component;
        // The lock is not held during the calls, because a part that is given up holds its own lock meanwhile.
        let revived: Vec<_> = lock(&self.given_up).extract_if(.., is_of).collect();
        revived.iter().for_each(|(_, revive)| revive());
    }

    /// Returns the numbers of long turns so far.
    pub(crate) fn long_turns(&self) -> LongTurns {
        lock(&self.long_turns).clone()
    }

    /// Counts a long turn of a task.
    fn count_long_turn(&self, record: &Record) {
        let task = record.part.clone().unwrap_or_default();
        *lock(&self.long_turns).entry((record.component.clone(), task)).or_default() += 1;
    }

    /// Describes the calls into plugins in which threads are now.
    pub(crate) fn in_progress(&self) -> Vec<String> {
        let records = lock(&self.records);
        let named = records.known.iter().filter_map(|known| findings::entered(&known.record));
        named
            .map(|(component, call)| format!("`{component}` of flow `{}`: {call}", self.flow))
            .collect()
    }

    /// Returns the components that delay the flow, each with a description of its current call.
    pub(crate) fn unanswered(&self) -> Vec<(Box<str>, String)> {
        lock(&self.records)
            .known
            .iter()
            .filter_map(|known| findings::doing(&known.record))
            .collect()
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("flow", &self.flow).finish_non_exhaustive()
    }
}

/// Records of all flows of a run.
type Flows = Mutex<Vec<Arc<Calls>>>;

/// Records of the runs of this process, for [`calls_in_progress`].
static RUNS: Mutex<Vec<Weak<Flows>>> = Mutex::new(Vec::new());

/// Describes the calls into plugins in which threads of this process are now.
pub fn calls_in_progress() -> Vec<String> {
    let runs: Vec<_> = lock(&RUNS).iter().filter_map(Weak::upgrade).collect();
    let flows = runs.iter().flat_map(|flows| lock(flows).clone());
    flows.flat_map(|calls| calls.in_progress()).collect()
}

/// Watchdog of the flows of a run. It stops when the value is dropped.
pub(crate) struct Watchdog {
    flows: Arc<Flows>,
    /// Dropping the sender ends the thread.
    _ends: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts the thread of the watchdog, unless the clock is simulated: calls take no simulated time, so none is late.
    pub(crate) fn start(clock: &Clock) -> Self {
        let flows = Arc::<Flows>::default();
        let mut runs = lock(&RUNS);
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(&flows));
        drop(runs);
        let (ends, ended) = mpsc::channel();
        if clock.is_simulated() {
            return Self { flows, _ends: ends };
        }
        let sampler = Sampler::new(flows.clone(), Limits::default(), Waits::of_system());
        let thread = thread::Builder::new().name("watchdog".to_owned());
        if let Err(error) = thread.spawn(move || sample(sampler, &ended)) {
            tracing::warn!(
                %error,
                "cannot start the thread of the watchdog: plugin calls that block a thread are \
                 neither reported nor replaced, and may stop other flows"
            );
        }
        Self { flows, _ends: ends }
    }

    /// Adds the records of a flow. Records of flows that have ended, and of which nothing is left, are removed.
    pub(crate) fn flow(&self, name: &str) -> Arc<Calls> {
        let calls = Arc::new(Calls { flow: name.into(), ..Calls::default() });
        let mut flows = lock(&self.flows);
        flows.retain(|calls| Arc::strong_count(calls) > 1);
        flows.push(calls.clone());
        calls
    }
}

/// Samples the records until the run has ended.
fn sample(mut sampler: Sampler, ended: &mpsc::Receiver<()>) {
    let mut replacements = Replacements::default();
    let (mut has_logged, mut tick) = (false, 0_usize);
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let (wanted, findings) = sampler.sample();
        // Threads are replaced before anything is logged, because logging may block as well.
        let replaced = replacements.set(wanted);
        executor::attend();
        executor::retry_blocking_threads(tick);
        tick = tick.wrapping_add(1);
        sampler.take_overruns().iter().for_each(limit::Notification::notify);
        findings.iter().for_each(findings::Finding::log);
        if replaced < wanted && !std::mem::replace(&mut has_logged, true) {
            findings::log_crowded(wanted, replaced);
        }
    }
}

#[cfg(test)]
mod tests;
