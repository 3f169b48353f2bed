//! What the watchdog makes of what it sees: how many threads to replace, and what to report.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{self, Ordering},
    },
};

use super::{
    Calls, Flows, Limits, Records,
    findings::{Finding, Named, Verdict},
    lasted,
    limit::Told,
    record::{self, Call, Record, Seen, State},
};
use crate::lock::lock;

/// Reports within so many looks, at most: ten a minute.
const REPORTS: usize = 10;
const WINDOW: u64 = 1_200;
/// How long a thread stands in at least, in looks: what blocks once may soon block again.
const STAYS: u32 = 200;

/// Looks at the records of all flows of a run.
pub(super) struct Sampler {
    flows: Arc<Flows>,
    limits: Limits,
    /// How often it has looked,
    looks: u64,
    /// when it last reported calls,
    reports: VecDeque<u64>,
    /// and when it last reported turns of the runtime's own tasks.
    turn_reports: VecDeque<u64>,
    /// Calls that are over their limits, and that have not been told yet.
    overruns: Vec<Told>,
    /// Threads that stand in,
    wanted: usize,
    /// and for how many looks fewer would have done.
    calm: u32,
}

impl Sampler {
    pub(super) fn new(flows: Arc<Flows>, limits: Limits) -> Self {
        Self {
            flows,
            limits,
            looks: 0,
            reports: VecDeque::new(),
            turn_reports: VecDeque::new(),
            overruns: Vec::new(),
            wanted: 0,
            calm: 0,
        }
    }

    /// Looks once: how many threads are to stand in for those that calls hold, and what is to be
    /// reported.
    pub(super) fn look(&mut self) -> (usize, Vec<Finding>) {
        self.looks += 1;
        let (mut held, mut findings) = (0, Vec::new());
        let flows = self.flows.clone();
        for calls in &*lock(&flows) {
            let mut own = Held::default();
            // A record that nobody else has is that of a task that has ended.
            let Records { known, words } = &mut *lock(&calls.records);
            known.retain_mut(|known| {
                let rests = record::rests(&known.word);
                if rests && known.rests {
                    return true;
                }
                let record = &known.record;
                let mut seen = record.seen();
                let over = record.look(&mut seen);
                self.overruns.extend(overrun(calls, record, &seen));
                own.add(record, &seen, self.limits.replaced);
                let over = over.map(|(call, looks)| (call, Verdict::Over(lasted(looks))));
                let found = over.or_else(|| {
                    let state = record.state()?;
                    Some((state.call, self.judge(&mut seen, state)?))
                });
                known.rests = rests && seen.held == 0 && !seen.reported;
                drop(seen);
                findings.extend(found.map(|(call, verdict)| Finding {
                    flow: calls.flow.clone(),
                    record: record.clone(),
                    call,
                    verdict,
                }));
                let is_had = Arc::strong_count(record) > 1;
                if !is_had {
                    // Whatever was written to its word by who had it last was written before this.
                    atomic::fence(Ordering::Acquire);
                    words.give(known.word.clone());
                }
                is_had
            });
            held += own.threads();
            findings.extend(self.long_turn(calls, &own));
        }
        (self.stand_ins(held), findings)
    }

