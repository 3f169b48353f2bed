//! Tests of budgets, loans and charges.

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
fn borrowed_memory_is_counted_again_when_shares_change() {
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
