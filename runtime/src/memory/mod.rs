//! Memory limit of a process, which flows and their components share.
//!
//! Each component has a guaranteed share of the limit, which no other component can use. Above the share, components
//! borrow memory from a common surplus. If there are several flows, each borrows at most half of the surplus.
//!
//! Only new input waits or is refused. While a flow may not borrow more, its plugins get no more memory, and its
//! sources are not pulled if queues or deliveries exceed their shares. Memory of accepted events is always counted,
//! even if the flow may not borrow it. Sources are pulled again once enough of it was returned.
//!
//! Incomplete messages, which wait for the remainder of their streams, do not count as accepted events: if they stopped
//! the pulls of sources, they could never be completed. Their memory counts as a loan. If a loan is refused, the stream
//! that buffers the most loses its message.
//!
//! Components count memory in blocks of 64 KiB, and lower a count only if it is several blocks too high, so that most
//! changes do not update a shared counter.

mod account;
mod limit;

use std::{
    cmp::Reverse,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering, fence},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::lock;

pub(crate) use self::account::{Account, Charge, Loan};

/// Unit in which components count memory, in bytes.
pub(crate) const BLOCK: usize = 64 << 10;

/// Maximum number of components that are named because they use the memory for which a source waits.
const HOLDERS: usize = 3;

/// Maximum size of a guaranteed share, in bytes: two full queues.
const MAX_SHARE: usize = 8 << 20;

/// The memory limit that all flows of a process share.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

struct Budget {
    /// Limit in bytes.
    limit: usize,
    /// Guaranteed share of each component, in bytes, as it was last divided.
    share: AtomicUsize,
    /// Bytes of the limit that are not part of guaranteed shares.
    surplus: AtomicUsize,
    /// Maximum bytes of the surplus that one flow may borrow.
    cap: AtomicUsize,
    /// Bytes borrowed from the surplus by all flows. May be negative for a moment if two threads change the value at
    /// the same time.
    borrowed: AtomicIsize,
    /// Name and accounts of each flow.
    flows: Mutex<Vec<(String, Weak<Accounts>)>>,
    /// `true` if `waiting` may contain wakers.
    is_awaited: AtomicBool,
    /// Wakers of sources that wait because their flows may not borrow more.
    waiting: Mutex<Vec<Waker>>,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Budget {
            limit,
            share: AtomicUsize::new(0),
            surplus: AtomicUsize::new(limit),
            cap: AtomicUsize::new(limit),
            borrowed: AtomicIsize::new(0),
            flows: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            waiting: Mutex::default(),
        }))
    }

    /// Creates a budget of half of the memory that is available to the process.
    pub fn of_machine() -> Self {
        Self::new(limit::available().map_or(usize::MAX, |bytes| bytes / 2))
    }

    /// Adds the flow called `name`.
    pub(crate) fn flow(&self, name: &str) -> FlowMemory {
        let accounts = Arc::<Accounts>::default();
        let mut flows = lock(&self.0.flows);
        flows.retain(|(_, accounts)| accounts.strong_count() > 0);
        flows.push((name.to_owned(), Arc::downgrade(&accounts)));
        drop(flows);
        let [borrowed, overdrawn] = [0, 0].map(AtomicIsize::new);
        let credit = Credit { budget: self.clone(), borrowed, overdrawn };
        FlowMemory { credit: Arc::new(credit), accounts }
    }

    /// Divides the limit among the components of all flows. Call this after a flow was planned or has ended. What
    /// components have borrowed is counted anew, so they may use memory meanwhile.
    pub(crate) fn divide(&self) {
        let Budget { limit, share, surplus, cap, flows, .. } = &*self.0;
        let flows: Vec<_> = lock(flows).iter().filter_map(|(_, it)| it.upgrade()).collect();
        let components: usize = flows.iter().map(|accounts| lock(accounts).len()).sum();
        // Shares use at most half of the limit. The other half is for components that need more than their shares.
        let each = (limit / 2 / components.max(1)).min(MAX_SHARE);
        let rest = limit - each * components;
        share.store(each, Ordering::Relaxed);
        surplus.store(rest, Ordering::Relaxed);
        cap.store(if flows.len() > 1 { rest / 2 } else { rest }, Ordering::Relaxed);
        for accounts in &flows {
            lock(accounts).iter().for_each(|account| account.set_share(each));
        }
        // Sources may wait for a surplus that is larger now.
        self.wake();
    }

    fn share(&self) -> usize {
        self.0.share.load(Ordering::Relaxed)
    }

    /// Wakes the waiting sources, each of which checks whether its flow may borrow.
    fn wake(&self) {
        // The counter was changed before this fence, and the flag is read after it. A waiting source sets the flag
        // before it reads the counter.
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
    /// Returns a budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

/// Memory of one flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowMemory {
    credit: Arc<Credit>,
    accounts: Arc<Accounts>,
}

