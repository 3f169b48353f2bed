//! Evaluation of the samples: the number of replacement threads that are needed, and the calls to report.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{self, Ordering},
    },
};

use tremor_pdk::lock;

use super::{
    Calls, Flows, Limits, Records,
    findings::{Finding, Named, Verdict},
    lasted,
    limit::Notification,
    record::{self, Call, Record, Seen, State},
    waits::Waits,
};

/// Maximum number of reports within [`WINDOW`] samples (one minute).
const REPORTS: usize = 10;
const WINDOW: u64 = 1_200;
/// Minimum time for which a replacement thread that is no longer needed is kept, in samples. A call that blocked once
/// may soon block again.
const MIN_SAMPLES: u32 = 200;

/// Samples the records of all flows of a run.
pub(super) struct Sampler {
    flows: Arc<Flows>,
    limits: Limits,
    pub(super) waits: Waits,
    /// Number of samples so far.
    samples: u64,
    /// Numbers of the samples in which calls into plugins were last reported.
    reports: VecDeque<u64>,
    /// Numbers of the samples in which turns were last reported.
    turn_reports: VecDeque<u64>,
    /// Notifications of exceeded limits that have not been taken yet.
    overruns: Vec<Notification>,
    /// Number of replacement threads that the executor should have.
    wanted: usize,
    /// Number of consecutive samples in which fewer than `wanted` replacement threads would have been enough.
    calm: u32,
}

impl Sampler {
    pub(super) fn new(flows: Arc<Flows>, limits: Limits, waits: Waits) -> Self {
        Self {
            flows,
            limits,
            waits,
            samples: 0,
            reports: VecDeque::new(),
            turn_reports: VecDeque::new(),
            overruns: Vec::new(),
            wanted: 0,
            calm: 0,
        }
    }

    /// Samples all records. Returns the number of replacement threads that are needed, and the calls to report.
    pub(super) fn sample(&mut self) -> (usize, Vec<Finding>) {
        self.samples += 1;
        self.waits.next_sample();
        let (mut blocked, mut findings) = (0, Vec::new());
        let flows = self.flows.clone();
        for calls in &*lock(&flows) {
            let mut own = Blocked::default();
            // A record without another reference belongs to a component or task that has ended.
            let Records { known, words } = &mut *lock(&calls.records);
            known.retain_mut(|known| {
                let is_idle = record::is_idle(&known.word);
                if is_idle && known.is_idle {
                    return true;
                }
                let record = &known.record;
                let mut seen = record.seen();
                // A thread that waits for a processor is not blocked by its call.
                let thread = record.blocked_thread(&seen);
                if thread.is_some_and(|it| self.waits.is_waiting(it)) {
                    return true;
                }
                let over = record.sample(&mut seen);
                self.overruns.extend(overrun(calls, record, &seen));
                own.add(record, &seen, self.limits.replaced);
                let over = over.map(|(call, samples)| (call, Verdict::Over(lasted(samples))));
                let found = over.or_else(|| {
                    let state = record.state()?;
                    Some((state.call, self.judge(&mut seen, state)?))
                });
                known.is_idle = is_idle && seen.blocked == 0 && !seen.reported;
                drop(seen);
                findings.extend(found.map(|(call, verdict)| Finding {
                    flow: calls.flow.clone(),
                    record: record.clone(),
                    call,
                    verdict,
                }));
                let is_used = Arc::strong_count(record) > 1;
                if !is_used {
                    // Every write of the previous owner of the word happened before this point.
                    atomic::fence(Ordering::Acquire);
                    words.give(known.word.clone());
                }
                is_used
            });
            blocked += own.threads();
            findings.extend(self.long_turn(calls, &own));
        }
        (self.replacements(blocked), findings)
    }

