//! The pulls that a batch comes from.

use std::collections::BTreeMap;

use crate::engine::tracking::token::Token;

/// Tokens of the pulls that a batch comes from.
#[derive(Default)]
pub(super) struct Origin {
    /// Token of the pull that is being processed.
    pull: Option<Token>,
    /// Tokens of earlier pulls, by stream.
    earlier: BTreeMap<u64, Vec<Token>>,
}

impl Origin {
    pub(super) fn of_pull(pull: Option<Token>) -> Self {
        Self { pull, earlier: BTreeMap::new() }
    }

    pub(super) fn is_tracked(&self) -> bool {
        self.pull.as_ref().is_some_and(Token::is_tracked) || !self.earlier.is_empty()
    }

    /// Returns clones of the tokens of all pulls that read the input of `stream`.
    pub(super) fn of(&self, stream: u64) -> Vec<Token> {
        let earlier = self.earlier.get(&stream).into_iter().flatten();
        earlier.chain(&self.pull).cloned().collect()
    }

    pub(super) fn add(&mut self, stream: u64, tokens: Vec<Token>) {
        if !tokens.is_empty() {
            add(self.earlier.entry(stream).or_default(), tokens);
        }
    }

    /// Settles the tokens of the earlier pulls of `stream`.
    pub(super) fn settle_earlier(&mut self, stream: u64) {
        self.earlier.remove(&stream).into_iter().flatten().for_each(Token::settle);
    }

    /// Joins the tokens of all pulls into one.
    pub(super) fn token(self) -> Token {
        match self.pull {
            Some(pull) if self.earlier.is_empty() => pull,
            pull => {
                let mut all = Vec::new();
                self.earlier.into_values().for_each(|earlier| add(&mut all, earlier));
                Token::join(all.into_iter().chain(pull).collect())
            }
        }
    }
}

/// Merges `tokens` into `to`. The result is sorted by pull and has at most one token for each pull.
fn add(to: &mut Vec<Token>, tokens: Vec<Token>) {
    for token in tokens {
        if to.last().is_none_or(|last| last.pull() < token.pull()) {
            to.push(token);
            continue;
        }
        match to.binary_search_by_key(&token.pull(), Token::pull) {
            Ok(_) => token.settle(),
            Err(position) => to.insert(position, token),
        }
    }
}
