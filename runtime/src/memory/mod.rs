//! The memory of a process: one budget, which flows and their components share.
//!
//! Each component has a share of the limit that no other one can use, and borrows above it from a common surplus.
//! One flow of several borrows at most half of the surplus. Only intake waits or refuses: while a flow may borrow no more,
//! its plugins get no more, and its sources are not pulled if its queues and deliveries have more than their shares.
//! Whatever moves or ends an accepted event is counted and may overdraw, which keeps the intake closed until it is repaid.
//!
//! Beginnings of messages, which wait for the rest of their streams, are no accepted events: a closed intake would never
//! release them. They are loans. If a loan is refused, the stream that holds most loses its message.
//!
//! Components count in blocks of 64 KiB, so that most changes touch no shared counter.

mod account;
mod limit;

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering, fence},
    },
    task::{Context, Poll, Waker},
};

pub(crate) use self::account::{Account, Charge, Loan};
use crate::lock::lock;

/// Unit in which components take credit, in bytes.
pub(crate) const BLOCK: usize = 64 << 10;

/// Largest share that no other component can use, in bytes: two full queues.
const LARGEST_SHARE: usize = 8 << 20;

/// The memory that all flows of a process may take together.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

struct Budget {
    /// In bytes.
    limit: usize,
    /// Guaranteed share of each component, in bytes. It is set before the flows start.
    share: AtomicUsize,
    /// Bytes beyond the shares of all components.
    surplus: AtomicUsize,
    /// Part of the surplus that one flow may borrow, in bytes.
    cap: AtomicUsize,
    /// Bytes borrowed from the surplus. Below zero for a moment if two threads change it at once.
    borrowed: AtomicIsize,
    /// Number of flows.
    flows: AtomicUsize,
    /// Number of components of all flows.
    components: AtomicUsize,
    /// `true` if `waiting` may have wakers.
    is_awaited: AtomicBool,
    /// Sources whose flows may not borrow more.
    waiting: Mutex<Vec<Waker>>,
}