    /// The calls that have come to their limits since this was last asked.
    pub(super) fn take_overruns(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.overruns)
    }

    /// Counts the turn that lasts too long, and returns what is to be reported of it, once.
    fn long_turn(&mut self, calls: &Calls, held: &Held) -> Option<Finding> {
        let (record, looks) = held.own_turn()?;
        let looks = *looks;
        if looks == self.limits.replaced {
            calls.count_long_turn(record);
        }
        let mut seen = record.seen();
        if seen.reported || !may_report(&mut self.turn_reports, self.looks) {
            return None;
        }
        seen.reported = true;
        let (flow, record, call) = (calls.flow.clone(), record.clone(), Call::Turn);
        Some(Finding { flow, record, call, verdict: Verdict::Holds(lasted(looks)) })
    }

    /// What is to be said of a call that goes on, once.
    fn judge(&mut self, seen: &mut Seen, state: State) -> Option<Verdict> {
        if state.call == Call::Turn {
            return None;
        }
        let verdict = if seen.held >= self.limits.held {
            Verdict::Holds(lasted(seen.held))
        } else if seen.open >= self.limits.flushed && state.call == Call::Flushed {
            Verdict::Flushed(lasted(seen.open))
        } else if seen.open >= self.limits.unanswered && state.call.is_to_be_answered() {
            Verdict::Unanswered(lasted(seen.open))
        } else {
            return None;
        };
        if seen.reported || !may_report(&mut self.reports, self.looks) {
            return None;
        }
        seen.reported = true;
        Some(verdict)
    }

    /// How many threads are to stand in while so many are held: they stay for a while.
    fn stand_ins(&mut self, held: usize) -> usize {
        self.calm = if held < self.wanted { self.calm + 1 } else { 0 };
        if held > self.wanted {
            self.wanted = held;
        } else if self.calm > STAYS {
            (self.wanted, self.calm) = (self.wanted - 1, 0);
        }
        self.wanted
    }
}

/// Whether there is room for another report. What finds none is reported as soon as there is, if it still goes on.
fn may_report(reports: &mut VecDeque<u64>, looks: u64) -> bool {
    while reports.front().is_some_and(|first| looks - first >= WINDOW) {
        reports.pop_front();
    }
    let has_room = reports.len() < REPORTS;
    if has_room {
        reports.push_back(looks);
    }
    has_room
}

/// The threads of a flow that were in the same call or turn at two looks in a row or more.
#[derive(Default)]
struct Held {
    /// Number of calls that hold a thread for long, and that no turn of the runtime's own tasks makes.
    tasks: usize,
    /// Number of other calls that hold a thread for long.
    calls: usize,
    /// `true` if any of those holds a thread, for however short a time.
    has_call: bool,
    /// Turns that last long, with the number of looks.
    turns: Vec<(Arc<Record>, u32)>,
}

impl Held {
    /// Adds a record. A thread is held for long after `long` looks.
    fn add(&mut self, record: &Arc<Record>, seen: &Seen, long: u32) {
        let Some(state) = record.state().filter(|_| seen.held > 0) else { return };
        let is_long = seen.held >= long;
        match state.call {
            Call::Turn if is_long => self.turns.push((record.clone(), seen.held)),
            Call::Turn => {}
            Call::Task => self.tasks += usize::from(is_long),
            _ => {
                self.has_call = true;
                self.calls += usize::from(is_long);
            }
        }
    }

    /// Number of threads to replace. A call is made within a turn, and both are recorded.
    fn threads(&self) -> usize {
        self.tasks + self.calls.max(self.turns.len())
    }

    /// Returns the turn that lasts because of the runtime's own work: none while a call into a plugin holds a
    /// thread. A sink may be run within the turn of a source, so that the turn that began last counts.
    fn own_turn(&self) -> Option<&(Arc<Record>, u32)> {
        let turns = if self.has_call { &[] } else { &self.turns[..] };
        turns.iter().min_by_key(|(_, looks)| *looks)
    }
}

/// A call that hangs from this look on, or that has returned too late.
fn overrun(calls: &Calls, record: &Record, seen: &Seen) -> Option<Told> {
    if let Some((call, looks)) = seen.returned {
        let limit = record.limit.as_ref()?;
        let is_late = looks >= limit.looks && call.is_within_life();
        return is_late.then(|| limit.overrun(Named(record, call).to_string(), looks));
    }
    if seen.held == 0 {
        return None;
    }
    let call = record.state().map(|state| state.call).filter(|call| *call != Call::Turn)?;
    let limit = calls.hangs_after(&record.component, seen.held)?;
    Some(limit.overrun(Named(record, call).to_string(), seen.held))
}
