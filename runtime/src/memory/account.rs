//! Memory that one component and its parts use.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{BLOCK, Credit};

/// Maximum memory of one component, in bytes: the size of the address space of a process. Sums of a few such values do
/// not overflow.
const ADDRESSES: usize = 1 << 47;

/// Memory of one component: its queue, its deliveries in flight, and the memory lent to its plugin.
#[derive(Debug)]
pub(crate) struct Account {
    component: String,
    credit: Arc<Credit>,
    /// Bytes that the component uses, borrowed ones included.
    used: AtomicUsize,
    /// Part of `used` that belongs to accepted events, in queues and deliveries, in bytes.
    charged: AtomicUsize,
    /// Number of refused loans since a loan was last granted.
    refusals: AtomicUsize,
}

impl Account {
    pub(super) fn new(component: &str, credit: Arc<Credit>) -> Self {
        let [used, charged, refusals] = [0, 0, 0].map(AtomicUsize::new);
        Self { component: component.to_owned(), credit, used, charged, refusals }
    }

    /// Returns the name of the component in its flow.
    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// Returns the bytes that the component uses.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of refused loans since a loan was last granted.
    pub(super) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let borrowed = self.borrowed(before.saturating_add(bytes)) - self.borrowed(before);
        if borrowed > 0 {
            self.credit.borrow(borrowed);
        }
    }

    fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        let repaid = self.borrowed(before) - self.borrowed(before.saturating_sub(bytes));
        if repaid > 0 {
            self.credit.repay(repaid);
        }
    }

    /// Adds `bytes` of accepted events, even if the component may not borrow that much.
    fn charge(&self, bytes: usize) {
        let before = self.charged.fetch_add(bytes, Ordering::Relaxed);
        let overdrawn = self.borrowed(before.saturating_add(bytes)) - self.borrowed(before);
        if overdrawn > 0 {
            self.credit.overdraw(overdrawn);
        }
        self.take(bytes);
    }

    /// Subtracts `bytes` of accepted events.
    fn discharge(&self, bytes: usize) {
        let before = self.charged.fetch_sub(bytes, Ordering::Relaxed);
        let settled = self.borrowed(before) - self.borrowed(before.saturating_sub(bytes));
        if settled > 0 {
            self.credit.settle(settled);
        }
        // `give_back` is called last, because it wakes waiting sources, which read the overdraft.
        self.give_back(bytes);
    }

    /// Returns the number of bytes by which `used` exceeds the guaranteed share.
    fn borrowed(&self, used: usize) -> usize {
        used.saturating_sub(self.credit.budget.share())
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
        (self.account.credit.budget.share() / 16).clamp(2 * BLOCK, 8 * BLOCK)
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
        let Account { credit, .. } = &*self.account;
        let before = self.account.used();
        let used = before.saturating_add(bytes);
        let more = self.account.borrowed(used) - self.account.borrowed(before);
        let is_last_of_share = bytes <= BLOCK && before < credit.budget.share();
        if used > ADDRESSES || !(more == 0 || is_last_of_share || credit.may_borrow(more)) {
            self.account.refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if self.account.refusals() > 0 {
            self.account.refusals.store(0, Ordering::Relaxed);
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
