//! A pipeline as one task runs it: one operator after the other, a batch at a time.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use tremor_pdk::{
    Batch, Error, ErrorKind, Operator, Output, Result,
    abi::batch::{Pool, Rejected},
};

use super::{
    backoff::RestartBudget,
    build::MakeOperator,
    dead_letter,
    delivery::{InFlight, Token},
    routes::{Ports, Target},
    stats::Stats,
};

/// A pipeline.
pub(crate) struct Stage {
    pub(crate) name: Arc<str>,
    pub(crate) steps: Vec<Step>,
    pub(crate) ports: Ports,
}

/// An operator at its place in a pipeline.
pub(crate) struct Step {
    operator: Box<dyn Operator>,
    /// Makes another operator, should this one panic, while there is budget for that.
    make: Option<MakeOperator>,
    budget: RestartBudget,
    /// Where the events of its own ports go.
    ports: Vec<Vec<Target>>,
    /// The tokens of the batches that it holds events of, in order.
    held: VecDeque<(Token, usize)>,
    output: Output,
}

/// Why an operator is called other than for events.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// It is so late, in ns since the Unix epoch.
    Time(u64),
    /// Nothing follows.
    Drain,
}

/// What is around a stage while it runs.
pub(crate) struct Around<'r> {
    pub(crate) work: &'r mut Vec<(Target, InFlight)>,
    pub(crate) pool: &'r Pool,
    pub(crate) stats: &'r Stats,
}

impl Step {
    pub(crate) fn new(
        operator: Box<dyn Operator>,
        make: Option<MakeOperator>,
        ports: Vec<Vec<Target>>,
    ) -> Self {
        let (held, output) = (VecDeque::new(), Output::new());
        Self { operator, make, budget: RestartBudget::new(), ports, held, output }
    }

    /// What has panicked is gone, and what it held has failed with it. Another one takes its place,
    /// if that may be; otherwise everything that comes fails.
    fn restart(&mut self, name: &str, error: &Error, stats: &Stats) {
        stats.failed(self.held.drain(..).map(|(_, events)| events).sum());
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

    /// When the operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<u64> {
        self.operator.due()
    }

    /// After a call: takes what came in into account, gives the token of what goes out.
    fn account(&mut self, came: Option<(Token, usize)>) -> Token {
        let still = self.operator.held();
        if self.held.is_empty() && still == 0 {
            return came.map_or_else(Token::untracked, |(token, _)| token);
        }
        self.held.extend(came);
        // What goes out may have events of any batch that was held, so it stands for all.
        let gone = self.held.len().saturating_sub(still);
        let done: Vec<Token> = self.held.drain(..gone).map(|(token, _)| token).collect();
        let held = self.held.iter().map(|(token, _)| token.clone());
        Token::join(done.into_iter().chain(held).collect())
    }

    /// Sends what the operator has put out of its own ports, and what it rejected. Returns what
    /// goes out of `out` ahead of the batch in hand.
    fn post(
        &mut self,
        name: &str,
        err: &[Target],
        item: &InFlight,
        around: &mut Around<'_>,
    ) -> Vec<Batch> {
        let mut ahead = Vec::new();
        let discarded = self.output.take_discarded();
        if discarded > 0 {
            around.stats.discarded(discarded);
        }
        for out in self.output.take_ports() {
            if out.port == Output::OUT {
                ahead.push(out.batch);
                continue;
            }
            let targets = self.ports.get(usize::from(out.port)).map_or(&[][..], Vec::as_slice);
            let item = InFlight { batch: out.batch, token: item.token.clone() };
            fan_out(targets, item, around.work, around.stats);
        }
        let rejected = self.output.take_rejected();
        if !rejected.is_empty() {
            let letters = Letters { batch: &item.batch, rejected, token: item.token.clone() };
            letters.post(name, err, around);
        }
        ahead
    }
}

impl Stage {
    /// Takes a batch through the pipeline.
    pub(crate) fn process(&mut self, item: InFlight, around: &mut Around<'_>) {
        self.process_from(0, item, around);
    }

