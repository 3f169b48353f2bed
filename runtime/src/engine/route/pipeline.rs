//! A pipeline as one task runs it: one operator after the other, a batch at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_abi::batch::{Failed, HostBatch, HostOutput, Pool, Rejected};
use tremor_pdk::{Batch, Error, ErrorKind, Operator, Output, Result};

use crate::engine::{
    account::{
        stats::Stats,
        tap::IN,
        token::{InFlight, Token},
    },
    control::Control,
    parts::MakeOperator,
    retry::backoff::Budget,
    route::{
        buffers::{Buffers, Outcome},
        dead_letter,
    },
    target::{Ports, Target},
};
use crate::flow::{ERR, OUT};

/// How often an operator that panics is made again within a minute.
const RESTARTS: u64 = 3;

/// A pipeline.
pub(crate) struct Pipeline {
    pub(crate) name: Arc<str>,
    pub(crate) steps: Vec<Step>,
    pub(crate) ports: Ports,
    pub(crate) stats: Arc<Stats>,
}

/// An operator at its place in a pipeline.
pub(crate) struct Step {
    /// Position and type of the operator, for messages.
    label: Box<str>,
    operator: Box<dyn Operator>,
    /// Makes another operator, should this one panic, while there is budget for that.
    make: Option<MakeOperator>,
    budget: Budget,
    /// Its own ports, and where their events go.
    ports: Vec<(String, Vec<Target>)>,
    /// The events that it buffers.
    buffers: Buffers,
    output: Output,
}

/// The numbers of a call that have to agree.
struct Balance {
    /// Events that came in, were buffered until this call, or were created.
    had: usize,
    /// Events that leave.
    out: usize,
    /// Events that do not: they were discarded, merged or absorbed.
    kept: usize,
    /// Events that were released and had not been absorbed.
    unknown: usize,
}

/// Why an operator is called other than for events.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// It is so late, in ns since the Unix epoch.
    Time(u64),
    /// Nothing follows.
    Drain,
}

/// What is env a pipeline while it runs.
pub(crate) struct Env<'r> {
    pub(crate) work: &'r mut Vec<(Target, InFlight)>,
    pub(crate) pool: &'r Pool,
    pub(crate) control: &'r Control,
}

impl Step {
    pub(crate) fn new(
        label: impl Into<Box<str>>,
        operator: Box<dyn Operator>,
        make: Option<MakeOperator>,
        ports: Vec<(String, Vec<Target>)>,
    ) -> Self {
        let (label, buffers, output) = (label.into(), Buffers::default(), Output::new());
        let budget = Budget::new(RESTARTS, Duration::from_mins(1));
        Self { label, operator, make, budget, ports, buffers, output }
    }

    /// Replaces an operator that has panicked, if the budget allows; otherwise all further events fail.
    /// Returns the number of events that it had buffered, which fail with it.
    fn restart(&mut self, name: &str, error: &Error) -> usize {
        let lost = self.buffers.clear();
        // The operator loses the events that it absorbed and released in this call as well.
        self.output.begin(0);
        let Some(make) = &self.make else { return lost };
        if !self.budget.take(Instant::now()) {
            tracing::error!(component = name, %error, "operator has failed for good");
            self.make = None;
            return lost;
        }
        match make() {
            Ok(operator) => {
                tracing::warn!(component = name, %error, "operator restarts");
                self.operator = operator;
            }
            Err(error) => tracing::error!(component = name, %error, "operator cannot be restarted"),
        }
        lost
    }