impl MemoryBudget {
    /// Returns a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Budget {
            limit,
            share: AtomicUsize::new(0),
            surplus: AtomicUsize::new(limit),
            cap: AtomicUsize::new(limit),
            borrowed: AtomicIsize::new(0),
            flows: AtomicUsize::new(0),
            components: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            waiting: Mutex::default(),
        }))
    }

    /// Returns a budget of half of the memory that the machine, or the control group of the process, has.
    pub fn of_machine() -> Self {
        Self::new(limit::available().map_or(usize::MAX, |bytes| bytes / 2))
    }

    /// Adds a flow.
    pub(crate) fn flow(&self) -> FlowMemory {
        self.0.flows.fetch_add(1, Ordering::Relaxed);
        let [borrowed, overdrawn] = [0, 0].map(AtomicIsize::new);
        let credit = Credit { budget: self.clone(), borrowed, overdrawn };
        FlowMemory { credit: Arc::new(credit), accounts: Arc::default() }
    }

    /// Divides the limit among the components of all flows. Call this after the flows were planned, and before they
    /// take memory.
    pub(crate) fn divide(&self) {
        let Budget { limit, share, surplus, cap, flows, components, .. } = &*self.0;
        let [flows, components] = [flows, components].map(|count| count.load(Ordering::Relaxed));
        // Half of the limit is for whoever needs more than others.
        let each = (limit / 2 / components.max(1)).min(LARGEST_SHARE);
        let rest = limit - each * components;
        share.store(each, Ordering::Relaxed);
        surplus.store(rest, Ordering::Relaxed);
        cap.store(if flows > 1 { rest / 2 } else { rest }, Ordering::Relaxed);
    }

    fn share(&self) -> usize {
        self.0.share.load(Ordering::Relaxed)
    }

    /// Wakes the sources that wait, each of which checks whether its flow may borrow.
    fn wake(&self) {
        // The change of a counter comes before the look at the flag: whoever waits does the opposite.
        fence(Ordering::SeqCst);
        if self.0.is_awaited.load(Ordering::Relaxed) {
            let waiting = {
                let mut waiting = lock(&self.0.waiting);
                self.0.is_awaited.store(false, Ordering::Relaxed);
                std::mem::take(&mut *waiting)
            };
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    fn wait(&self, waker: &Waker) {
        let mut waiting = lock(&self.0.waiting);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        self.0.is_awaited.store(true, Ordering::Relaxed);
        drop(waiting);
        fence(Ordering::SeqCst);
    }
}

impl Default for MemoryBudget {
    /// A budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

/// The memory of one flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowMemory {
    credit: Arc<Credit>,
    accounts: Arc<Mutex<Vec<Arc<Account>>>>,
}

/// The part of the surplus that a flow has borrowed.
#[derive(Debug)]
struct Credit {
    budget: MemoryBudget,
    /// Bytes that the components of the flow have above their shares.
    borrowed: AtomicIsize,
    /// Bytes that the queues and deliveries of components have above their shares: those of accepted events.
    overdrawn: AtomicIsize,
}

/// The memory of a flow at one moment.
#[derive(Clone, Debug, Default)]
pub struct MemoryStatus {
    /// Limit of the process, in bytes, if it has one.
    pub limit: Option<usize>,
    /// `true` if sources of the flow are not pulled because it may not borrow more.
    pub is_short: bool,
    /// Components and the bytes that they have taken, in blocks of 64 KiB.
    pub components: Vec<(String, usize)>,
}

impl FlowMemory {
    /// Returns the account of a component, which is made if the flow has none of this name.
    pub(crate) fn account(&self, component: &str) -> Arc<Account> {
        let mut accounts = lock(&self.accounts);
        if let Some(account) = accounts.iter().find(|account| account.component() == component) {
            return account.clone();
        }
        self.credit.budget.0.components.fetch_add(1, Ordering::Relaxed);
        let account = Arc::new(Account::new(component, self.credit.clone()));
        accounts.push(account.clone());
        account
    }

    /// Returns whether sources may be pulled.
    pub(crate) fn is_open(&self) -> bool {
        self.credit.is_open()
    }

    /// Ready if sources may be pulled; otherwise the task is woken once memory was given back.
    pub(crate) fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_open() {
            return Poll::Ready(());
        }
        self.credit.budget.wait(context.waker());
        if self.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns the memory of each component.
    pub(crate) fn status(&self) -> MemoryStatus {
        let limit = self.credit.budget.0.limit;
        let accounts = lock(&self.accounts);
        MemoryStatus {
            limit: (limit != usize::MAX).then_some(limit),
            is_short: !self.is_open(),
            components: accounts.iter().map(|it| (it.component().to_owned(), it.used())).collect(),
        }
    }
}

impl Credit {
    /// Returns whether sources may be pulled. Loans of plugins alone stop no pull: a pull returns what is lent for input
    /// that waits, and nothing else would.
    fn is_open(&self) -> bool {
        self.overdrawn.load(Ordering::Relaxed) <= 0 || self.may_borrow(1)
    }

    /// Returns whether the flow may borrow `bytes` more.
    fn may_borrow(&self, bytes: usize) -> bool {
        let budget = &self.budget.0;
        let has_room = |borrowed: &AtomicIsize, limit: &AtomicUsize| {
            let borrowed = usize::try_from(borrowed.load(Ordering::Relaxed)).unwrap_or(0);
            borrowed.saturating_add(bytes) <= limit.load(Ordering::Relaxed)
        };
        has_room(&self.borrowed, &budget.cap) && has_room(&budget.borrowed, &budget.surplus)
    }

    fn overdraw(&self, bytes: usize) {
        self.overdrawn.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    fn settle(&self, bytes: usize) {
        self.overdrawn.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }

    fn borrow(&self, bytes: usize) {
        self.borrowed.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
        self.budget.0.borrowed.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    fn repay(&self, bytes: usize) {
        self.borrowed.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
        self.budget.0.borrowed.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
        self.budget.wake();
    }
}

impl Default for FlowMemory {
    /// The memory of a flow without a limit.
    fn default() -> Self {
        MemoryBudget::default().flow()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::{BLOCK, Charge, Loan, MemoryBudget};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn overdrawn_flow_waits_until_memory_is_returned() {
        let budget = MemoryBudget::new(16 * BLOCK);
        let flow = budget.flow();
        let charge = Charge::new(flow.account("out"));
        budget.divide();
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        let context = Context::from_waker(&waker);
        charge.set(15 * BLOCK);
        assert_eq!(flow.poll_open(&context), Poll::Ready(()));
        charge.set(100 * BLOCK);
        assert_eq!(flow.poll_open(&context), Poll::Pending, "the charge was counted nevertheless");
        assert_eq!(flow.status().components, [("out".to_owned(), 100 * BLOCK)]);
        charge.set(BLOCK);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(flow.poll_open(&context), Poll::Ready(()));
    }

    #[test]
    fn exhausted_surplus_leaves_other_flows_their_shares() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let (one, two) = (budget.flow(), budget.flow());
        let (greedy, modest) = (one.account("greedy"), two.account("modest"));
        budget.divide();
        // Each has a share of 16 blocks, and 32 are common.
        let (greedy, modest) = (Charge::new(greedy), Charge::new(modest));
        modest.set(16 * BLOCK);
        greedy.set(31 * BLOCK);
        assert!(one.is_open(), "16 of the common blocks are its cap");
        greedy.set(32 * BLOCK);
        assert!(!one.is_open() && two.is_open());
        greedy.set(100 * BLOCK);
        assert!(two.is_open(), "it has borrowed nothing");
        modest.set(17 * BLOCK);
        assert!(!two.is_open(), "nothing is left to borrow");
        greedy.set(0);
        assert!(one.is_open() && two.is_open());
    }

    #[test]
    fn loans_for_waiting_input_stop_no_pull() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let flow = budget.flow();
        let [input, output] = ["in", "out"].map(|name| flow.account(name));
        budget.divide();
        let (loan, charge) = (Loan::new(input), Charge::new(output));
        while loan.take(BLOCK) {}
        assert!(flow.is_open(), "a pull takes the input that waits");
        charge.set(16 * BLOCK);
        assert!(flow.is_open(), "that is the share of the queue");
        charge.set(17 * BLOCK);
        assert!(!flow.is_open());
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        assert!(flow.poll_open(&Context::from_waker(&waker)).is_pending());
        charge.set(0);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(flow.is_open() && !loan.take(BLOCK), "loans are limited as before");
    }

    #[test]
    fn loan_larger_than_what_is_left_is_refused() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let (one, two) = (budget.flow(), budget.flow());
        let (one, two) = (one.account("one"), two.account("two"));
        budget.divide();
        // A component has a share of 16 blocks, and borrows at most 16 of the 32 common blocks.
        let (large, small) = (Loan::new(one.clone()), Loan::new(two.clone()));
        assert!(!large.take(33 * BLOCK));
        assert_eq!(one.used(), 0, "a refused loan counts nothing");
        assert!(large.take(31 * BLOCK));
        assert!(!large.take(2 * BLOCK) && large.take(BLOCK) && !large.take(1));
        assert!(small.take(16 * BLOCK - 1), "the share of another flow is untouched");
        let rest = Loan::new(two.clone());
        assert!(rest.take(BLOCK), "its last byte is worth a block");
        assert!(rest.take(15 * BLOCK) && !rest.take(2 * BLOCK));
    }

    #[test]
    fn charged_loan_closes_intake_until_it_is_discharged() {
        let budget = MemoryBudget::new(16 * BLOCK);
        let flow = budget.flow();
        let account = flow.account("pipeline");
        budget.divide();
        let loan = Loan::new(account.clone());
        loan.charge(20 * BLOCK);
        assert!(!flow.is_open() && !loan.take(BLOCK));
        loan.discharge(5 * BLOCK);
        assert!(flow.is_open());
        loan.discharge(usize::MAX);
        assert_eq!(account.used(), 0, "more than was charged cannot be returned");
        loan.charge(usize::MAX);
        assert!(!flow.is_open());
        drop(loan);
        assert!(flow.is_open());
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn loan_is_refused_beyond_limit_and_returned_on_drop() {
        let budget = MemoryBudget::new(16 * BLOCK);
        let flow = budget.flow();
        let account = flow.account("in");
        budget.divide();
        let loan = Loan::new(account.clone());
        let mut blocks = 0;
        while loan.take(BLOCK) {
            blocks += 1;
        }
        assert_eq!(blocks, 16);
        loan.give_back(BLOCK);
        assert!(loan.take(BLOCK));
        loan.give_back(usize::MAX);
        assert_eq!(account.used(), 0, "more than was taken cannot be returned");
        assert!(loan.take(BLOCK));
        drop(loan);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn loan_of_more_than_all_addresses_is_refused() {
        let account = MemoryBudget::default().flow().account("in");
        let loan = Loan::new(account.clone());
        assert!(loan.take(BLOCK) && !loan.take(usize::MAX));
        assert_eq!(account.used(), BLOCK, "nothing overflows");
    }

    #[test]
    fn small_changes_keep_their_block() {
        let account = MemoryBudget::default().flow().account("out");
        let charge = Charge::new(account.clone());
        for bytes in [1, 0, BLOCK, 0] {
            charge.set(bytes);
            assert_eq!(account.used(), BLOCK);
        }
        drop(charge);
        assert_eq!(account.used(), 0);
    }
}
