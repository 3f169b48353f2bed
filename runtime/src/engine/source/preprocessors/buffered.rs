//! The pulls whose bytes a preprocessor buffers.

use crate::engine::tracking::token::Token;

/// A pull whose bytes a preprocessor buffers.
pub(super) struct Buffered {
    pub(super) token: Token,
    /// Number of the last call of the preprocessor that received bytes of the pull.
    pub(super) call: u64,
}

impl Buffered {
    pub(super) fn pull(&self) -> u64 {
        self.token.pull()
    }
}

pub(super) fn tokens(pulls: Vec<Buffered>) -> Vec<Token> {
    pulls.into_iter().map(|it| it.token).collect()
}

/// Removes and returns the pulls whose bytes were last received before the call `since`.
pub(super) fn drain_before(buffered: &mut Vec<Buffered>, since: u64) -> Vec<Buffered> {
    let (left, kept) = std::mem::take(buffered).into_iter().partition(|it| it.call < since);
    *buffered = kept;
    left
}

/// Adds a pull to `buffered`, which is sorted by pull and has at most one token for each pull.
pub(super) fn keep(buffered: &mut Vec<Buffered>, pull: Buffered) {
    match buffered.binary_search_by_key(&pull.pull(), Buffered::pull) {
        Ok(position) => {
            buffered[position].call = pull.call;
            pull.token.settle();
        }
        Err(position) => buffered.insert(position, pull),
    }
}