    /// The names of its own ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|(name, _)| name.as_str())
    }

    /// When the operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<u64> {
        self.operator.due()
    }

    /// Returns whether a call with `came` events has left all of them in their batch, and done nothing else,
    /// as most operators do.
    fn has_passed(&self, came: usize, batch: &Batch) -> bool {
        batch.len() == came && came > 0 && self.output.is_empty()
    }

    /// Returns the numbers of a call with `came` events, and counts them in the metrics. `lost` events were
    /// buffered by an operator that has panicked.
    fn balance(
        &mut self,
        (came, lost, merged): (usize, usize, usize),
        outcome: &Outcome,
        batch: &Batch,
        stats: &Stats,
    ) -> Balance {
        let (created, discarded) = (self.output.take_created(), self.output.take_discarded());
        let left: usize = self.output.all_batches().map(Batch::len).sum();
        let out = batch.len() + left + self.output.rejected().len();
        stats.created(created);
        stats.merged(merged);
        stats.discarded(discarded);
        let Outcome { absorbed, released, unknown, .. } = *outcome;
        let kept = discarded.saturating_add(merged).saturating_add(absorbed);
        let had = came.saturating_add(released).saturating_add(lost).saturating_add(created);
        Balance { had, out, kept, unknown }
    }

    /// Returns what is wrong with a call that reported no error.
    fn broken(&self, balance: &Balance) -> Option<Error> {
        let Balance { had, out, kept, unknown } = balance;
        let label = &self.label;
        if *unknown > 0 {
            return Some(Error::internal(format_args!(
                "{label} emits, rejects or discards {unknown} buffered events that it has not absorbed: \
                 let the closure of `Output::divert` return the verdict of `Buffered::absorb`"
            )));
        }
        let left = out.saturating_add(*kept);
        if *had != left {
            return Some(Error::internal(format_args!(
                "{label} had {had} events and accounts for {left}: leave, send, reject, discard or absorb \
                 every event that comes in, and emit others with `Buffered::emit`, \
                 `Buffered::emit_events` or `Output::create`"
            )));
        }
        let unknown = self
            .output
            .ports()
            .iter()
            .map(|out| out.port)
            .find(|port| *port != Output::OUT && usize::from(*port) >= self.ports.len());
        unknown.map(|port| {
            let names: Vec<_> = self.ports().collect();
            Error::internal(format_args!(
                "{label} sent events to its port {port}, but `Operator::ports` names {} of its own, \
                 counted from 0: [{}]",
                names.len(),
                names.join(", "),
            ))
        })
    }

    /// Sends what the operator has put out of its own ports, and what it rejected. Returns what
    /// goes out of `out` ahead of the batch in hand.
    fn post(
        &mut self,
        name: &str,
        ports: &Ports,
        item: &InFlight,
        stats: &Stats,
        env: &mut Env<'_>,
    ) -> Vec<Batch> {
        let mut ahead = Vec::new();
        for out in self.output.take_ports() {
            if out.port == Output::OUT {
                ahead.push(out.batch);
                continue;
            }
            let port = self.ports.get(usize::from(out.port));
            let (port, targets) = port.map_or(("", &[][..]), |(name, to)| (name, to));
            let (token, is_letter) = (item.token.clone(), item.is_letter);
            let item = InFlight { batch: out.batch, token, is_letter };
            fan_out((port, targets), item, env.work, stats);
        }
        let rejected = self.output.take_rejected();
        if !rejected.is_empty() {
            let letters = Letters { batch: &item.batch, rejected, token: item.token.clone() };
            letters.post(name, ports, stats, env);
        }
        for Failed { batch, error } in self.output.take_failed() {
            let reject = |event| Rejected { event, error: error.clone() };
            let rejected = batch.events().iter().copied().map(reject).collect();
            let letters = Letters { batch: &batch, rejected, token: item.token.clone() };
            letters.post(name, ports, stats, env);
        }
        ahead
    }
}

impl Pipeline {
    /// Takes a batch through the pipeline.
    pub(crate) fn process(&mut self, item: InFlight, env: &mut Env<'_>) {
        self.stats.taken(item.batch.len());
        self.stats.tap.pass(IN, &item.batch);
        self.process_from(0, item, env);
    }

    fn process_from(&mut self, first: usize, mut item: InFlight, env: &mut Env<'_>) {
        for position in first..self.steps.len() {
            let step = &mut self.steps[position];
            let count = item.batch.len();
            step.output.begin(step.buffers.number(&item.token));
            let result = step.operator.process(&mut item.batch, &mut step.output);
            if result.is_ok() && step.has_passed(count, &item.batch) {
                continue;
            }
            let came = std::mem::replace(&mut item.token, Token::untracked());
            let ahead = self.account(position, result, (came, count), &mut item, env);
            if !ahead.is_empty() {
                return self.process_all(position + 1, ahead, item, env);
            }
            if item.batch.is_empty() {
                return item.token.settle();
            }
        }
        fan_out((OUT, &self.ports.out), item, env.work, &self.stats);
    }

