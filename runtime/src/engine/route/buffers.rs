//! The events that an operator buffers, with the tokens that they are acknowledged by.

use std::collections::HashMap;

use tremor_abi::batch::HostOutput;
use tremor_pdk::Output;

use crate::engine::account::token::Token;

/// The batches of which an operator buffers events.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The number of the last batch whose source wants acknowledgements. The first is 1.
    last: u64,
    /// The number of the batch of the current call; zero if its source wants no acknowledgements.
    current: u64,
    batches: HashMap<u64, Entry>,
    /// Events of all batches.
    events: u64,
    /// Calls that were accounted for.
    calls: u64,
}

struct Entry {
    token: Token,
    /// Events of the batch that are buffered.
    events: u64,
    /// The last call that released events of the batch.
    released_in: u64,
}

/// The outcome of a call.
pub(crate) struct Outcome {
    /// The token of all events that leave: it stands for the batch of the call, and for every batch of which
    /// buffered events were released.
    pub(crate) token: Token,
    /// Events of the batch that were absorbed.
    pub(crate) absorbed: usize,
    /// Buffered events that were released.
    pub(crate) released: usize,
    /// Events that were released, but had not been absorbed.
    pub(crate) unknown: usize,
}

impl Buffers {
    /// Returns the number of a batch that comes in; zero if its source wants no acknowledgements.
    pub(crate) fn number(&mut self, token: &Token) -> u64 {
        self.last += u64::from(token.is_tracked());
        self.current = if token.is_tracked() { self.last } else { 0 };
        self.current
    }

    /// Returns the number of events that are buffered.
    pub(crate) fn events(&self) -> usize {
        count(self.events)
    }

    /// Returns whether an event is buffered whose source wants an acknowledgement.
    pub(crate) fn is_tracked(&self) -> bool {
        self.batches.values().any(|batch| batch.token.is_tracked())
    }

    /// Returns whether an event is buffered that its source redelivers if it fails.
    pub(crate) fn comes_again(&self) -> bool {
        self.batches.values().any(|batch| batch.token.comes_again())
    }

    /// Accounts for a call with the batch of the last [`Buffers::number`], whose token is `came`.
    pub(crate) fn account(&mut self, came: Token, output: &mut Output) -> Outcome {
        self.calls += 1;
        let absorbed = output.take_absorbed();
        if absorbed > 0 {
            let batch = self.batches.entry(self.current).or_insert_with(|| {
                let token = came.clone();
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
            // A plugin may report more absorbed events than a number holds.
            self.events = self.events.saturating_sub(share.events);
            released += share.events;
            // The token of the current batch goes with what leaves in any case.
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
            came
        } else {
            tokens.push(came);
            Token::join(tokens)
        };
        let (absorbed, released, unknown) = (count(absorbed), count(released), count(unknown));
        Outcome { token, absorbed, released, unknown }
    }

    /// Fails the batches of all events that are buffered. The operator may still have them.
    pub(crate) fn fail(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.token = Token::untracked());
    }

    /// Fails the batches of all events that are buffered, because the operator is gone. Returns the number of
    /// these events.
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
    use crate::engine::account::token::{Ended, Ledger, Token};

    /// Absorbs a batch of two events, and then discards `buffered` if `releases` is set.
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
    fn buffered_events_are_acknowledged_with_what_leaves() {
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
    fn buffered_events_fail_with_what_leaves() {
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
