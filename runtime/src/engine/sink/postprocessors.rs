//! The postprocessors of one sink, in order.

use tremor_abi::batch::{HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, Error, Output, Postprocessor};

use crate::codec::Terminator;

/// The postprocessors of one sink, which process messages after the codec.
///
/// Most postprocessors only append a suffix to each message. The codec appends the suffixes of all postprocessors
/// before the first one that does more. The remaining postprocessors run as separate steps.
#[derive(Default)]
pub(crate) struct Postprocessors {
    /// Suffixes that the codec appends.
    terminator: Terminator,
    steps: Vec<Step>,
    /// Rejected messages of the current step. Empty between batches.
    output: Output,
}

enum Step {
    Terminate(Terminator),
    Process { name: String, postprocessor: Box<dyn Postprocessor> },
}

impl Postprocessors {
    /// Appends a postprocessor.
    pub(crate) fn push(&mut self, name: &str, postprocessor: Box<dyn Postprocessor>) {
        if let (Some(suffix), [_, ..]) = (postprocessor.suffix(), &self.steps[..]) {
            self.terminator.push_later(name, suffix);
        }
        match (postprocessor.suffix(), self.steps.last_mut()) {
            (Some(suffix), None) => self.terminator.push(name, suffix),
            (Some(suffix), Some(Step::Terminate(before))) => before.push(name, suffix),
            (Some(suffix), Some(Step::Process { .. })) => {
                let mut terminator = Terminator::default();
                terminator.push(name, suffix);
                self.steps.push(Step::Terminate(terminator));
            }
            (None, _) => {
                self.terminator.set_followed();
                self.steps.push(Step::Process { name: name.to_owned(), postprocessor });
            }
        }
    }

    /// Returns the suffixes that the codec has to append to every message.
    pub(crate) fn terminator(&self) -> &Terminator {
        &self.terminator
    }

    /// Runs the steps on the messages of `encoded`, which correspond one to one to the events of `batch`. Messages
    /// that fail are removed from both batches, and their events are returned as rejected.
    pub(crate) fn process(&mut self, encoded: &mut Batch, batch: &mut Batch) -> Vec<Rejected> {
        let mut rejected = Vec::new();
        for step in &mut self.steps {
            match step {
                Step::Terminate(terminator) => {
                    rejected.extend(terminator.append(encoded, batch));
                }
                Step::Process { name, postprocessor } => {
                    number(encoded);
                    let result = postprocessor
                        .process(encoded, &mut self.output)
                        .and_then(|()| failures(name, batch.len(), encoded, &mut self.output));
                    let failures = result.unwrap_or_else(|error| {
                        encoded.retain(|_| false);
                        self.output.clear();
                        batch.events().iter().map(|_| Some(error.clone())).collect()
                    });
                    rejected.extend(take_out(batch, failures));
                    restore(encoded, batch);
                }
            }
            // Releases the buffers of the messages before the step.
            encoded.compact_if_large();
        }
        rejected
    }
}

/// Stores the position of every event in its field `pull`, so that the event of a message can be identified after the
/// step.
fn number(encoded: &mut Batch) {
    for (position, event) in (0..).zip(encoded.events_mut()) {
        event.pull = position;
    }
}

/// Restores the field `pull` of every event from `batch`.
fn restore(encoded: &mut Batch, batch: &Batch) {
    for (event, original) in encoded.events_mut().iter_mut().zip(batch.events()) {
        event.pull = original.pull;
    }
}

/// Returns an entry for each of the `count` messages that a postprocessor got: the error if the message failed. The
/// list is empty if no message failed.
///
/// # Errors
/// Returns an error if the postprocessor broke its contract, so that messages cannot be matched with events. Otherwise
/// the sink's answers would be applied to the wrong events.
fn failures(
    name: &str,
    count: usize,
    encoded: &Batch,
    output: &mut Output,
) -> Result<Vec<Option<Error>>, Error> {
    let broken = |how: &str| {
        Err(Error::internal(format_args!(
            "the postprocessor `{name}` {how}: of {count} messages it left {}",
            encoded.len()
        )))
    };
    output.take_discarded();
    if output.take_ports().next().is_some() {
        return broken("sent messages to a port, but has no ports");
    }
    let rejected = output.take_rejected();
    let mut failures = Vec::new();
    if !rejected.is_empty() {
        failures.resize(count, None);
    }
    for Rejected { event, error } in rejected {
        let failure = usize::try_from(event.pull).ok().and_then(|at| failures.get_mut(at));
        match failure {
            Some(failure @ None) => *failure = Some(error),
            _ => return broken("rejected a message twice, or one that it did not get"),
        }
    }
    let kept = (0..).zip(failures.iter()).filter(|(_, failure)| failure.is_none());
    let kept = kept.map(|(position, _)| position);
    let left = encoded.events().iter().map(|event| event.pull);
    let in_order = if failures.is_empty() { left.eq(0..count as u64) } else { left.eq(kept) };
    if in_order { Ok(failures) } else { broken("did not replace messages one by one, in order") }
}

/// Removes the events that failed from the batch and returns them.
fn take_out(batch: &mut Batch, failures: Vec<Option<Error>>) -> Vec<Rejected> {
    let mut rejected = Vec::new();
    if failures.is_empty() {
        return rejected;
    }
    let mut failures = failures.into_iter();
    batch.retain(|event| match failures.next().flatten() {
        Some(error) => {
            rejected.push(Rejected { event: event.into(), error });
            false
        }
        None => true,
    });
    rejected
}

#[cfg(test)]
mod tests;
