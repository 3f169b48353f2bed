//! A pipeline within one task. Operators run one after the other, a batch at a time.

use std::sync::Arc;

use tremor_abi::batch::{Failed, HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, Error, ErrorKind, Operator, Output, Result};

use crate::engine::{
    control::Control,
    parts::MakeOperator,
    retry::part_restarts::{Part, PartRestarts},
    route::{
        buffers::{Buffers, Outcome},
        fan_out::{DeadLetters, Env, fail, fan_out},
    },
    target::{Ports, Target},
    tracking::{
        stats::Stats,
        tap::IN,
        token::{InFlight, Token},
    },
};
use crate::flow::OUT;

/// The operators of a pipeline, with its ports and metrics.
pub(crate) struct Pipeline {
    pub(crate) name: Arc<str>,
    pub(crate) steps: Vec<Step>,
    pub(crate) ports: Ports,
    pub(crate) stats: Arc<Stats>,
}

/// An operator of a pipeline, with its ports and buffered events.
pub(crate) struct Step {
    /// Position and type of the operator, for messages.
    label: Box<str>,
    operator: Box<dyn Operator>,
    /// Creates another instance of the operator after a panic. `None` if that is not possible.
    make: Option<MakeOperator>,
    health: Health,
    /// Restarts after panics, of this instance and of the instances of other tasks.
    restarts: Arc<PartRestarts>,
    /// `true` if the operator is stateless.
    is_stateless: bool,
    /// Names of the operator's ports other than `in`, `out` and `err`, with the targets of their events.
    ports: Vec<(String, Vec<Target>)>,
    /// Events that the operator buffers.
    buffers: Buffers,
    output: Output,
    /// `true` once the operator has left a batch with other buffers than the shared ones that it got, as an edit does.
    replaces_buffers: bool,
}

/// The result of earlier calls of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Works,
    /// The last call because of the timer has failed. Then only a call of the timer shows that the operator works: an
    /// operator that panics in `due` may succeed in each `process`.
    TimerFailed,
    /// The operator has panicked and was not replaced, because the budget was exhausted.
    Gone,
}

/// Numbers of events of one operator call. If the operator works correctly, `had` is the sum of `out` and `kept`, and
/// `unknown` is 0.
struct Balance {
    /// Events that were passed to the call.
    input: usize,
    /// Events that were created.
    created: usize,
    /// Events that the operator had: events that were passed to the call, released from the operator's buffer, lost
    /// from this buffer in a panic, or created.
    had: usize,
    /// Events that left the operator, through any port.
    out: usize,
    /// Events that were discarded, merged or absorbed.
    kept: usize,
    /// Events that were reported as released but had not been absorbed.
    unknown: usize,
}

/// A call of an operator without a batch of events.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// The timer is due. The value is the current time of the flow, in ns since the Unix epoch.
    Time(u64),
    /// No more events follow, so the operator has to emit the events that it buffers.
    Drain,
}

impl Step {
    pub(crate) fn new(
        label: impl Into<Box<str>>,
        operator: Box<dyn Operator>,
        make: Option<MakeOperator>,
        ports: Vec<(String, Vec<Target>)>,
    ) -> Self {
        let (label, buffers, output) = (label.into(), Buffers::default(), Output::new());
        let (restarts, is_stateless) = (Arc::default(), false);
        Self {
            label,
            operator,
            make,
            health: Health::Works,
            restarts,
            is_stateless,
            ports,
            buffers,
            output,
            replaces_buffers: false,
        }
    }

    /// Marks the operator as stateless, and shares `restarts` with its other instances.
    pub(crate) fn stateless(self, restarts: Arc<PartRestarts>) -> Self {
        Self { restarts, is_stateless: true, ..self }
    }

    /// Calls the operator with a batch. First releases buffers of which the events use little: buffers that grew by
    /// edits to more than `limit` bytes ([`HostBatch::compact_if_grown`]), and shared buffers, of which an edit would
    /// copy all.
    fn process(&mut self, batch: &mut Batch, limit: &mut usize) -> Result<()> {
        self.restarts.check(&self.label)?;
        if let (Health::Gone, Some(make)) = (self.health, &self.make) {
            self.operator = make()?;
            self.health = Health::Works;
        }
        batch.compact_if_grown(limit);
        if !batch.shares_buffers() {
            return self.operator.process(batch, &mut self.output);
        }
        if self.replaces_buffers {
            batch.compact_sparse();
        }
        let nodes = batch.nodes().as_ptr();
        let result = self.operator.process(batch, &mut self.output);
        self.replaces_buffers |= !batch.is_empty() && batch.nodes().as_ptr() != nodes;
        result
    }

