//! Watches the calls into plugins: which of them holds a thread, and which is never answered.
//!
//! Every component of a plugin has a [`Record`](record::Record), and what calls it says so there
//! ([`watched`]): that is two stores a poll. A thread of the watchdog looks at all of them
//! [from time to time](PERIOD). A thread that is held by a call is replaced, so that whatever else
//! runs in the process goes on; what lasts longer is reported. The supervision of a component
//! has calls [limited](Limit).
//!
//! The runtime's own tasks are recorded in the same way. A turn of theirs that lasts is counted and reported,
//! unless it is within a call into a plugin, which has a record of its own.

mod findings;
mod limit;
mod record;
mod sampler;
mod watched;
mod word;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

pub(crate) use self::{
    limit::{Limit, Overrun},
    record::Call,
    watched::{Watched, WatchedCodec},
};
use self::{
    record::Record,
    sampler::Sampler,
    word::{Word, Words},
};
use crate::{
    executor::{self, StandIns},
    lock::lock,
};

/// Time between two looks of the watchdog. All its times are numbers of looks: a process that was stopped, or
/// starved, has not been looked at, and nothing of it is late.
const PERIOD: Duration = Duration::from_millis(50);

/// When the watchdog does something, in looks in a row after the first that found the same call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Looks after which the thread that the call holds is replaced.
    pub(crate) replaced: u32,
    /// Looks after which a call that holds its thread is reported. For a turn of a task of the runtime's own, `replaced` is the limit.
    pub(crate) held: u32,
    /// Looks after which an unanswered call is reported.
    pub(crate) unanswered: u32,
    /// Looks after an answered flush, after which an unanswered delivery is reported.
    pub(crate) flushed: u32,
}

impl Default for Limits {
    /// 100 ms, a second, half a minute, and a second.
    fn default() -> Self {
        Self { replaced: 2, held: 20, unanswered: 600, flushed: 20 }
    }
}

/// Returns the time that `looks` in a row after the first one stand for.
fn lasted(looks: u32) -> Duration {
    PERIOD * looks
}

/// A record that the watchdog looks at.
struct Known {
    record: Arc<Record>,
    word: Word,
    /// At the last look it [rested](record::rests), and there was nothing else to be said of it. There may be a
    /// task for each of many connections, which mostly wait: as long as one does, only its word is looked at.
    rests: bool,
}

#[derive(Default)]
struct Records {
    known: Vec<Known>,
    words: Words,
}

/// The records of one flow.
#[derive(Default)]
pub(crate) struct Calls {
    flow: Arc<str>,
    records: Mutex<Records>,
    /// Limits of components after which a call that holds its thread is taken to hang.
    hangs: Mutex<Vec<(Box<str>, Limit)>>,
    long_turns: Mutex<LongTurns>,
}

/// Number of turns of the runtime's own tasks that took more than 100 ms, by component and task.
pub(crate) type LongTurns = BTreeMap<(Box<str>, Box<str>), u64>;

impl Calls {
    /// Returns the name of the flow.
    pub(crate) fn flow(&self) -> &Arc<str> {
        &self.flow
    }

    /// A record for a component, or for `part` of it. It is watched for as long as somebody else
    /// has it.
    pub(crate) fn watch(&self, component: &str, part: Option<&str>) -> Watched {
        self.add(component, part, None)
    }

    /// The same for a component whose calls are told when they have held their thread for longer than
    /// `limit`, and have returned.
    pub(crate) fn watch_limited(&self, component: &str, limit: Limit) -> Watched {
        self.add(component, None, Some(limit))
    }

    fn add(&self, component: &str, part: Option<&str>, limit: Option<Limit>) -> Watched {
        let records = &mut *lock(&self.records);
        let word = records.words.take();
        let record = Arc::new(Record::new(component, part, limit, word.clone()));
        records.known.push(Known { record: record.clone(), word, rests: false });
        Watched::new(record)
    }

    /// Calls to a component or a part of it, whose limit is the first that is set, are told when they have held their thread for longer than
    /// `limit`, and have not returned.
    pub(crate) fn limit_hangs(&self, component: &str, limit: Limit) {
        let mut hangs = lock(&self.hangs);
        if hangs.iter().all(|(known, _)| **known != *component) {
            hangs.push((component.into(), limit));
        }
    }

    /// The limit of a component that a call has come to after so many looks.
    fn hangs_after(&self, component: &str, looks: u32) -> Option<Limit> {
        let hangs = lock(&self.hangs);
        let found = hangs.iter().find(|(name, it)| **name == *component && it.looks == looks);
        found.map(|(_, limit)| limit.clone())
    }

    /// Returns the number of long turns so far.
    pub(crate) fn long_turns(&self) -> LongTurns {
        lock(&self.long_turns).clone()
    }

    /// Counts a long turn of a task.
    fn count_long_turn(&self, record: &Record) {
        let task = record.part.clone().unwrap_or_default();
        *lock(&self.long_turns).entry((record.component.clone(), task)).or_default() += 1;
    }

    /// The calls that hold up whoever waits for the flow now: a component each, and what it is
    /// doing.
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

/// The calls of all flows of a run.
type Flows = Mutex<Vec<Arc<Calls>>>;

/// Looks after the flows of a run, as long as it lives.
pub(crate) struct Watchdog {
    flows: Arc<Flows>,
    /// Dropped, it ends the thread.
    _ends: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts to look.
    pub(crate) fn start() -> Self {
        let flows = Arc::<Flows>::default();
        let sampler = Sampler::new(flows.clone(), Limits::default());
        let (ends, ended) = mpsc::channel();
        let thread = thread::Builder::new().name("watchdog".to_owned());
        if let Err(error) = thread.spawn(move || look(sampler, &ended)) {
            tracing::warn!(
                %error,
                "no thread to watch the calls of plugins from: one that hangs is not reported, and \
                 may stop other flows"
            );
        }
        Self { flows, _ends: ends }
    }

    /// The records of another flow.
    pub(crate) fn flow(&self, name: &str) -> Arc<Calls> {
        let calls = Arc::new(Calls { flow: name.into(), ..Calls::default() });
        lock(&self.flows).push(calls.clone());
        calls
    }
}

/// Looks until the run has ended.
fn look(mut sampler: Sampler, ended: &mpsc::Receiver<()>) {
    let mut stand_ins = StandIns::default();
    let (mut has_said, mut tick) = (false, 0_usize);
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let (wanted, findings) = sampler.look();
        // First of all: to log may block as well.
        let had = stand_ins.set(wanted);
        executor::attend();
        executor::retry_blocking_threads(tick);
        tick = tick.wrapping_add(1);
        sampler.take_overruns().iter().for_each(limit::Told::tell);
        findings.iter().for_each(findings::Finding::log);
        if had < wanted && !std::mem::replace(&mut has_said, true) {
            findings::log_crowded(wanted, had);
        }
    }
}

#[cfg(test)]
mod tests;
