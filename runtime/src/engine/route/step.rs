//! An operator of a pipeline: its calls, the results of a call, and its faults.

use std::sync::Arc;

use tremor_abi::batch::{Failed, HostBatch, HostOutput, Identities, Rejected, Surplus};
use tremor_pdk::{Batch, Error, ErrorKind, Operator, Output, Result};

use crate::engine::{
    control::Control,
    parts::MakeOperator,
    retry::part_restarts::{PANICS_IN_A_ROW, Part, PartRestarts},
    route::{
        buffers::{Buffers, Outcome},
        fan_out::{DeadLetters, Env, fan_out},
    },
    target::{Ports, Target},
    tracking::{stats::Stats, token::InFlight},
};

/// An operator of a pipeline, with its ports and buffered events.
pub(crate) struct Step {
    /// Position and type of the operator, for messages.
    pub(super) label: Box<str>,
    pub(super) operator: Box<dyn Operator>,
    /// Creates another instance of the operator after a panic. `None` if that is not possible.
    pub(super) make: Option<MakeOperator>,
    pub(super) health: Health,
    /// Restarts after panics, of this instance and of the instances of other tasks.
    pub(super) restarts: Arc<PartRestarts>,
    /// `true` if the operator is stateless.
    pub(super) is_stateless: bool,
    /// Names of the operator's ports other than `in`, `out` and `err`, with the targets of their events.
    ports: Vec<(String, Vec<Target>)>,
    /// Events that the operator buffers.
    pub(super) buffers: Buffers,
    pub(super) output: Output,
    /// `true` once the operator has left a batch with other buffers than the shared ones that it got, as an edit does.
    replaces_buffers: bool,
    /// Identities of the events of a call. `None` for a built-in operator.
    identities: Option<Identities>,
    /// Events that the last call returned in place of other events.
    pub(super) surplus: Surplus,
}

/// The result of earlier calls of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Works,
    /// The last call because of the timer has failed. Then only a call of the timer shows that the operator works: an
    /// operator that panics in `due` may succeed in each `process`.
    TimerFailed,
    /// The operator has panicked and was not replaced, because the budget was exhausted.
    Gone,
}

