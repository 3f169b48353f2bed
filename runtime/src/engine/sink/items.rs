//! The batches of one delivery, each with the token of its pull.

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::engine::tracking::token::{InFlight, Token};

/// Maximum size of the batch to which shares are copied, in bytes. Positions in a batch have 32 bits.
const MAX_JOINED: usize = Batch::EVENT_AT_MOST;

/// The batches of a delivery, in order.
pub(super) struct Items {
    /// The first batch. `None` if the events are stored in `joined`.
    first: Option<InFlight>,
    /// Further batches. Most deliveries have none.
    more: Vec<InFlight>,
    joined: Option<Box<Joined>>,
}

/// Shares of several batches, copied into one batch. Without the copy, each share would retain the memory of the whole
/// batch that it comes from.
struct Joined {
    all: Batch,
    shares: Vec<Share>,
}

/// A share in a joined batch.
struct Share {
    /// Number of events of the share.
    events: usize,
    pull: u64,
    token: Token,
    is_letter: bool,
}

impl Items {
    pub(super) fn new(first: InFlight) -> Self {
        Self { first: Some(first), more: Vec::new(), joined: None }
    }

    /// Copies the only batch to a storage from `pool`, to which batches that are added later are copied as well. Does
    /// nothing if the batch is larger than [`MAX_JOINED`].
    pub(super) fn join_in(&mut self, pool: &Pool) {
        let Some(first) = self.first.take_if(|first| size(&first.batch) <= MAX_JOINED) else {
            return;
        };
        let mut joined = Joined { all: Batch::from_pool(pool), shares: Vec::new() };
        joined.add(first);
        self.joined = Some(joined.into());
    }

    /// Returns whether `batch` can be added. Returns `false` if the batches are copied into one batch, which would
    /// exceed [`MAX_JOINED`].
    pub(super) fn fits(&self, batch: &Batch) -> bool {
        let all = self.joined.as_ref().map(|joined| size(&joined.all));
        all.is_none_or(|all| all.saturating_add(size(batch)) <= MAX_JOINED)
    }

    /// Appends a batch.
    pub(super) fn add(&mut self, item: InFlight) {
        match &mut self.joined {
            Some(joined) => joined.add(item),
            None => self.more.push(item),
        }
    }

    /// Returns the memory of the joined batch in bytes, or `None` if the batches were not copied.
    pub(super) fn joined_weight(&self) -> Option<usize> {
        self.joined.as_ref().map(|joined| joined.all.weight())
    }

    /// Returns the bytes of memory that the batches retain: see [`HostBatch::retained_bytes`].
    pub(super) fn retained_bytes(&self) -> usize {
        let each: usize =
            self.first.iter().chain(&self.more).map(|item| item.batch.retained_bytes()).sum();
        each + self.joined.as_ref().map_or(0, |joined| joined.all.retained_bytes())
    }

    /// Returns whether a batch shares the buffers of `encoded`.
    pub(super) fn have_buffers_of(&self, encoded: &Batch) -> bool {
        let mut each = self.first.iter().chain(&self.more);
        each.any(|item| item.batch.has_buffers_of(encoded))
    }

    /// Copies the events of batches that retain much more memory than their events need.
    pub(super) fn compact(&mut self) {
        let each = self.first.iter_mut().chain(&mut self.more);
        each.for_each(|item| item.batch.compact());
    }

    /// Returns the batches. Divides a joined batch into one batch for each share first.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.split();
        self.first.iter_mut().chain(&mut self.more)
    }

    /// Returns the batches. Divides a joined batch into one batch for each share first.
    pub(super) fn into_each(mut self) -> impl Iterator<Item = InFlight> {
        self.split();
        self.first.into_iter().chain(self.more)
    }

    /// Returns the number of events that are dead letters.
    pub(super) fn letters(&self) -> usize {
        let each = self.first.iter().chain(&self.more);
        let each = each.filter(|item| item.is_letter).map(|item| item.batch.len());
        let shares = self.joined.iter().flat_map(|joined| &joined.shares);
        each.chain(shares.filter(|share| share.is_letter).map(|share| share.events)).sum()
    }

    /// Returns the number of events whose source is not notified if they fail.
    pub(super) fn lost(&self) -> usize {
        let each = self.first.iter().chain(&self.more).map(|it| (&it.token, it.batch.len()));
        let shares = self.joined.iter().flat_map(|joined| &joined.shares);
        let all = each.chain(shares.map(|share| (&share.token, share.events)));
        all.filter(|(token, _)| !token.is_tracked()).map(|(_, events)| events).sum()
    }

    /// Marks all events as acknowledged. Their pulls are notified once the batches are dropped.
    pub(super) fn set_settled(&mut self) {
        let each = self.first.iter_mut().chain(&mut self.more).map(|item| &mut item.token);
        let shares = self.joined.iter_mut().flat_map(|joined| &mut joined.shares);
        each.chain(shares.map(|share| &mut share.token)).for_each(Token::set_settled);
    }

    /// Divides a joined batch into one batch for each share. These batches use the same storage.
    fn split(&mut self) {
        let Some(joined) = self.joined.take() else { return };
        let Joined { all, shares } = *joined;
        let counts: Vec<usize> = shares.iter().map(|share| share.events).collect();
        let mut each = all.divide(&counts).into_iter().zip(shares).map(|(mut batch, share)| {
            batch.set_pull(share.pull);
            InFlight { batch, token: share.token, is_letter: share.is_letter }
        });
        self.first = each.next();
        self.more = each.collect();
    }
}

impl Joined {
    fn add(&mut self, InFlight { batch, token, is_letter }: InFlight) {
        self.shares.push(Share { events: batch.len(), pull: batch.pull(), token, is_letter });
        self.all.append(batch);
    }
}

/// Returns an upper bound of the bytes that are copied to join `batch`. Edited values are moved and do not count.
fn size(batch: &Batch) -> usize {
    batch.bytes().len() + size_of_val(batch.nodes())
}