    /// Returns the notifications of exceeded limits since the last call.
    pub(super) fn take_overruns(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.overruns)
    }

    /// Counts a turn when it becomes long, and returns the finding to report, once for each turn.
    fn long_turn(&mut self, calls: &Calls, blocked: &Blocked) -> Option<Finding> {
        let (record, samples) = blocked.own_turn()?;
        let samples = *samples;
        if samples == self.limits.replaced {
            calls.count_long_turn(record);
        }
        let mut seen = record.seen();
        if seen.reported || !may_report(&mut self.turn_reports, self.samples) {
            return None;
        }
        seen.reported = true;
        let (flow, record, call) = (calls.flow.clone(), record.clone(), Call::Turn);
        let verdict = match &blocked.entered {
            Some(made) => Verdict::Calls(lasted(samples), made.clone()),
            None => Verdict::Blocks(lasted(samples)),
        };
        Some(Finding { flow, record, call, verdict })
    }

    /// Returns the verdict on an unfinished call into a plugin, once for each call, or `None` if there is nothing to
    /// report.
    fn judge(&mut self, seen: &mut Seen, state: State) -> Option<Verdict> {
        if state.call == Call::Turn {
            return None;
        }
        let verdict = if seen.blocked >= self.limits.blocked {
            Verdict::Blocks(lasted(seen.blocked))
        } else if seen.busy >= self.limits.busy && !state.call.may_be_busy() {
            Verdict::Busy(lasted(seen.busy))
        } else if seen.open >= self.limits.flushed && state.call == Call::Flushed {
            Verdict::Flushed(lasted(seen.open))
        } else if seen.open >= self.limits.unanswered && state.call.is_to_be_answered() {
            Verdict::Unanswered(lasted(seen.open))
        } else {
            return None;
        };
        if seen.reported || !may_report(&mut self.reports, self.samples) {
            return None;
        }
        seen.reported = true;
        Some(verdict)
    }

    /// Returns the number of replacement threads while calls block `blocked` threads. If fewer threads are needed in
    /// more than [`MIN_SAMPLES`] consecutive samples, the number decreases by one.
    fn replacements(&mut self, blocked: usize) -> usize {
        self.calm = if blocked < self.wanted { self.calm + 1 } else { 0 };
        if blocked > self.wanted {
            self.wanted = blocked;
        } else if self.calm > MIN_SAMPLES {
            (self.wanted, self.calm) = (self.wanted - 1, 0);
        }
        self.wanted
    }
}

/// Returns whether another report is allowed now. A finding that is not allowed now is reported later if the call still
/// continues.
fn may_report(reports: &mut VecDeque<u64>, samples: u64) -> bool {
    while reports.front().is_some_and(|first| samples - first >= WINDOW) {
        reports.pop_front();
    }
    let is_allowed = reports.len() < REPORTS;
    if is_allowed {
        reports.push_back(samples);
    }
    is_allowed
}

/// The threads of a flow that were inside the same call or turn in at least two consecutive samples.
#[derive(Default)]
struct Blocked {
    /// Number of background tasks of plugins that block a thread for long. Plugins' tasks do not run within turns.
    tasks: usize,
    /// Number of other calls into plugins that block a thread for long.
    calls: usize,
    /// `true` if a call into a plugin other than a task blocks a thread, even if only for a short time.
    has_call: bool,
    /// Long turns, each with its number of samples.
    turns: Vec<(Arc<Record>, u32)>,
    /// Description of a call into a plugin, other than a task, in which a thread is now or was since the sample before.
    entered: Option<String>,
}

impl Blocked {
    /// Adds a record. A thread counts as blocked for long after `long` samples.
    fn add(&mut self, record: &Arc<Record>, seen: &Seen, long: u32) {
        let entered = record.last_call().filter(|_| seen.was_entered && self.entered.is_none());
        if let Some(call) = entered.filter(|call| !matches!(call, Call::Turn | Call::Task)) {
            self.entered = Some(format!("{} of `{}`", Named(record, call), record.component));
        }
        let Some(state) = record.state().filter(|_| seen.blocked > 0) else { return };
        let is_long = seen.blocked >= long;
        match state.call {
            Call::Turn if is_long => self.turns.push((record.clone(), seen.blocked)),
            Call::Turn => {}
            Call::Task => self.tasks += usize::from(is_long),
            _ => {
                self.has_call = true;
                self.calls += usize::from(is_long);
            }
        }
    }

    /// Returns the number of threads to replace. A call is made within a turn and both have a record, so the greater
    /// number counts.
    fn threads(&self) -> usize {
        self.tasks + self.calls.max(self.turns.len())
    }

    /// Returns the turn that is long because of the runtime's own work, or `None` if a call into a plugin blocks a
    /// thread.
    ///
    /// A turn of a source may run the sink, whose turn has a record too. The turn that began last is returned.
    fn own_turn(&self) -> Option<&(Arc<Record>, u32)> {
        let turns = if self.has_call { &[] } else { &self.turns[..] };
        turns.iter().min_by_key(|(_, samples)| *samples)
    }
}

/// Returns the notification for a call that reached the limit for hanging calls in this sample, or that returned after
/// its limit.
fn overrun(calls: &Calls, record: &Record, seen: &Seen) -> Option<Notification> {
    if let Some((call, samples)) = seen.returned {
        let limit = record.limit.as_ref()?;
        let is_late = samples >= limit.samples && call.is_within_life();
        return is_late.then(|| limit.overrun(Named(record, call).to_string(), samples));
    }
    if seen.blocked == 0 {
        return None;
    }
    let call = record.state().map(|state| state.call).filter(|call| *call != Call::Turn)?;
    let limit = calls.hangs_after(&record.component, seen.blocked)?;
    Some(limit.overrun(Named(record, call).to_string(), seen.blocked))
}
