//! Models of tokens and the ledger. A source is notified exactly once of the end and the result of each pull.

use std::{
    future::poll_fn,
    task::{Context, Waker},
};

use crate::{
    Model,
    rt::{block_on, sync::Arc, thread},
};

#[path = "../../../runtime/src/engine/tracking/token.rs"]
mod token;

use token::{Ended, Ledger, Token};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "source_asks_ledger",
        run: source_asks_ledger,
        preemptions: 9,
        faults: &[
            ("ledger_notifies_before_write", "ended pulls"),
            ("ledger_takes_before_check", "ended pulls"),
        ],
    },
    Model {
        name: "source_waits_for_ledger",
        run: source_waits_for_ledger,
        preemptions: 4,
        faults: &[("single_keeps_first_waker", "deadlock")],
    },
];

/// Two pulls end on two threads; one of the pulls has two branches. Meanwhile the source requests
/// the ended pulls twice.
fn source_asks_ledger() {
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
    assert_eq!(ended, expected, "ended pulls");
}

/// The tokens of two pulls are joined, and the joined token is divided into branches, which end on three threads. One
/// branch fails. The source waits for both pulls.
fn source_waits_for_ledger() {
    let ledger = Arc::new(Ledger::default());
    let token = Token::join(vec![Token::of(1, &ledger), Token::of(2, &ledger)]);
    let (settles, fails) = (token.clone(), token.clone());
    let settles = thread::spawn(move || settles.settle());
    let fails = thread::spawn(move || drop(fails));
    // The ledger was polled by another task before, so the ledger has to replace the waker of that task.
    _ = ledger.poll_ended(&Context::from_waker(Waker::noop()));
    token.settle();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.extend(block_on(poll_fn(|context| ledger.poll_ended(context))));
    }
    let expected =
        [1, 2].map(|pull| Ended { pull, failed: Some(Vec::new()), undecodable: Vec::new() });
    assert_eq!(ended, expected, "ended pulls");
    settles.join().unwrap();
    fails.join().unwrap();
    assert_eq!(ledger.take_ended(), []);
}