    /// Replaces an operator that has panicked, if its budget allows it. Otherwise all further events of the step fail.
    /// Returns the number of events that the operator had buffered. These events fail.
    fn restart(&mut self, name: &str, error: &Error, control: &Control) -> usize {
        let lost = self.buffers.clear();
        // The results of this call are lost together with the operator.
        self.output.begin(0);
        let Some(make) = &self.make else { return lost };
        let (label, calls, now) = (&*self.label, control.calls(), control.clock().now());
        let part = Part { component: name, label, calls, now };
        match self.restarts.restart(part, error, make) {
            Some(operator) => self.operator = operator,
            None if self.restarts.is_exhausted() => self.health = Health::Gone,
            None => {}
        }
        lost
    }

    /// Returns the names of the operator's ports other than `in`, `out` and `err`.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the time for which the operator's timer is set, in ns since the Unix epoch.
    pub(crate) fn due(&self) -> Option<u64> {
        if self.is_stateless { None } else { self.operator.due() }
    }

    /// Returns whether a call with `input` events left all of them in `batch` and did nothing else, which is true for
    /// most calls.
    fn has_passed(&self, input: usize, batch: &Batch) -> bool {
        batch.len() == input && input > 0 && self.output.is_empty()
    }

    /// Returns the numbers of events of a call, and counts these events in the metrics. `input` is the number of events
    /// that were passed to the call, `lost` the number that an operator had buffered before it panicked, and `merged`
    /// the number that were merged into other events.
    fn balance(
        &mut self,
        (input, lost, merged): (usize, usize, usize),
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
        let had = input.saturating_add(released).saturating_add(lost).saturating_add(created);
        Balance { input, created, had, out, kept, unknown }
    }

