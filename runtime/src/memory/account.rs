//! The memory of one component, and what it consists of.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{BLOCK, Credit};

/// Maximum memory of one component, in bytes: no process has more addresses. Sums of it do not overflow.
const ADDRESSES: usize = 1 << 47;

/// The memory of one component: queue, deliveries in flight, loans of its plugin.
#[derive(Debug)]
pub(crate) struct Account {
    component: String,
    credit: Arc<Credit>,
    /// In bytes.
    used: AtomicUsize,
    /// Part of `used` that queues and deliveries have, in bytes.
    charged: AtomicUsize,
}

impl Account {
    pub(super) fn new(component: &str, credit: Arc<Credit>) -> Self {
        let (used, charged) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { component: component.to_owned(), credit, used, charged }
    }

    /// Returns the name of the component in its flow.
    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// Returns the bytes that the component has taken.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
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

    /// Takes `bytes` of accepted events.
    fn charge(&self, bytes: usize) {
        let before = self.charged.fetch_add(bytes, Ordering::Relaxed);
        self.credit.overdraw(self.borrowed(before.saturating_add(bytes)) - self.borrowed(before));
        self.take(bytes);
    }

    /// Gives back `bytes` of accepted events.
    fn discharge(&self, bytes: usize) {
        let before = self.charged.fetch_sub(bytes, Ordering::Relaxed);
        self.credit.settle(self.borrowed(before) - self.borrowed(before.saturating_sub(bytes)));
        // Second, because it wakes the sources that wait.
        self.give_back(bytes);
    }

    /// Returns the part of `used` bytes that is above the guaranteed share.
    fn borrowed(&self, used: usize) -> usize {
        used.saturating_sub(self.credit.budget.share())
    }
}

/// A buffer of a component, counted whether or not there is credit for it. One task changes it at a time.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    /// Bytes that are counted: a multiple of [`BLOCK`].
    counted: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { account, counted: AtomicUsize::new(0) }
    }

    /// Counts `bytes` in place of what was counted before. One block more than needed is kept, so that small changes
    /// touch no shared counter.
    #[inline]
    pub(crate) fn set(&self, bytes: usize) {
        let counted = self.counted.load(Ordering::Relaxed);
        if bytes > counted || counted > bytes.saturating_add(2 * BLOCK) {
            self.change(bytes.div_ceil(BLOCK).saturating_mul(BLOCK));
        }
    }

    #[cold]
    fn change(&self, bytes: usize) {
        let before = self.counted.swap(bytes, Ordering::Relaxed);
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

/// The memory that one instance of a component has borrowed or counted. It is returned when the loan is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    account: Arc<Account>,
    /// Bytes that were lent.
    lent: AtomicUsize,
    /// Bytes of accepted events.
    charged: AtomicUsize,
}

impl Loan {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        let [lent, charged] = [0, 0].map(AtomicUsize::new);
        Self { account, lent, charged }
    }

    /// Takes `bytes` if the share of the component or the surplus has them. Returns whether it did.
    ///
    /// A component that has used less than its share always gets a block, even if only a part of the block is left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let Account { credit, .. } = &*self.account;
        let before = self.account.used();
        let used = before.saturating_add(bytes);
        let more = self.account.borrowed(used) - self.account.borrowed(before);
        let is_last_of_share = bytes <= BLOCK && before < credit.budget.share();
        if used > ADDRESSES || !(more == 0 || is_last_of_share || credit.may_borrow(more)) {
            return false;
        }
        self.lent.fetch_add(bytes, Ordering::Relaxed);
        self.account.take(bytes);
        true
    }

    /// Gives `bytes` back, at most what was taken.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.account.give_back(subtract(&self.lent, bytes));
    }

    /// Counts `bytes` of accepted events, whether or not there is credit for them.
    pub(crate) fn charge(&self, bytes: usize) {
        // More than all addresses is a mistake of the component, and would overflow.
        let bytes = bytes.min(ADDRESSES.saturating_sub(self.account.used()));
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        self.account.charge(bytes);
    }

    /// Counts `bytes` of accepted events less, at most what was counted.
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

/// Lowers a counter by `bytes`, at most to zero. Returns by how much it was lowered.
fn subtract(counter: &AtomicUsize, bytes: usize) -> usize {
    let less = |before: usize| Some(before.saturating_sub(bytes));
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0).min(bytes)
}
