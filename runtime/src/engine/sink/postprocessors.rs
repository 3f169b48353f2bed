//! The postprocessors of one sink, in order.

use tremor_abi::batch::{HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, Error, Output, Postprocessor};

use crate::codec::Terminator;

/// The postprocessors of one sink, which its messages go through after the codec.
///
/// Most postprocessors do no more than end a message. What the first of them append is done with
/// the encoding, and only what comes after the first that does more is a step of its own.
#[derive(Default)]
pub(crate) struct Postprocessors {
    terminator: Terminator,
    steps: Vec<Step>,
    /// What steps hand on besides messages. Empty between batches.
    output: Output,
}

enum Step {
    Terminate(Terminator),
    Process { name: String, postprocessor: Box<dyn Postprocessor> },
}

impl Postprocessors {
    /// Adds a postprocessor after the others.
    pub(crate) fn push(&mut self, name: &str, postprocessor: Box<dyn Postprocessor>) {
        match (postprocessor.suffix(), self.steps.last_mut()) {
            (Some(suffix), None) => self.terminator.push(name, suffix),
            (Some(suffix), Some(Step::Terminate(before))) => before.push(name, suffix),
            (Some(suffix), Some(Step::Process { .. })) => {
                let mut terminator = Terminator::default();
                terminator.push(name, suffix);
                self.steps.push(Step::Terminate(terminator));
            }
            (None, _) => self.steps.push(Step::Process { name: name.to_owned(), postprocessor }),
        }
    }

    /// Returns what the codec has to append to every message.
    pub(crate) fn terminator(&self) -> &Terminator {
        &self.terminator
    }

    /// Does to the messages of `encoded` what is left to do. They are those of `batch`, one by one
    /// and in its order. What cannot be done is taken out of both, and returned as it is in
    /// `batch`.
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
            // What a message was before the step.
            encoded.shed();
        }
        rejected
    }
}

/// Gives every event its position to carry, where otherwise the pull is.
fn number(encoded: &mut Batch) {
    for (position, event) in (0..).zip(encoded.events_mut()) {
        event.pull = position;
    }
}

/// Takes the positions away again.
fn restore(encoded: &mut Batch, batch: &Batch) {
    for (event, original) in encoded.events_mut().iter_mut().zip(batch.events()) {
        event.pull = original.pull;
    }
}

/// Which of the `count` messages that a postprocessor was given failed, and why. None at all is
/// an empty list.
///
/// # Errors
/// The postprocessor has not kept to its contract: what it left cannot be told apart, and what a
/// sink says of it would be said of other events.
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
        return broken("sent messages to a port, and has none");
    }
    let rejected = output.take_rejected();
    let mut failures = Vec::new();
    if !rejected.is_empty() {
        failures.resize(count, None);
    }
    for Rejected { event, error } in rejected {
        let place = usize::try_from(event.pull).ok().and_then(|at| failures.get_mut(at));
        match place {
            Some(place @ None) => *place = Some(error),
            _ => return broken("rejected a message twice, or one that it was not given"),
        }
    }
    let kept = (0..).zip(failures.iter()).filter(|(_, failure)| failure.is_none());
    let kept = kept.map(|(position, _)| position);
    let left = encoded.events().iter().map(|event| event.pull);
    let in_order = if failures.is_empty() { left.eq(0..count as u64) } else { left.eq(kept) };
    if in_order { Ok(failures) } else { broken("does not replace messages one by one, in order") }
}

/// Takes the events that failed out of the batch.
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
