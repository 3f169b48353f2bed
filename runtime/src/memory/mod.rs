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
    /// components have borrowed is counted again, so they may use memory meanwhile.
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

    /// Removes the account of a component that has ended. What is still counted in the account stays counted until it is
    /// released.
    pub(crate) fn remove(&self, component: &str) {
        lock(&self.accounts).retain(|account| account.component() != component);
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
mod tests;