    fn process_from(&mut self, first: usize, mut item: InFlight, around: &mut Around<'_>) {
        for position in first..self.steps.len() {
            let step = &mut self.steps[position];
            let count = item.batch.len();
            let result = step.operator.process(&mut item.batch, &mut step.output);
            let lost = result.is_err() && item.batch.is_empty();
            if let Err(error) = result {
                reject_rest(&mut item.batch, &mut step.output, &error);
                if error.kind() == ErrorKind::PANICKED {
                    step.restart(&self.name, &error, around.stats);
                } else if lost {
                    tracing::error!(component = %self.name, %error, events = count, "operator");
                }
            }
            let token = std::mem::replace(&mut item.token, Token::untracked());
            if lost {
                // The operator left nothing that could be sent to `err`.
                drop(token.clone());
                around.stats.failed(count);
            }
            item.token = step.account(Some((token, count)));
            let ahead = step.post(&self.name, &self.ports.err, &item, around);
            if !ahead.is_empty() {
                return self.process_all(position + 1, ahead, item, around);
            }
            if item.batch.is_empty() {
                return item.token.settle();
            }
        }
        fan_out(&self.ports.out, item, around.work, around.stats);
    }

    /// Takes several batches through the rest of the pipeline, in order, and `last` behind them.
    fn process_all(
        &mut self,
        first: usize,
        ahead: Vec<Batch>,
        last: InFlight,
        around: &mut Around<'_>,
    ) {
        let bottom = around.work.len();
        for batch in ahead {
            let top = around.work.len();
            self.process_from(first, InFlight { batch, token: last.token.clone() }, around);
            // The work list is a stack: what came first has to be on top.
            let added = around.work.len() - top;
            around.work[bottom..].rotate_right(added);
        }
        if last.batch.is_empty() {
            return last.token.settle();
        }
        let top = around.work.len();
        self.process_from(first, last, around);
        let added = around.work.len() - top;
        around.work[bottom..].rotate_right(added);
    }

    /// Calls one operator for another reason than events, and takes what comes of it through the
    /// rest of the pipeline.
    pub(crate) fn call(&mut self, position: usize, call: Call, around: &mut Around<'_>) {
        let step = &mut self.steps[position];
        let mut batch = Batch::from_pool(around.pool);
        let result: Result<()> = match call {
            Call::Time(now) => step.operator.on_time(now, &mut batch, &mut step.output),
            Call::Drain => step.operator.on_drain(&mut batch, &mut step.output),
        };
        if let Err(error) = result {
            tracing::error!(component = %self.name, %error, "operator");
            if error.kind() == ErrorKind::PANICKED {
                step.restart(&self.name, &error, around.stats);
            }
        }
        let item = InFlight { batch, token: step.account(None) };
        let ahead = step.post(&self.name, &self.ports.err, &item, around);
        self.process_all(position + 1, ahead, item, around);
    }

    /// How many events of batches in hand operators hold back, at most.
    pub(crate) fn held(&self) -> usize {
        self.steps.iter().flat_map(|step| &step.held).map(|(_, events)| events).sum()
    }
}

/// The operator failed as a whole: whatever it has left in the batch has failed with it.
fn reject_rest(batch: &mut Batch, output: &mut Output, error: &Error) {
    let reject = |event| Rejected { event, error: error.clone() };
    output.reject_all(batch.events().iter().copied().map(reject));
    batch.retain(|_, _| false);
}

/// Hands a batch to every target; the last gets it without a copy.
pub(crate) fn fan_out(
    targets: &[Target],
    item: InFlight,
    work: &mut Vec<(Target, InFlight)>,
    stats: &Stats,
) {
    let Some((last, others)) = targets.split_last() else {
        stats.discarded(item.batch.len());
        return item.token.settle();
    };
    // The work list is a stack: with the last target at the bottom, targets are served in the
    // order of their links.
    let bottom = work.len();
    for target in others.iter().rev() {
        let copy = InFlight { batch: item.batch.clone(), token: item.token.clone() };
        work.push((*target, copy));
    }
    work.insert(bottom, (*last, item));
}

/// Events that a component could not handle.
pub(crate) struct Letters<'b> {
    pub(crate) batch: &'b Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) token: Token,
}

impl Letters<'_> {
    /// Sends them to where the port `err` of the component leads.
    pub(crate) fn post(self, name: &str, err: &[Target], around: &mut Around<'_>) {
        let Some(first) = self.rejected.first() else { return self.token.settle() };
        let count = self.rejected.len();
        if err.is_empty() {
            around.stats.failed(count);
            tracing::error!(
                component = name,
                events = count,
                first = %first.error,
                "events failed; link `{name}/err` to keep them"
            );
            return;
        }
        around.stats.dead_lettered(count);
        tracing::debug!(component = name, events = count, first = %first.error, "dead-lettered");
        let batch = dead_letter::letters(name, self.batch, &self.rejected, around.pool);
        fan_out(err, InFlight { batch, token: self.token }, around.work, around.stats);
    }
}