    /// After a call: compares what came in with what became of it, and sends what does not go out of
    /// `out`. Returns what goes out of that ahead of the batch in hand.
    fn account(
        &mut self,
        position: usize,
        result: Result<()>,
        (came, count): (Token, usize),
        item: &mut InFlight,
        env: &mut Env<'_>,
    ) -> Vec<Batch> {
        let Self { name, steps, ports, stats } = self;
        let step = &mut steps[position];
        let error = result.err().inspect(|error| {
            if count > 0 && item.batch.is_empty() {
                // No event is left that would take the error to `err`.
                tracing::error!(component = %name, %error, "{}", step.label);
            }
            reject_rest(&mut item.batch, &mut step.output, error);
        });
        let has_panicked = error.as_ref().is_some_and(|error| error.kind() == ErrorKind::PANICKED);
        let is_tracked = came.is_tracked() || step.buffers.is_tracked();
        let mut buffered = 0;
        if let (true, Some(error)) = (has_panicked, &error) {
            buffered = step.restart(name, error);
        }
        let comes_again = came.comes_again() || step.buffers.comes_again();
        let merged = step.output.take_merged();
        // Events that were absorbed have become part of others as well.
        let came = if merged > 0 { came.merged() } else { came };
        let outcome = step.buffers.account(came, &mut step.output);
        let balance = step.balance((count, buffered, merged), &outcome, &item.batch, stats);
        item.token = if merged > 0 { outcome.token.merged() } else { outcome.token };
        let lost = balance.had.saturating_sub(balance.out.saturating_add(balance.kept));
        let failure = match error {
            // Events that a failed call has left nowhere are lost with it.
            Some(error) if lost > 0 => {
                stats.failed(lost);
                stats.unrecoverable(if is_tracked { 0 } else { lost });
                let says = format_args!("{lost} events are lost with a call that failed");
                Some((lost, error.context(says)))
            }
            error => step.broken(&balance).map(|broken| {
                // The numbers of the operator cannot be trusted, so no event leaves.
                let failed = balance.had.saturating_sub(balance.kept);
                stats.failed(failed);
                stats.unrecoverable(if is_tracked { 0 } else { failed });
                step.output.clear();
                item.batch.retain(|_| false);
                (failed, error.map_or(broken.clone(), |error| error.context(&broken)))
            }),
        };
        if let Some((failed, error)) = failure {
            // The operator may have lost buffered events too.
            step.buffers.fail();
            drop(item.token.clone());
            // A replaced operator gets these events again.
            if !has_panicked || step.make.is_none() {
                fail(name, failed, || error, comes_again, env.control);
            }
        }
        step.post(name, ports, item, stats, env)
    }

    /// Takes several batches through the rest of the pipeline, in order, and `last` after them.
    fn process_all(&mut self, first: usize, ahead: Vec<Batch>, last: InFlight, env: &mut Env<'_>) {
        let bottom = env.work.len();
        for batch in ahead {
            let top = env.work.len();
            let (token, is_letter) = (last.token.clone(), last.is_letter);
            self.process_from(first, InFlight { batch, token, is_letter }, env);
            // The work list is a stack: what came first has to be on top.
            let added = env.work.len() - top;
            env.work[bottom..].rotate_right(added);
        }
        if last.batch.is_empty() {
            return last.token.settle();
        }
        let top = env.work.len();
        self.process_from(first, last, env);
        let added = env.work.len() - top;
        env.work[bottom..].rotate_right(added);
    }

    /// Calls one operator for another reason than events, and takes what comes of it through the
    /// rest of the pipeline.
    pub(crate) fn call(&mut self, position: usize, call: Call, env: &mut Env<'_>) {
        let step = &mut self.steps[position];
        step.output.begin(step.buffers.number(&Token::untracked()));
        let result = match call {
            Call::Time(now) => step.operator.on_time(now, &mut step.output),
            Call::Drain => step.operator.flush(&mut step.output),
        };
        if let Err(error) = &result {
            tracing::error!(component = %self.name, %error, "{}", step.label);
        }
        let mut item = InFlight::new(Batch::from_pool(env.pool), Token::untracked());
        let ahead = self.account(position, result, (Token::untracked(), 0), &mut item, env);
        self.process_all(position + 1, ahead, item, env);
    }