    /// Returns an error if the operator broke its contract in a call: it lost or invented events, sent them to ports
    /// that it does not have, or is stateless and buffered `stuck` events.
    fn broken(&self, balance: &Balance, stuck: usize) -> Option<Error> {
        let Balance { input, created, had, out, kept, unknown } = balance;
        let label = &self.label;
        if stuck > 0 {
            return Some(Error::internal(format_args!(
                "{label} buffers events, but is declared as stateless: remove `Component::STATELESS`, or buffer nothing"
            )));
        }
        if *unknown > 0 {
            return Some(Error::internal(format_args!(
                "{label} emits, rejects or discards {unknown} buffered events that it has not absorbed: \
                 let the closure of `Output::divert` return the verdict of `Buffered::absorb`"
            )));
        }
        let left = out.saturating_add(*kept);
        if *had != left {
            // The other events were buffered.
            let buffered = had.saturating_sub(input.saturating_add(*created));
            let more = match (buffered, created) {
                (0, 0) => String::new(),
                _ => format!(", released {buffered} that it had buffered, created {created},"),
            };
            return Some(Error::internal(format_args!(
                "{label} received {input} events{more} and accounts for {left}: leave every event in the batch, or \
                 send, reject, discard or absorb it, and add events only with `Buffered::emit`, \
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

    /// Routes the events that the operator sent to its other ports, and the events that it rejected. Returns the
    /// batches that have to leave through `out` before the batch of the call.
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
            let letters = DeadLetters { batch: &item.batch, rejected, token: item.token.clone() };
            letters.post(name, ports, stats, env);
        }
        for Failed { batch, error } in self.output.take_failed() {
            let reject = |event| Rejected { event, error: error.clone() };
            let rejected = batch.events().iter().copied().map(reject).collect();
            let letters = DeadLetters { batch: &batch, rejected, token: item.token.clone() };
            letters.post(name, ports, stats, env);
        }
        ahead
    }
}

impl Pipeline {
    /// Processes a batch. Results are added to [`Env::work`].
    pub(crate) fn process(&mut self, item: InFlight, env: &mut Env<'_>) {
        self.stats.taken(item.batch.len());
        self.stats.tap.pass(IN, &item.batch);
        self.process_from(0, item, env);
    }

    /// Processes a batch that the leading stateless operators have processed already.
    pub(crate) fn process_rest(&mut self, item: InFlight, env: &mut Env<'_>) {
        self.process_from(self.leading(), item, env);
    }

    /// Returns the number of stateless operators before the first other one.
    pub(crate) fn leading(&self) -> usize {
        let first = self.steps.iter().position(|step| !step.is_stateless);
        first.unwrap_or(self.steps.len())
    }

    fn process_from(&mut self, first: usize, mut item: InFlight, env: &mut Env<'_>) {
        let mut limit = 0;
        for position in first..self.steps.len() {
            let step = &mut self.steps[position];
            let count = item.batch.len();
            step.output.begin(step.buffers.number(&item.token));
            let result = step.process(&mut item.batch, &mut limit);
            if result.is_ok() && step.health == Health::Works {
                step.restarts.succeed();
            }
            if result.is_ok() && step.has_passed(count, &item.batch) {
                continue;
            }
            let input = std::mem::replace(&mut item.token, Token::untracked());
            let ahead = self.account(position, result, (input, count), &mut item, env);
            if !ahead.is_empty() {
                return self.process_all(position + 1, ahead, item, env);
            }
            if item.batch.is_empty() {
                return item.token.settle();
            }
        }
        match self.ports.out[..] {
            // The rest of the pipeline counts the events that leave.
            [rest @ Target::Rest(_)] => env.work.push((rest, item)),
            _ => fan_out((OUT, &self.ports.out), item, env.work, &self.stats),
        }
    }

    /// Counts the results of a call of the operator at `position`, compares them with the events that the operator had,
    /// and routes the results that do not leave through `out`. Returns the batches that have to leave through `out`
    /// before the batch of the call.
    ///
    /// `input` is the token of the events that were passed to the call, and `count` their number.
    fn account(
        &mut self,
        position: usize,
        result: Result<()>,
        (input, count): (Token, usize),
        item: &mut InFlight,
        env: &mut Env<'_>,
    ) -> Vec<Batch> {
        let Self { name, steps, ports, stats } = self;
        let step = &mut steps[position];
        let error = result.err().inspect(|error| {
            if count > 0 && item.batch.is_empty() {
                // No event is left that could be sent to `err` with the error, so the error is only logged.
                tracing::error!(component = %name, %error, "{}", step.label);
            }
            reject_remaining(&mut item.batch, &mut step.output, error);
        });
        let has_panicked = error.as_ref().is_some_and(|error| error.kind() == ErrorKind::PANICKED);
        let is_tracked = input.is_tracked() || step.buffers.is_tracked();
        let is_replayable = input.is_replayable() || step.buffers.is_replayable();
        let is_read_again = input.is_read_again() && step.buffers.are_read_again();
        let mut buffered = 0;
        if let (true, Some(error)) = (has_panicked, &error) {
            buffered = step.restart(name, error, env.control);
        }
        let merged = step.output.take_merged();
        // After a merge, an event may contain any other event of the batch, so the whole pull has to fail if one event
        // fails.
        let input = if merged > 0 { input.merged() } else { input };
        let outcome = step.buffers.account(input, &mut step.output);
        let balance = step.balance((count, buffered, merged), &outcome, &item.batch, stats);
        item.token = if merged > 0 { outcome.token.merged() } else { outcome.token };
        // A stateless operator is not flushed, so events that it buffers would never leave it.
        let stuck = if step.is_stateless { step.buffers.clear() } else { 0 };
        let lost = balance.had.saturating_sub(balance.out.saturating_add(balance.kept));
        let lost = lost.saturating_add(stuck);
        let failure = match error {
            // Events that a failed call has neither left in the batch nor sent to a port are lost.
            Some(error) if lost > 0 => {
                stats.failed(lost);
                stats.unrecoverable(if is_tracked { 0 } else { lost });
                let says = format_args!("{lost} events were lost in a call that failed");
                Some((lost, error.context(says)))
            }
            error => step.broken(&balance, stuck).map(|broken| {
                // The results of the operator are not reliable, so no event leaves.
                let failed = balance.had.saturating_sub(balance.kept).saturating_add(stuck);
                stats.failed(failed);
                stats.unrecoverable(if is_tracked { 0 } else { failed });
                step.output.clear();
                item.batch.retain(|_| false);
                (failed, error.map_or(broken.clone(), |error| error.context(&broken)))
            }),
        };
        if let Some((failed, error)) = failure {
            // The operator may have lost events that it buffers, too, so the batches of these events fail.
            step.buffers.fail();
            drop(item.token.clone());
            // While the operator can still be restarted, this is not recorded as a permanent failure: a source that
            // reads failed events again sends them to the new instance, unless the source has finished.
            let is_final = step.make.is_none() || step.restarts.is_exhausted();
            if !has_panicked || is_final || (is_replayable && !is_read_again) {
                fail(name, failed, || error, is_replayable, env.control);
            }
        }
        step.post(name, ports, item, stats, env)
    }

    /// Processes several batches, and then `last`, from the step at `first` on. The results of the batches are routed
    /// in this order.
    fn process_all(&mut self, first: usize, ahead: Vec<Batch>, last: InFlight, env: &mut Env<'_>) {
        let bottom = env.work.len();
        for batch in ahead {
            let top = env.work.len();
            let (token, is_letter) = (last.token.clone(), last.is_letter);
            self.process_from(first, InFlight { batch, token, is_letter }, env);
            // The work list is a stack, so the results of the first batch have to be at the top.
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

    /// Calls the operator at `position` without events, and processes its output in the later steps. Stateless
    /// operators are not called, because only calls with events have results.
    pub(crate) fn call(&mut self, position: usize, call: Call, env: &mut Env<'_>) {
        let step = &mut self.steps[position];
        if step.is_stateless {
            return;
        }
        step.output.begin(step.buffers.number(&Token::untracked()));
        let result = match call {
            Call::Time(now) => {
                let result = step.operator.on_time(now, &mut step.output);
                if result.is_ok() {
                    step.health = Health::Works;
                    step.restarts.succeed();
                } else {
                    step.health = Health::TimerFailed;
                }
                result
            }
            Call::Drain => {
                // No event follows, so an operator that panics now is not replaced, and its events fail permanently.
                step.make = None;
                step.operator.flush(&mut step.output)
            }
        };
        if let Err(error) = &result {
            tracing::error!(component = %self.name, %error, "{}", step.label);
        }
        let mut item = InFlight::new(Batch::from_pool(env.pool), Token::untracked());
        let ahead = self.account(position, result, (Token::untracked(), 0), &mut item, env);
        self.process_all(position + 1, ahead, item, env);
    }

    /// Reports operators that still buffer events after they were drained. The flow fails if a source would read these
    /// events again; otherwise they are recorded as lost.
    pub(crate) fn report_buffered(&self, control: &Control) {
        for step in self.steps.iter().filter(|step| step.buffers.events() > 0) {
            let (label, events) = (&step.label, step.buffers.events());
            let error = || {
                Error::internal(format_args!(
                    "{label} of the pipeline still buffers {events} events after its `flush`, which has \
                     to emit, reject or discard them; a `Buffered` that was dropped keeps its events"
                ))
            };
            fail(&self.name, events, error, step.buffers.is_replayable(), control);
        }
    }

    /// Returns the number of events that operators buffer.
    fn buffered(&self) -> usize {
        self.steps.iter().map(|step| step.buffers.events()).fold(0, usize::saturating_add)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Operators buffer events at this point only if the task was stopped, or if they did not emit these events when
        // they were drained. Dropping their tokens fails the events.
        let is_tracked = self.steps.iter().any(|step| step.buffers.is_tracked());
        self.stats.failed(self.buffered());
        self.stats.undelivered(if is_tracked { 0 } else { self.buffered() });
    }
}

/// Rejects the events that a failed call has left in the batch.
fn reject_remaining(batch: &mut Batch, output: &mut Output, error: &Error) {
    let reject = |event| Rejected { event, error: error.clone() };
    output.reject_all(batch.events().iter().copied().map(reject));
    batch.retain(|_| false);
}
