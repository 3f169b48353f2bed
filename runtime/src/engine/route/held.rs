//! The batches that an operator holds something of, and with what they are acknowledged.

use std::collections::HashMap;

use tremor_pdk::Output;

use crate::engine::account::token::Token;

/// The tokens of batches that an operator holds something of.
#[derive(Default)]
pub(crate) struct Held {
    /// The number of the last batch whose source wants acknowledgements. The first is 1.
    last: u64,
    batches: HashMap<u64, HeldBatch>,
    /// The calls that were accounted for.
    calls: u64,
}

struct HeldBatch {
    token: Token,
    /// The parts of it that are held.
    parts: u64,
    /// The last call that let go of one.
    released_in: u64,
}

impl Held {
    /// The number of a batch that comes in; zero where its source wants no acknowledgements.
    pub(crate) fn number(&mut self, token: &Token) -> u64 {
        if !token.is_tracked() {
            return 0;
        }
        self.last += 1;
        self.last
    }

    /// Whether something is held whose source wants an acknowledgement.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether something is held that its source brings again where it fails.
    pub(crate) fn comes_again(&self) -> bool {
        self.batches.values().any(|batch| batch.token.comes_again())
    }

    /// After a call with the batch that came in last, or with none: the token of what goes out. It
    /// stands for the batch in hand, and for every batch of which something was let go.
    pub(crate) fn account(&mut self, came: Option<Token>, output: &mut Output) -> Token {
        self.calls += 1;
        let came = came.unwrap_or_else(Token::untracked);
        // What is held of it may be let go of in the same call.
        if output.holds() > 0 && came.is_tracked() {
            let batch = HeldBatch { token: came.clone(), parts: output.holds(), released_in: 0 };
            self.batches.insert(self.last, batch);
        }
        let mut tokens = Vec::new();
        for number in output.take_released() {
            let Some(batch) = self.batches.get_mut(&number) else { continue };
            batch.parts -= 1;
            if batch.released_in != self.calls {
                batch.released_in = self.calls;
                tokens.push(batch.token.clone());
            }
            if batch.parts == 0
                && let Some(batch) = self.batches.remove(&number)
            {
                batch.token.settle();
            }
        }
        if tokens.is_empty() {
            return came;
        }
        tokens.push(came);
        Token::join(tokens)
    }

    /// What was held is gone: its batches fail.
    pub(crate) fn fail(&mut self) {
        self.batches.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tremor_pdk::{Holds, Output};

    use super::Held;
    use crate::engine::account::token::{Ended, Ledger, Token};

    /// A call with the batch of a pull, of which a part is held, and then all that is held goes out.
    fn call(held: &mut Held, token: Token, holds: &mut Holds, goes_out: bool) -> Token {
        let mut output = Output::new();
        output.begin(held.number(&token));
        output.hold(holds);
        if goes_out {
            output.release(holds);
        }
        held.account(Some(token), &mut output)
    }

    #[test]
    fn what_is_held_is_acknowledged_with_what_goes_out_and_not_before() {
        let (mut held, mut holds, ledger) = (Held::default(), Holds::default(), Arc::default());
        let token = |pull| Token::of(pull, &ledger);
        call(&mut held, token(1), &mut holds, false).settle();
        assert_eq!(Ledger::take_ended(&ledger), []);
        let out = call(&mut held, token(2), &mut holds, true);
        assert!(held.is_empty(), "nothing is held any more, nor is the batch in hand");
        assert_eq!(Ledger::take_ended(&ledger), []);
        out.settle();
        let mut ended = Ledger::take_ended(&ledger);
        ended.sort_by_key(|ended| ended.pull);
        assert_eq!(ended, [1, 2].map(|pull| Ended::of(pull, None)));
    }

    #[test]
    fn what_is_held_fails_with_what_it_goes_out_in() {
        let (mut held, mut holds, ledger) = (Held::default(), Holds::default(), Arc::default());
        call(&mut held, Token::of(1, &ledger), &mut holds, false).settle();
        drop(call(&mut held, Token::untracked(), &mut holds, true));
        assert_eq!(ledger.take_ended(), [Ended::of(1, Some(Vec::new()))]);
    }
}