/// The accounts of the components of one flow.
type Accounts = Mutex<Vec<Arc<Account>>>;

/// Memory that a flow has borrowed from the surplus.
#[derive(Debug)]
struct Credit {
    budget: MemoryBudget,
    /// Sum of the bytes by which components of the flow exceed their shares.
    borrowed: AtomicIsize,
    /// Sum of the bytes by which accepted events, in queues and deliveries, exceed the shares of their components.
    overdrawn: AtomicIsize,
}

/// Current memory of a flow.
#[derive(Clone, Debug, Default)]
pub struct MemoryStatus {
    /// Limit of the process, in bytes, if it has one.
    pub limit: Option<usize>,
    /// `true` if sources of the flow are not pulled because the flow may not borrow more.
    pub is_short: bool,
    /// Name and memory of each component. The memory is in bytes, counted in blocks of 64 KiB.
    pub components: Vec<(String, usize)>,
}

impl FlowMemory {
    /// Returns the account of a component, which is created if it does not exist.
    pub(crate) fn account(&self, component: &str) -> Arc<Account> {
        let mut accounts = lock(&self.accounts);
        if let Some(account) = accounts.iter().find(|account| account.component() == component) {
            return account.clone();
        }
        let account = Arc::new(Account::new(component, self.credit.clone()));
        accounts.push(account.clone());
        account
    }

    /// Returns whether sources may be pulled.
    pub(crate) fn is_open(&self) -> bool {
        self.credit.is_open()
    }

    /// Completes if sources may be pulled. Otherwise wakes the task when memory is returned.
    pub(crate) fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_open() {
            return Poll::Ready(());
        }
        self.credit.budget.wait(context.waker());
        if self.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns the components because of which the flow may borrow no more memory, each with the bytes that it uses,
    /// the largest first and at most [`HOLDERS`]. If other flows have borrowed the surplus, these are components of all
    /// flows. The name of a component of another flow follows the name of its flow and a slash.
    pub(crate) fn holders(&self) -> Vec<(String, usize)> {
        let budget = &self.credit.budget;
        let is_own = !Credit::has_capacity(&self.credit.borrowed, &budget.0.cap, 1);
        let mut holders = Vec::new();
        for (flow, accounts) in &*lock(&budget.0.flows) {
            let Some(accounts) = accounts.upgrade() else { continue };
            let is_this = Arc::ptr_eq(&accounts, &self.accounts);
            if is_own && !is_this {
                continue;
            }
            let accounts = lock(&accounts);
            holders.extend(accounts.iter().filter(|it| it.used() > it.share()).map(|it| {
                let component = it.component();
                let name =
                    if is_this { component.to_owned() } else { format!("{flow}/{component}") };
                (name, it.used())
            }));
        }
        holders.sort_by_key(|(_, bytes)| Reverse(*bytes));
        holders.truncate(HOLDERS);
        holders
    }