/// Numbers of events of one operator call. If the operator works correctly, `had` is the sum of `out` and `kept`, and
/// `unknown` is 0.
pub(super) struct Balance {
    /// Events that were passed to the call.
    pub(super) input: usize,
    /// Events that were created.
    pub(super) created: usize,
    /// Events that the operator had: events that were passed to the call, released from the operator's buffer, lost
    /// from this buffer in a panic, or created.
    pub(super) had: usize,
    /// Events that left the operator, through any port.
    pub(super) out: usize,
    /// Events that were discarded, merged or absorbed.
    pub(super) kept: usize,
    /// Events that were reported as released but had not been absorbed.
    pub(super) unknown: usize,
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
        let identities = make.is_some().then(Identities::default);
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
            identities,
            surplus: Surplus::default(),
        }
    }

    /// Marks the operator as stateless, and shares `restarts` with its other instances.
    pub(crate) fn stateless(self, restarts: Arc<PartRestarts>) -> Self {
        Self { restarts, is_stateless: true, ..self }
    }

    /// Calls the operator with a batch. First releases buffers of which the events use little: buffers that grew by
    /// edits to more than `limit` bytes ([`HostBatch::compact_if_grown`]), and shared buffers, of which an edit would
    /// copy all.
    ///
    /// If a stateless operator panics and has not edited the batch, only the events fail on which it panics again.
    pub(super) fn process(
        &mut self,
        batch: &mut Batch,
        limit: &mut usize,
        (name, control): (&str, &Control),
    ) -> Result<()> {
        self.surplus = Surplus::default();
        self.restarts.check(&self.label)?;
        if let (Health::Gone, Some(make)) = (self.health, &self.make) {
            self.operator = make()?;
            self.health = Health::Works;
        }
        batch.compact_if_grown(limit);
        if self.replaces_buffers && batch.shares_buffers() {
            batch.compact_sparse();
        }
        let extent = batch.extent();
        let result = self.call(batch);
        let can_repeat = self.is_stateless && batch.len() > 1 && self.make.is_some();
        match result {
            Ok(()) => self.succeed(),
            Err(error)
                if error.kind() == ErrorKind::PANICKED
                    && can_repeat
                    && batch.has_extent(&extent) =>
            {
                return self.process_each(&error, batch, (name, control));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Records that a call with events has succeeded.
    fn succeed(&self) {
        if self.health == Health::Works {
            self.restarts.succeed();
        }
    }

    fn call(&mut self, batch: &mut Batch) -> Result<()> {
        if let Some(identities) = &mut self.identities {
            identities.record(batch);
        }
        let shared = batch.shares_buffers().then(|| batch.nodes().as_ptr());
        let result = self.operator.process(batch, &mut self.output);
        if let Some(nodes) = shared {
            self.replaces_buffers |= !batch.is_empty() && batch.nodes().as_ptr() != nodes;
        }
        if let Some(identities) = &mut self.identities {
            self.surplus = identities.surplus(batch, &self.output);
        }
        result
    }

    /// Processes a batch on which a stateless operator has panicked with `error`. The events on which it panics again
    /// are rejected. A copy of each event is passed alone to find them, and the results are discarded, because the
    /// operator then gives the same results for the others together.
    #[cold]
    fn process_each(
        &mut self,
        error: &Error,
        batch: &mut Batch,
        (name, control): (&str, &Control),
    ) -> Result<()> {
        self.discard_results();
        self.restart(name, error, control);
        if self.restarts.is_exhausted() {
            return Err(error.clone());
        }
        let (mut passing, mut rejected) = (Vec::with_capacity(batch.len()), Vec::new());
        let mut panics = 0;
        for event in batch.events() {
            let result = if panics < PANICS_IN_A_ROW {
                self.operator.process(&mut batch.copy_of(event), &mut self.output)
            } else {
                Err(Error::panicked(format_args!(
                    "{} has panicked on {panics} events in a row, and is not called for the remaining events of the \
                     batch",
                    self.label
                )))
            };
            self.discard_results();
            match result {
                Err(error) if error.kind() == ErrorKind::PANICKED => {
                    if panics < PANICS_IN_A_ROW {
                        panics += 1;
                        self.replace(name, control);
                    }
                    rejected.push(Rejected { event: *event, error });
                    continue;
                }
                Ok(()) => {
                    self.succeed();
                    panics = 0;
                }
                // The call for all events returns the error again.
                Err(_) => {}
            }
            passing.push(*event);
        }
        batch.set_events(&passing);
        let result = if passing.is_empty() { Ok(()) } else { self.call(batch) };
        self.output.reject_all(rejected);
        result
    }

    /// Replaces an operator that has panicked on an event that was passed alone.
    fn replace(&mut self, name: &str, control: &Control) {
        let Some(make) = &self.make else { return };
        if let Some(operator) = PartRestarts::replace(self.part(name, control), make) {
            self.operator = operator;
        }
    }

    fn part<'s>(&'s self, name: &'s str, control: &'s Control) -> Part<'s> {
        let (label, calls, now) = (&*self.label, control.calls(), control.clock().now());
        Part { component: name, label, calls, now }
    }

    /// Removes all results of a call.
    fn discard_results(&mut self) {
        self.output.clear();
        self.surplus = Surplus::default();
        self.output.begin(self.buffers.current());
    }

    /// Replaces an operator that has panicked, if its budget allows it. Otherwise all further events of the step fail.
    /// Returns the number of events that the operator had buffered. These events fail.
    pub(super) fn restart(&mut self, name: &str, error: &Error, control: &Control) -> usize {
        let lost = self.buffers.clear();
        // The events that this call absorbed and released are lost together with the operator.
        self.output.begin(self.buffers.current());
        let Some(make) = &self.make else { return lost };
        match self.restarts.restart(self.part(name, control), error, make) {
            Some(operator) => self.operator = operator,
            None if self.restarts.is_exhausted() => self.health = Health::Gone,
            None => {}
        }
        lost
    }

    /// Replaces the targets of the operator's own ports. A port that `targets` does not name is not linked.
    pub(super) fn set_targets(&mut self, targets: &[(String, Vec<Target>)]) {
        for (port, of_port) in &mut self.ports {
            let found = targets.iter().find(|(name, _)| name == port);
            *of_port = found.map(|(_, targets)| targets.clone()).unwrap_or_default();
        }
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
    pub(super) fn has_passed(&self, input: usize, batch: &Batch) -> bool {
        batch.len() == input && input > 0 && self.output.is_empty() && self.surplus.is_none()
    }

    /// Returns the numbers of events of a call, and counts these events in the metrics. `input` is the number of events
    /// that were passed to the call, `lost` the number that an operator had buffered before it panicked, and `merged`
    /// the number that were merged into other events.
    pub(super) fn balance(
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

    /// Returns an error if the operator broke its contract in a call: it lost or invented events, exchanged events,
    /// sent them to ports that it does not have, or is stateless and buffered `stuck` events.
    pub(super) fn broken(&self, balance: &Balance, stuck: usize) -> Option<Error> {
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
        if !self.surplus.is_none() {
            return Some(Error::internal(format_args!(
                "{label} returned {}: return each event once, add events only with `Output::create`, and absorb the \
                 events that a later call returns with `Buffered::emit_events`",
                self.surplus
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
    pub(super) fn post(
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

/// Rejects the events that a failed call has left in the batch.
pub(super) fn reject_remaining(batch: &mut Batch, output: &mut Output, error: &Error) {
    let reject = |event| Rejected { event, error: error.clone() };
    output.reject_all(batch.events().iter().copied().map(reject));
    batch.retain(|_| false);
}
