//! Memory that one component and its parts use.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tremor_pdk::lock;

use super::{BLOCK, Credit};

/// Maximum memory of one component, in bytes: the size of the address space of a process. Sums of a few such values do
/// not overflow.
const ADDRESSES: usize = 1 << 47;

/// Memory of one component: its queue, its deliveries in flight, and the memory lent to its plugin.
#[derive(Debug)]
pub(crate) struct Account {
    component: String,
    credit: Arc<Credit>,
    held: Mutex<Held>,
    /// Copy of the guaranteed share, which is read more often than the account changes.
    share: AtomicUsize,
    /// Number of refused loans since a loan was last granted.
    refusals: AtomicUsize,
}

/// Memory of an account, in bytes. What exceeds the share was counted by the flow, so all three values change together.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Bytes that the component uses, borrowed ones included.
    used: usize,
    /// Part of `used` that belongs to accepted events, in queues and deliveries.
    charged: usize,
    /// Guaranteed share.
    share: usize,
}

impl Held {
    /// Returns the bytes that are borrowed from the surplus.
    fn borrowed(self) -> usize {
        self.used.saturating_sub(self.share)
    }

    /// Returns the bytes of accepted events that exceed the share.
    fn overdrawn(self) -> usize {
        self.charged.saturating_sub(self.share)
    }
}

impl Account {
    /// Creates the account of a component, with the current share of the budget.
    pub(super) fn new(component: &str, credit: Arc<Credit>) -> Self {
        let share = credit.budget.share();
        Self {
            component: component.to_owned(),
            credit,
            held: Mutex::new(Held { share, ..Held::default() }),
            share: AtomicUsize::new(share),
            refusals: AtomicUsize::new(0),
        }
    }

    /// Returns the name of the component in its flow.
    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// Returns the bytes that the component uses.
    pub(crate) fn used(&self) -> usize {
        lock(&self.held).used
    }

    /// Returns the number of refused loans since a loan was last granted.
    pub(super) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns the guaranteed share, in bytes.
    pub(super) fn share(&self) -> usize {
        self.share.load(Ordering::Relaxed)
    }

    /// Sets the guaranteed share. What the component has borrowed is counted again.
    pub(super) fn set_share(&self, share: usize) {
        self.change(|held| held.share = share);
        self.share.store(share, Ordering::Relaxed);
    }

    /// Changes the memory, and counts in the flow what is borrowed afterwards.
    fn change(&self, change: impl FnOnce(&mut Held)) {
        let (before, after) = {
            let mut held = lock(&self.held);
            let before = *held;
            change(&mut held);
            (before, *held)
        };
        let difference = |before: usize, after: usize| after.cast_signed() - before.cast_signed();
        self.credit.overdraw(difference(before.overdrawn(), after.overdrawn()));
        // Waiting sources are woken last, because they read the overdraft.
        self.credit.borrow(difference(before.borrowed(), after.borrowed()));
    }

    fn take(&self, bytes: usize) {
        self.change(|held| held.used = held.used.saturating_add(bytes).min(ADDRESSES));
    }

    fn give_back(&self, bytes: usize) {
        self.change(|held| held.used = held.used.saturating_sub(bytes));
    }

    /// Adds `bytes` of accepted events, even if the component may not borrow that much.
    fn charge(&self, bytes: usize) {
        self.change(|held| {
            held.charged = held.charged.saturating_add(bytes).min(ADDRESSES);
            held.used = held.used.saturating_add(bytes).min(ADDRESSES);
        });
    }

    /// Subtracts `bytes` of accepted events.
    fn discharge(&self, bytes: usize) {
        self.change(|held| {
            held.charged = held.charged.saturating_sub(bytes);
            held.used = held.used.saturating_sub(bytes);
        });
    }
}

/// Memory of one queue, or of the deliveries of one sink. It is counted even if the component may not borrow that much.
/// Only one task changes the value at a time.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    /// Counted bytes, a multiple of [`BLOCK`].
    counted: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { account, counted: AtomicUsize::new(0) }
    }

    /// Sets the memory of the queue or of the deliveries to `bytes`. The count is lowered only if it is too high by
    /// more than the slack, so that a queue which one batch fills and empties does not change a shared counter.
    ///
    /// The slack is a sixteenth of the guaranteed share, at least 2 and at most 8 blocks (512 KiB).
    #[inline]
    pub(crate) fn set(&self, bytes: usize) {
        let counted = self.counted.load(Ordering::Relaxed);
        if bytes > counted || counted > bytes.saturating_add(self.slack()) {
            self.change(bytes.div_ceil(BLOCK).saturating_mul(BLOCK));
        }
    }

    fn slack(&self) -> usize {
        (self.account.share() / 16).clamp(2 * BLOCK, 8 * BLOCK)
    }

    #[cold]
    fn change(&self, bytes: usize) {
        let before = self.counted.load(Ordering::Relaxed);
        self.counted.store(bytes, Ordering::Relaxed);
        if bytes > before {
            self.account.charge(bytes - before);
        } else {
            self.account.discharge(before - bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.change(0);
    }
}

/// Memory that one instance of a component has borrowed or charged. It is returned when the value is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    account: Arc<Account>,
    /// Bytes that the instance has borrowed.
    lent: AtomicUsize,
    /// Bytes of accepted events that the instance has.
    charged: AtomicUsize,
}

impl Loan {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        let [lent, charged] = [0, 0].map(AtomicUsize::new);
        Self { account, lent, charged }
    }

    /// Borrows `bytes` if the share of the component or the surplus permits. Returns whether the bytes were borrowed.
    ///
    /// While less than the share is used, one block is always granted, even if less than a block of the share is
    /// left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let refusals = &self.account.refusals;
        if !self.take_spare(bytes) {
            refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if refusals.load(Ordering::Relaxed) > 0 {
            refusals.store(0, Ordering::Relaxed);
        }
        true
    }

    /// Borrows `bytes` as [`Loan::take`] does, for memory without which the component works as well. A refusal is not
    /// counted, because no limit has to be increased for it.
    pub(crate) fn take_spare(&self, bytes: usize) -> bool {
        let Account { credit, held, .. } = &*self.account;
        let before = *lock(held);
        let after = Held { used: before.used.saturating_add(bytes), ..before };
        let more = after.borrowed() - before.borrowed();
        let is_last_of_share = bytes <= BLOCK && before.used < before.share;
        if after.used > ADDRESSES || !(more == 0 || is_last_of_share || credit.may_borrow(more)) {
            return false;
        }
        self.lent.fetch_add(bytes, Ordering::Relaxed);
        self.account.take(bytes);
        true
    }

    /// Returns `bytes` that were borrowed, but not more than were borrowed.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.account.give_back(subtract(&self.lent, bytes));
    }

    /// Adds `bytes` of accepted events, even if they exceed the credit.
    pub(crate) fn charge(&self, bytes: usize) {
        // Only a faulty component reports more than the address space. Without this bound, the sum would overflow.
        let bytes = bytes.min(ADDRESSES.saturating_sub(self.account.used()));
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        self.account.charge(bytes);
    }

    /// Subtracts `bytes` of accepted events, but not more than were added.
    pub(crate) fn discharge(&self, bytes: usize) {
        self.account.discharge(subtract(&self.charged, bytes));
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.give_back(usize::MAX);
        self.discharge(usize::MAX);
    }
}

/// Subtracts `bytes` from a counter, at most down to zero. Returns the amount that was subtracted.
fn subtract(counter: &AtomicUsize, bytes: usize) -> usize {
    let less = |before: usize| Some(before.saturating_sub(bytes));
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0).min(bytes)
}