    /// Returns the components whose last loan was refused, each with the number of refusals since a loan was granted.
    pub(crate) fn refusals(&self) -> Vec<(String, usize)> {
        let accounts = lock(&self.accounts);
        let refused = accounts.iter().filter(|it| it.refusals() > 0);
        refused.map(|it| (it.component().to_owned(), it.refusals())).collect()
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
    /// Returns whether sources may be pulled.
    ///
    /// Loans to plugins alone do not stop pulls, because a loan is for an incomplete message that only a pull can
    /// complete.
    fn is_open(&self) -> bool {
        self.overdrawn.load(Ordering::Relaxed) <= 0 || self.may_borrow(1)
    }

    /// Returns whether the flow may borrow `bytes` more.
    fn may_borrow(&self, bytes: usize) -> bool {
        let budget = &self.budget.0;
        Self::has_capacity(&self.borrowed, &budget.cap, bytes)
            && Self::has_capacity(&budget.borrowed, &budget.surplus, bytes)
    }

    /// Returns whether `bytes` more may be borrowed up to `limit`.
    fn has_capacity(borrowed: &AtomicIsize, limit: &AtomicUsize, bytes: usize) -> bool {
        let borrowed = usize::try_from(borrowed.load(Ordering::Relaxed)).unwrap_or(0);
        borrowed.saturating_add(bytes) <= limit.load(Ordering::Relaxed)
    }

    /// Adds to the overdraft, or subtracts from it.
    fn overdraw(&self, bytes: isize) {
        if bytes != 0 {
            self.overdrawn.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Adds to what is borrowed, or subtracts from it. Wakes waiting sources if bytes were returned.
    fn borrow(&self, bytes: isize) {
        if bytes == 0 {
            return;
        }
        self.borrowed.fetch_add(bytes, Ordering::Relaxed);
        self.budget.0.borrowed.fetch_add(bytes, Ordering::Relaxed);
        if bytes < 0 {
            self.budget.wake();
        }
    }
}

impl Default for FlowMemory {
    /// Returns the memory of a flow without a limit.
    fn default() -> Self {
        MemoryBudget::default().flow("")
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
        let flow = budget.flow("flow");
        let charge = Charge::new(flow.account("out"));
        budget.divide();
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        let context = Context::from_waker(&waker);
        charge.set(15 * BLOCK);
        assert_eq!(flow.poll_open(&context), Poll::Ready(()));
        charge.set(100 * BLOCK);
        assert_eq!(
            flow.poll_open(&context),
            Poll::Pending,
            "the charge is counted although it exceeds the limit"
        );
        assert_eq!(flow.status().components, [("out".to_owned(), 100 * BLOCK)]);
        charge.set(BLOCK);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(flow.poll_open(&context), Poll::Ready(()));
    }

    #[test]
    fn exhausted_surplus_leaves_other_flows_their_shares() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let (one, two) = (budget.flow("one"), budget.flow("two"));
        let (greedy, modest) = (one.account("greedy"), two.account("modest"));
        budget.divide();
        // Each component has a share of 16 blocks. The common surplus has 32 blocks, of which a flow may borrow 16.
        let (greedy, modest) = (Charge::new(greedy), Charge::new(modest));
        modest.set(16 * BLOCK);
        greedy.set(31 * BLOCK);
        assert!(one.is_open(), "15 of 16 blocks are borrowed");
        greedy.set(32 * BLOCK);
        assert!(!one.is_open() && two.is_open());
        greedy.set(100 * BLOCK);
        assert!(two.is_open(), "the flow has borrowed nothing");
        modest.set(17 * BLOCK);
        assert!(!two.is_open(), "the other flow has borrowed the surplus");
        greedy.set(0);
        assert!(one.is_open() && two.is_open());
    }

    #[test]
    fn components_that_use_the_credit_of_a_flow_are_named() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let (one, two) = (budget.flow("one"), budget.flow("two"));
        let (greedy, modest) = (one.account("greedy"), two.account("modest"));
        budget.divide();
        let (loan, charge) = (Loan::new(greedy.clone()), Charge::new(modest.clone()));
        assert!(one.holders().is_empty() && two.holders().is_empty());
        loan.charge(50 * BLOCK);
        charge.set(17 * BLOCK);
        assert_eq!(one.holders(), [("greedy".to_owned(), 50 * BLOCK)]);
        let both = [("one/greedy".to_owned(), 50 * BLOCK), ("modest".to_owned(), 17 * BLOCK)];
        assert_eq!(two.holders(), both, "the other flow has borrowed the surplus");
        charge.set(40 * BLOCK);
        assert_eq!(two.holders(), [("modest".to_owned(), 40 * BLOCK)]);
    }

    #[test]
    fn loans_for_incomplete_messages_do_not_stop_pulls() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let flow = budget.flow("flow");
        let [input, output] = ["in", "out"].map(|name| flow.account(name));
        budget.divide();
        let (loan, charge) = (Loan::new(input), Charge::new(output));
        while loan.take(BLOCK) {}
        assert!(flow.is_open(), "a pull may complete the message of the loan");
        charge.set(16 * BLOCK);
        assert!(flow.is_open(), "the queue does not exceed its share");
        charge.set(17 * BLOCK);
        assert!(!flow.is_open());
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        assert!(flow.poll_open(&Context::from_waker(&waker)).is_pending());
        charge.set(0);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(flow.is_open() && !loan.take(BLOCK), "loans are still limited");
    }

