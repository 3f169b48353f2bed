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
    record::{self, Record, Seen, State},
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
    /// and when it last reported something.
    reports: VecDeque<u64>,
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
                held += usize::from(seen.held >= self.limits.replaced);
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
        }
        (self.stand_ins(held), findings)
    }

    /// The calls that have come to their limits since this was last asked.
    pub(super) fn take_overruns(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.overruns)
    }

    /// What is to be said of a call that goes on, once.
    fn judge(&mut self, seen: &mut Seen, state: State) -> Option<Verdict> {
        let verdict = if seen.held >= self.limits.held {
            Verdict::Holds(lasted(seen.held))
        } else if seen.open >= self.limits.unanswered && state.call.is_to_be_answered() {
            Verdict::Unanswered(lasted(seen.open))
        } else {
            return None;
        };
        if seen.reported || !self.may_report() {
            return None;
        }
        seen.reported = true;
        Some(verdict)
    }

    /// Whether there is room for another report. What finds none is reported as soon as there is,
    /// if it still goes on.
    fn may_report(&mut self) -> bool {
        while self.reports.front().is_some_and(|first| self.looks - first >= WINDOW) {
            self.reports.pop_front();
        }
        let has_room = self.reports.len() < REPORTS;
        if has_room {
            self.reports.push_back(self.looks);
        }
        has_room
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
    let limit = calls.hangs_after(&record.component, seen.held)?;
    Some(limit.overrun(Named(record, record.state()?.call).to_string(), seen.held))
}
