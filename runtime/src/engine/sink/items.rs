//! The batches that one delivery is made of, each with the token of its pull.

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::engine::account::token::{InFlight, Token};

/// What is copied together takes no more than this, in bytes: positions in a batch have 32 bits.
const MOST_TOGETHER: usize = Batch::EVENT_AT_MOST;

/// The batches of a delivery, in order.
pub(super) struct Items {
    /// None where they lie together.
    first: Option<InFlight>,
    /// There mostly is no other.
    more: Vec<InFlight>,
    together: Option<Box<Together>>,
}

/// Shares of many batches that lie together in one. A share by itself would keep all of the batch that it comes from.
struct Together {
    all: Batch,
    shares: Vec<Share>,
}

/// What a share is besides its events.
struct Share {
    events: usize,
    pull: u64,
    token: Token,
    is_letter: bool,
}

impl Items {
    pub(super) fn new(first: InFlight) -> Self {
        Self { first: Some(first), more: Vec::new(), together: None }
    }

    /// Has its only batch, and others that follow, lie together in a place from this pool. What is too large for
    /// that stays where it is.
    pub(super) fn lie_together(&mut self, pool: &Pool) {
        let Some(first) = self.first.take_if(|first| size(&first.batch) <= MOST_TOGETHER) else {
            return;
        };
        let mut together = Together { all: Batch::from_pool(pool), shares: Vec::new() };
        together.add(first);
        self.together = Some(together.into());
    }

    /// Whether another one may follow.
    pub(super) fn has_room(&self, batch: &Batch) -> bool {
        let all = self.together.as_ref().map(|together| size(&together.all));
        all.is_none_or(|all| all.saturating_add(size(batch)) <= MOST_TOGETHER)
    }

    /// Adds one after the others.
    pub(super) fn add(&mut self, item: InFlight) {
        match &mut self.together {
            Some(together) => together.add(item),
            None => self.more.push(item),
        }
    }

    /// How much memory they take, in bytes, where they lie together; none where others may have a share of it.
    pub(super) fn weight_together(&self) -> Option<usize> {
        self.together.as_ref().map(|together| together.all.weight())
    }

    /// How much memory they keep, in bytes: see [`HostBatch::held`].
    pub(super) fn held(&self) -> usize {
        let each: usize = self.first.iter().chain(&self.more).map(|item| item.batch.held()).sum();
        each + self.together.as_ref().map_or(0, |together| together.all.held())
    }

    /// Has each of them give up what it keeps besides its events.
    pub(super) fn let_go(&mut self) {
        let each = self.first.iter_mut().chain(&mut self.more);
        each.for_each(|item| item.batch.let_go());
    }

    /// Each by itself.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.part();
        self.first.iter_mut().chain(&mut self.more)
    }

    /// Each by itself.
    pub(super) fn into_each(mut self) -> impl Iterator<Item = InFlight> {
        self.part();
        self.first.into_iter().chain(self.more)
    }

    /// How many events they have that are dead letters.
    pub(super) fn letters(&self) -> usize {
        let each = self.first.iter().chain(&self.more);
        let each = each.filter(|item| item.is_letter).map(|item| item.batch.len());
        let shares = self.together.iter().flat_map(|together| &together.shares);
        each.chain(shares.filter(|share| share.is_letter).map(|share| share.events)).sum()
    }

    /// Returns the number of events whose source is not told if they fail.
    pub(super) fn lost(&self) -> usize {
        let each = self.first.iter().chain(&self.more).map(|it| (&it.token, it.batch.len()));
        let shares = self.together.iter().flat_map(|together| &together.shares);
        let all = each.chain(shares.map(|share| (&share.token, share.events)));
        all.filter(|(token, _)| !token.is_tracked()).map(|(_, events)| events).sum()
    }

    /// All of them are done with.
    pub(super) fn settle(self) {
        let each = self.first.into_iter().chain(self.more).map(|item| item.token);
        let shares = self.together.into_iter().flat_map(|together| together.shares);
        each.chain(shares.map(|share| share.token)).for_each(Token::settle);
    }

    /// What lies together becomes batches again, which share a place.
    fn part(&mut self) {
        let Some(together) = self.together.take() else { return };
        let Together { all, shares } = *together;
        let counts: Vec<usize> = shares.iter().map(|share| share.events).collect();
        let mut each = all.divide(&counts).into_iter().zip(shares).map(|(mut batch, share)| {
            batch.set_pull(share.pull);
            InFlight { batch, token: share.token, is_letter: share.is_letter }
        });
        self.first = each.next();
        self.more = each.collect();
    }
}

impl Together {
    fn add(&mut self, InFlight { batch, token, is_letter }: InFlight) {
        self.shares.push(Share { events: batch.len(), pull: batch.pull(), token, is_letter });
        self.all.append(batch);
    }
}

/// How much memory there is to copy at most, in bytes, but for edited values, which are moved.
fn size(batch: &Batch) -> usize {
    batch.bytes().len() + size_of_val(batch.nodes())
}