    #[test]
    fn loan_larger_than_remaining_credit_is_refused() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let (one, two) = (budget.flow("one"), budget.flow("two"));
        let (one, two) = (one.account("one"), two.account("two"));
        budget.divide();
        // Each component has a share of 16 blocks, and may borrow 16 of the 32 blocks of the common surplus.
        let (large, small) = (Loan::new(one.clone()), Loan::new(two.clone()));
        assert!(!large.take(33 * BLOCK));
        assert_eq!(one.used(), 0, "a refused loan counts nothing");
        assert!(large.take(31 * BLOCK));
        assert!(!large.take(2 * BLOCK) && large.take(BLOCK) && !large.take(1));
        assert!(small.take(16 * BLOCK - 1), "the share of another flow is untouched");
        let rest = Loan::new(two.clone());
        assert!(rest.take(BLOCK), "a block is granted although one byte of the share is left");
        assert!(rest.take(15 * BLOCK) && !rest.take(2 * BLOCK));
    }

    #[test]
    fn charged_loan_closes_intake_until_it_is_discharged() {
        let budget = MemoryBudget::new(16 * BLOCK);
        let flow = budget.flow("flow");
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
        let flow = budget.flow("flow");
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
        let account = MemoryBudget::default().flow("flow").account("in");
        let loan = Loan::new(account.clone());
        assert!(loan.take(BLOCK) && !loan.take(usize::MAX));
        assert_eq!(account.used(), BLOCK, "nothing overflows");
    }

    #[test]
    fn small_changes_keep_their_block() {
        let account = MemoryBudget::default().flow("flow").account("out");
        let charge = Charge::new(account.clone());
        for bytes in [1, 0, BLOCK, 0] {
            charge.set(bytes);
            assert_eq!(account.used(), BLOCK);
        }
        drop(charge);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn borrowed_memory_is_counted_anew_when_shares_change() {
        let budget = MemoryBudget::new(64 * BLOCK);
        let first = budget.flow("first");
        let one = Charge::new(first.account("one"));
        budget.divide();
        one.set(40 * BLOCK);
        assert!(first.is_open(), "8 blocks more than the share of 32 are borrowed");
        let second = budget.flow("second");
        let others = ["two", "three", "four"].map(|name| second.account(name));
        budget.divide();
        assert!(!first.is_open(), "the share is 8 blocks, and 16 of 32 may be borrowed");
        drop((second, others));
        budget.divide();
        assert!(first.is_open());
        one.set(0);
        drop(one);
        let counts = [&first.credit.borrowed, &first.credit.overdrawn, &budget.0.borrowed];
        assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [0; 3]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

        #[test]
        fn nothing_is_borrowed_once_everything_was_returned(
            steps in proptest::collection::vec((0..4_usize, 0..3_usize, 0..60_usize), 1..60)
        ) {
            let budget = MemoryBudget::new(64 * BLOCK);
            let kept = budget.flow("kept");
            let accounts = ["a", "b", "c"].map(|name| kept.account(name));
            let charges = accounts.clone().map(Charge::new);
            let loans = accounts.clone().map(Loan::new);
            let mut added = Vec::new();
            budget.divide();
            for (step, of, blocks) in steps {
                match step {
                    0 => charges[of].set(blocks * BLOCK),
                    1 => _ = loans[of].take(blocks * BLOCK),
                    2 => loans[of].give_back(blocks * BLOCK),
                    _ => {
                        added.truncate(of);
                        let flow = budget.flow("added");
                        flow.account("x");
                        added.push(flow);
                        budget.divide();
                    }
                }
            }
            drop((charges, loans));
            assert!(accounts.iter().all(|account| account.used() == 0));
            let counts = [&kept.credit.borrowed, &kept.credit.overdrawn, &budget.0.borrowed];
            assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [0; 3]);
        }
    }
}
