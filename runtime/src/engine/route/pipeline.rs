//! A pipeline within one task. Operators run one after the other, a batch at a time.

use std::sync::Arc;

use tremor_abi::batch::{HostBatch, HostOutput, Surplus};
use tremor_pdk::{Batch, Error, ErrorKind, Result};

use crate::engine::{
    control::Control,
    route::{
        fan_out::{Env, fail, fan_out},
        step::{Health, Step, reject_remaining},
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

/// A call of an operator without a batch of events.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// The timer is due. The value is the current time of the flow, in ns since the Unix epoch.
    Time(u64),
    /// No more events follow, so the operator has to emit the events that it buffers.
    Drain,
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
            let result = step.process(&mut item.batch, &mut limit, (&*self.name, env.control));
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
        step.surplus = Surplus::default();
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
