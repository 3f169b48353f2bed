//! Counts of the events that an operator buffers, and the tokens that acknowledge these events.

use std::collections::HashMap;

use tremor_abi::batch::HostOutput;
use tremor_pdk::Output;

use crate::engine::tracking::token::Token;

/// The batches of which an operator still buffers events.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Number that was assigned last to a batch whose source wants acknowledgements. Numbers begin at 1.
    last: u64,
    /// Number of the batch of the current call; 0 if the source of the batch wants no acknowledgements.
    current: u64,
    batches: HashMap<u64, Entry>,
    /// Number of buffered events of all batches.
    events: u64,
    /// Number of calls of [`Buffers::account`].
    calls: u64,
}

struct Entry {
    token: Token,
    /// Number of buffered events of the batch.
    events: u64,
    /// Number of the last call that released events of the batch.
    released_in: u64,
}

/// The effect of an operator call on buffered events.
pub(crate) struct Outcome {
    /// Token of all events that leave the operator in this call. It belongs to the batch of the call and to every batch
    /// of which buffered events were released.
    pub(crate) token: Token,
    /// Number of events that were buffered by this call.
    pub(crate) absorbed: usize,
    /// Number of buffered events that were released.
    pub(crate) released: usize,
    /// Number of events that the operator reported as released but had not absorbed.
    pub(crate) unknown: usize,
}

impl Buffers {
    /// Assigns a number to the batch of the next call. Returns 0 if its source wants no acknowledgements.
    pub(crate) fn number(&mut self, token: &Token) -> u64 {
        self.last += u64::from(token.is_tracked());
        self.current = if token.is_tracked() { self.last } else { 0 };
        self.current
    }

    /// Returns the number of the batch of the current call: see [`Buffers::number`].
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Returns the number of buffered events.
    pub(crate) fn events(&self) -> usize {
        count(self.events)
    }

    /// Returns whether the source of any buffered event wants acknowledgements.
    pub(crate) fn is_tracked(&self) -> bool {
        self.batches.values().any(|batch| batch.token.is_tracked())
    }

    /// Returns whether the source of any buffered event reads the event again if it fails.
    pub(crate) fn is_replayable(&self) -> bool {
        self.batches.values().any(|batch| batch.token.is_replayable())
    }

    /// Returns `false` if a source has finished that would read a buffered event again if it failed.
    pub(crate) fn are_read_again(&self) -> bool {
        self.batches.values().all(|batch| batch.token.is_read_again())
    }

    /// Counts the buffered events after an operator call with the batch that was last [numbered](Buffers::number).
    /// `input` is the token of that batch.
    pub(crate) fn account(&mut self, input: Token, output: &mut Output) -> Outcome {
        self.calls += 1;
        let absorbed = output.take_absorbed();
        if absorbed > 0 {
            let batch = self.batches.entry(self.current).or_insert_with(|| {
                let token = input.clone();
                Entry { token, events: 0, released_in: 0 }
            });
            batch.events = batch.events.saturating_add(absorbed);
            self.events = self.events.saturating_add(absorbed);
        }
        let (mut tokens, mut released, mut unknown) = (Vec::new(), 0, 0_u64);
        for share in output.take_released() {
            let batch = self.batches.get_mut(&share.batch);
            let Some(batch) = batch.filter(|batch| share.events <= batch.events) else {
                unknown = unknown.saturating_add(share.events);
                continue;
            };
            batch.events -= share.events;
            // The sum saturates if a plugin reports a very large number of absorbed events.
            self.events = self.events.saturating_sub(share.events);
            released += share.events;
            // The token of the current batch is added to the outcome's token below.
            if batch.released_in != self.calls && share.batch != self.current {
                batch.released_in = self.calls;
                tokens.push(batch.token.clone());
            }
            if batch.events == 0
                && let Some(batch) = self.batches.remove(&share.batch)
            {
                batch.token.settle();
            }
        }
        let token = if tokens.is_empty() {
            input
        } else {
            tokens.push(input);
            Token::join(tokens)
        };
        let (absorbed, released, unknown) = (count(absorbed), count(released), count(unknown));
        Outcome { token, absorbed, released, unknown }
    }

