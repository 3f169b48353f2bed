//! Tokens and the ledger: a source hears of the end of each pull once, and how it ended.

use std::{
    future::poll_fn,
    mem,
    task::{Context, Waker},
};

use crate::rt::{block_on, sync::Arc, thread};

use crate::{fails, holds};

/// Two pulls end on two threads, one of them in two parts, while their source asks now and then.
macro_rules! a_source_asks {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                use crate::$variant::engine::account::token::{Ended, Ledger, Token};

                let ledger = Arc::new(Ledger::default());
                let (one, other) = (Token::of(1, &ledger), Token::of(2, &ledger));
                let branch = one.clone();
                let ends = thread::spawn(move || {
                    branch.settle();
                    drop(other);
                });
                one.settle();
                let mut ended = ledger.take_ended();
                ends.join().unwrap();
                ended.extend(ledger.take_ended());
                ended.sort_by_key(|ended| ended.pull);
                let expected = [(1, None), (2, Some(Vec::new()))].map(|(pull, failed)| Ended {
                    pull,
                    failed,
                    undecodable: Vec::new(),
                });
                assert_eq!(ended, expected, "what the source has heard");
            },
        }
    };
}

/// Branches of one pull end on three threads; the source waits for that. One branch fails.
macro_rules! a_source_waits {
    ($variant:ident) => {
        crate::Model {
            preemptions: 4,
            run: || {
                use crate::$variant::engine::account::token::{Ended, Ledger, Token};

                let ledger = Arc::new(Ledger::default());
                let token = Token::join(vec![Token::of(1, &ledger), Token::of(2, &ledger)]);
                let (settles, fails) = (token.clone(), token.clone());
                let settles = thread::spawn(move || settles.settle());
                let fails = thread::spawn(move || drop(fails));
                // Another task has asked before.
                _ = ledger.poll_ended(&Context::from_waker(Waker::noop()));
                token.settle();
                let mut ended = Vec::new();
                while ended.len() < 2 {
                    ended.extend(block_on(poll_fn(|context| ledger.poll_ended(context))));
                }
                let expected = [1, 2].map(|pull| Ended {
                    pull,
                    failed: Some(Vec::new()),
                    undecodable: Vec::new(),
                });
                assert_eq!(ended, expected, "what the source has heard");
                settles.join().unwrap();
                fails.join().unwrap();
                assert_eq!(mem::take(&mut ledger.take_ended()), []);
            },
        }
    };
}

#[test]
fn a_source_that_asks_hears_of_each_pull_once() {
    holds(a_source_asks!(as_it_is));
}

#[test]
fn a_source_that_waits_hears_of_a_failed_branch() {
    holds(a_source_waits!(as_it_is));
}

#[test]
fn it_is_found_that_the_ledger_tells_before_it_writes() {
    fails(a_source_asks!(ledger_tells_before_it_writes), "what the source has heard");
}

#[test]
fn it_is_found_that_the_ledger_takes_before_it_looks() {
    fails(a_source_asks!(ledger_takes_before_it_looks), "what the source has heard");
}

#[test]
fn it_is_found_that_the_task_that_asked_first_is_woken() {
    fails(a_source_waits!(single_keeps_the_first_waker), "deadlock");
}