    /// Reports the events that operators still buffer after they were drained. These fail when the pipeline is
    /// dropped.
    pub(crate) fn report_buffered(&self, control: &Control) {
        for step in self.steps.iter().filter(|step| step.buffers.events() > 0) {
            let (label, events) = (&step.label, step.buffers.events());
            let error = || {
                Error::internal(format_args!(
                    "{label} of the pipeline still buffers {events} events after its `flush`, which has \
                     to emit, reject or discard them; a `Buffered` that was dropped keeps its events"
                ))
            };
            fail(&self.name, events, error, step.buffers.comes_again(), control);
        }
    }

    /// Returns the number of events that operators buffer.
    fn buffered(&self) -> usize {
        self.steps.iter().map(|step| step.buffers.events()).fold(0, usize::saturating_add)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Operators buffer events here only if the task was stopped, or they did not emit them when they
        // were drained: these events fail with their tokens.
        let is_tracked = self.steps.iter().any(|step| step.buffers.is_tracked());
        self.stats.failed(self.buffered());
        self.stats.undelivered(if is_tracked { 0 } else { self.buffered() });
    }
}

/// The operator failed as a whole: whatever it has left in the batch has failed with it.
fn reject_rest(batch: &mut Batch, output: &mut Output, error: &Error) {
    let reject = |event| Rejected { event, error: error.clone() };
    output.reject_all(batch.events().iter().copied().map(reject));
    batch.retain(|_| false);
}

/// Hands a batch to every target of a port; the last gets it without a copy.
pub(crate) fn fan_out(
    (port, targets): (&str, &[Target]),
    item: InFlight,
    work: &mut Vec<(Target, InFlight)>,
    stats: &Stats,
) {
    let events = item.batch.len();
    stats.tap.pass(port, &item.batch);
    if targets.is_empty() {
        stats.discarded(events);
        return item.token.settle();
    }
    stats.created(events * (targets.len() - 1));
    stats.delivered(events * targets.len());
    hand_on(targets, item, work);
}

fn hand_on(targets: &[Target], item: InFlight, work: &mut Vec<(Target, InFlight)>) {
    let Some((last, others)) = targets.split_last() else { return };
    // The work list is a stack: with the last target at the bottom, targets are served in the
    // order of their links.
    let bottom = work.len();
    for target in others.iter().rev() {
        work.push((*target, item.clone()));
    }
    work.insert(bottom, (*last, item));
}

/// Says that so many events have failed for good. Where their source would bring them again and again, its
/// flow has failed.
fn fail(
    name: &str,
    events: usize,
    error: impl FnOnce() -> Error,
    comes_again: bool,
    control: &Control,
) {
    if comes_again {
        control.fail(name, error());
    } else {
        control.losses().add(name, events, error);
    }
}

/// Events that a component could not handle.
pub(crate) struct Letters<'b> {
    pub(crate) batch: &'b Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) token: Token,
}

impl Letters<'_> {
    /// Sends them to where the port `err` of the component leads.
    pub(crate) fn post(self, name: &str, ports: &Ports, stats: &Stats, env: &mut Env<'_>) {
        let Some(first) = self.rejected.first() else { return self.token.settle() };
        let count = self.rejected.len();
        if ports.err.is_empty() && ports.discards_failed {
            tracing::debug!(component = name, events = count, first = %first.error, "discarded");
            stats.discarded(count);
            return self.token.settle();
        }
        if ports.err.is_empty() {
            stats.failed(count);
            stats.unrecoverable(if self.token.is_tracked() { 0 } else { count });
            let error = || {
                first.error.clone().context(format_args!(
                    "link `{name}/err` to keep events that fail, or set `err: discard` to drop them"
                ))
            };
            fail(name, count, error, self.token.comes_again(), env.control);
            return self.token.fail(self.rejected.iter().map(|rejected| &rejected.event));
        }
        let copies = count * (ports.err.len() - 1);
        stats.dead_lettered(count);
        stats.created(copies);
        stats.delivered(copies);
        tracing::debug!(component = name, events = count, first = %first.error, "dead-lettered");
        let shown = ports.letter_bytes.unwrap_or(Rejected::SHOWN);
        let letters = dead_letter::letters(name, self.batch, &self.rejected, env.pool, shown);
        // The work list is a stack: what comes first has to be on top.
        for batch in letters.into_iter().rev() {
            stats.tap.pass(ERR, &batch);
            let item = InFlight { is_letter: true, ..InFlight::new(batch, self.token.clone()) };
            hand_on(&ports.err, item, env.work);
        }
        self.token.settle();
    }
}
