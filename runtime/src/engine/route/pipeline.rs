//! A pipeline as one task runs it: one operator after the other, a batch at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::{
    Batch, Error, ErrorKind, Operator, Output, Result,
    abi::batch::{HostBatch, Pool, Rejected},
};

use crate::engine::{
    account::{
        stats::Stats,
        tap::IN,
        token::{InFlight, Token},
    },
    life::{backoff::Budget, control::Control},
    parts::MakeOperator,
    route::{dead_letter, held::Held},
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
    operator: Box<dyn Operator>,
    /// Makes another operator, should this one panic, while there is budget for that.
    make: Option<MakeOperator>,
    budget: Budget,
    /// Its own ports, and where their events go.
    ports: Vec<(String, Vec<Target>)>,
    /// The batches that it holds events of, and how many events it holds.
    held: Held,
    held_events: usize,
    output: Output,
}

/// What became of the events that an operator had.
struct Balance {
    /// How many there were: those that came in, those that it held, and those that it made.
    had: usize,
    /// Those that are to be sent somewhere.
    out: usize,
    /// Those that are not: discarded, merged, held.
    kept: usize,
    /// Whether what goes out may stand for others that came in.
    has_merged: bool,
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
        operator: Box<dyn Operator>,
        make: Option<MakeOperator>,
        ports: Vec<(String, Vec<Target>)>,
    ) -> Self {
        let (held, output) = (Held::default(), Output::new());
        let budget = Budget::new(RESTARTS, Duration::from_mins(1));
        Self { operator, make, budget, ports, held, held_events: 0, output }
    }

    /// What has panicked is gone, and what it held with it. Another one takes its place, if that may
    /// be; otherwise everything that comes fails.
    fn restart(&mut self, name: &str, error: &Error) {
        self.held.fail();
        // What it has said of the batch in hand holds no more.
        self.output.begin(0);
        let Some(make) = &self.make else { return };
        if !self.budget.take(Instant::now()) {
            tracing::error!(component = name, %error, "operator has failed for good");
            self.make = None;
            return;
        }
        match make() {
            Ok(operator) => {
                tracing::warn!(component = name, %error, "operator restarts");
                self.operator = operator;
            }
            Err(error) => tracing::error!(component = name, %error, "operator cannot be restarted"),
        }
    }

    /// The names of its own ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|(name, _)| name.as_str())
    }

    /// When the operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<u64> {
        self.operator.due()
    }

    /// After a call with so many events: whether they go on in their batch, and that is all, as it is
    /// for most operators that keep nothing.
    fn has_passed(&self, came: usize, batch: &Batch) -> bool {
        let has_held = self.held_events > 0 || !self.held.is_empty();
        batch.len() == came
            && came > 0
            && self.output.is_empty()
            && !has_held
            && self.operator.held() == 0
    }

    /// After a call with so many events: what became of them and of those that were held, as far as
    /// the operator says.
    fn balance(&mut self, came: usize, batch: &Batch, stats: &Stats) -> Balance {
        let (created, merged) = (self.output.take_created(), self.output.take_merged());
        let discarded = self.output.take_discarded();
        let had = came + self.held_events + created;
        self.held_events = self.operator.held();
        let ports: usize = self.output.batches().map(Batch::len).sum();
        let out = batch.len() + ports + self.output.rejected().len();
        stats.created(created);
        stats.merged(merged);
        stats.discarded(discarded);
        let kept = discarded + merged + self.held_events;
        Balance { had, out, kept, has_merged: merged > 0 }
    }

    /// What the operator did wrong in a call that it thinks went well.
    fn broken(&self, balance: &Balance, came: &Token) -> Option<Error> {
        let Balance { had, out, kept, .. } = balance;
        let left = out + kept;
        if *had != left {
            return Some(Error::internal(format_args!(
                "the operator had {had} events and accounts for {left}: an event is left, sent, \
                 rejected, held, or said to be discarded, merged or created"
            )));
        }
        let unknown = self
            .output
            .ports()
            .iter()
            .map(|out| out.port)
            .find(|port| *port != Output::OUT && usize::from(*port) >= self.ports.len());
        if let Some(port) = unknown {
            let names: Vec<_> = self.ports().collect();
            return Some(Error::internal(format_args!(
                "the operator sent events to its port {port}, but `Operator::ports` names {} of \
                 its own, counted from 0: [{}]",
                names.len(),
                names.join(", "),
            )));
        }
        let is_forgotten = self.held_events > 0 && self.held.is_empty() && self.output.holds() == 0;
        (is_forgotten && came.is_tracked()).then(|| {
            Error::internal(
                "the operator holds events, and has not said with `Output::hold` of which batch",
            )
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
            step.output.begin(step.held.number(&item.token));
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
            reject_rest(&mut item.batch, &mut step.output, error);
        });
        let has_panicked = error.as_ref().is_some_and(|error| error.kind() == ErrorKind::PANICKED);
        if let (true, Some(error)) = (has_panicked, &error) {
            step.restart(name, error);
        }
        let balance = step.balance(count, &item.batch, stats);
        let comes_again = came.comes_again() || step.held.comes_again();
        let is_tracked = came.is_tracked() || !step.held.is_empty();
        let lost = balance.had.saturating_sub(balance.out + balance.kept);
        let failure = match error {
            // What a call that failed has left neither in its batch nor anywhere else is lost with it.
            Some(error) if lost > 0 => {
                stats.failed(lost);
                stats.unrecoverable(if is_tracked { 0 } else { lost });
                let says = format_args!("{lost} events are lost with a call that failed");
                Some((lost, error.context(says)))
            }
            error => step.broken(&balance, &came).map(|broken| {
                // Nothing of it can be believed, and so nothing goes out.
                let failed = balance.had.saturating_sub(balance.kept);
                stats.failed(failed);
                stats.unrecoverable(if is_tracked { 0 } else { failed });
                step.output.clear();
                item.batch.retain(|_| false);
                (failed, error.map_or(broken.clone(), |error| error.context(&broken)))
            }),
        };
        // What is held of it has become part of other events as well.
        let came = if balance.has_merged { came.merged() } else { came };
        item.token = step.held.account(Some(came), &mut step.output);
        if balance.has_merged {
            item.token = std::mem::replace(&mut item.token, Token::untracked()).merged();
        }
        if let Some((failed, error)) = failure {
            // It may have lost what it held as well.
            step.held.fail();
            drop(item.token.clone());
            // One that has panicked is made anew as often as may be, and gets these events again.
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
        let mut batch = Batch::from_pool(env.pool);
        let result: Result<()> = match call {
            Call::Time(now) => step.operator.on_time(now, &mut batch, &mut step.output),
            Call::Drain => step.operator.flush(&mut batch, &mut step.output),
        };
        if let Err(error) = &result {
            tracing::error!(component = %self.name, %error, "operator");
        }
        let mut item = InFlight::new(batch, Token::untracked());
        let ahead = self.account(position, result, (Token::untracked(), 0), &mut item, env);
        self.process_all(position + 1, ahead, item, env);
    }

    /// Reports the events that operators still buffer after they were drained. These fail when the pipeline is
    /// dropped.
    pub(crate) fn report_held(&self, control: &Control) {
        for (number, step) in (1..).zip(&self.steps).filter(|(_, step)| step.held_events > 0) {
            let held = step.held_events;
            let error = || {
                Error::internal(format_args!(
                    "operator {number} of the pipeline still buffers {held} events after its `flush`, \
                     which has to emit, reject or discard them"
                ))
            };
            fail(&self.name, held, error, step.held.comes_again(), control);
        }
    }

    /// How many events operators hold.
    fn held(&self) -> usize {
        self.steps.iter().map(|step| step.held_events).sum()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Nothing, unless the task was stopped: what operators held fails with its tokens.
        let is_tracked = self.steps.iter().any(|step| !step.held.is_empty());
        self.stats.failed(self.held());
        self.stats.undelivered(if is_tracked { 0 } else { self.held() });
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