    /// Fails the batches of all buffered events. The events are still counted as buffered, because the operator may
    /// still have them.
    pub(crate) fn fail(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.token = Token::untracked());
    }

    /// Fails the batches of all buffered events and removes these events, because the operator no longer has them.
    /// Returns their number.
    pub(crate) fn clear(&mut self) -> usize {
        self.batches.clear();
        count(std::mem::take(&mut self.events))
    }
}

fn count(events: u64) -> usize {
    usize::try_from(events).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tremor_abi::batch::HostOutput;
    use tremor_pdk::{Batch, Buffered, Output};

    use super::{Buffers, Outcome};
    use crate::engine::tracking::token::{Ended, Ledger, Token};

    /// Absorbs a batch of two events, and then discards the events `buffered` if `releases` is set.
    fn call(
        buffers: &mut Buffers,
        token: Token,
        buffered: &mut Buffered,
        releases: bool,
    ) -> Outcome {
        let (mut output, mut batch) = (Output::new(), Batch::new());
        (0..2).for_each(|_| batch.push_message(b""));
        output.begin(buffers.number(&token));
        buffered.absorb_all(&mut batch, &mut output);
        if releases {
            buffered.discard(&mut output);
        }
        buffers.account(token, &mut output)
    }

    fn setup() -> (Buffers, Buffered, Arc<Ledger>) {
        (Buffers::default(), Buffered::new(), Arc::default())
    }

    #[test]
    fn buffered_events_are_acknowledged_with_emitted_event() {
        let (mut buffers, mut buffered, ledger) = setup();
        let token = |pull| Token::of(pull, &ledger);
        let first = call(&mut buffers, token(1), &mut buffered, false);
        assert_eq!((first.absorbed, first.released, buffers.events()), (2, 0, 2));
        first.token.settle();
        assert_eq!(ledger.take_ended(), []);
        let second = call(&mut buffers, token(2), &mut buffered, true);
        assert_eq!((second.absorbed, second.released, buffers.events()), (2, 4, 0));
        assert!(!buffers.is_tracked());
        assert_eq!(ledger.take_ended(), []);
        second.token.settle();
        let mut ended = ledger.take_ended();
        ended.sort_by_key(|ended| ended.pull);
        assert_eq!(ended, [1, 2].map(|pull| Ended::of(pull, None)));
    }

    #[test]
    fn buffered_events_fail_with_emitted_event() {
        let (mut buffers, mut buffered, ledger) = setup();
        call(&mut buffers, Token::of(1, &ledger), &mut buffered, false).token.settle();
        drop(call(&mut buffers, Token::untracked(), &mut buffered, true));
        assert_eq!(ledger.take_ended(), [Ended::of(1, Some(Vec::new()))]);
    }

    #[test]
    fn events_of_failed_batches_are_still_counted() {
        let (mut buffers, mut buffered, ledger) = setup();
        call(&mut buffers, Token::of(1, &ledger), &mut buffered, false).token.settle();
        buffers.fail();
        assert_eq!(ledger.take_ended(), [Ended::of(1, Some(Vec::new()))]);
        assert!(!buffers.is_tracked());
        let outcome = call(&mut buffers, Token::untracked(), &mut buffered, true);
        assert_eq!((outcome.released, outcome.unknown), (4, 0));
        call(&mut buffers, Token::untracked(), &mut buffered, false).token.settle();
        assert_eq!((buffers.clear(), buffers.events()), (2, 0));
    }

    #[test]
    fn events_that_were_not_absorbed_are_unknown() {
        let (mut buffers, mut buffered, _) = setup();
        call(&mut Buffers::default(), Token::untracked(), &mut buffered, false).token.settle();
        let outcome = call(&mut buffers, Token::untracked(), &mut buffered, true);
        assert_eq!((outcome.absorbed, outcome.released, outcome.unknown), (2, 0, 4));
    }
}
