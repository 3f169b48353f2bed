//! Model checks of the project's own concurrency protocols.
//!
//! A model is a handful of operations on two or three threads. [loom] runs it in every order in which
//! they can follow one another, and with every value that a load may see by the rules of the memory
//! model. What is checked is the product's own text: `build.rs` takes it from where it lies. Each model
//! also has to find a fault that is planted in that text.
#![cfg(test)]

mod call;
mod doubles;
mod in_order;
mod intake;
mod ledger;
mod mailbox;
mod pool;
mod ready;
mod rt;
mod watch;

#[allow(unused, clippy::all, reason = "a model does not need all of it")]
mod variants {
    include!(concat!(env!("OUT_DIR"), "/variants.rs"));
}
use variants::*;

#[cfg(not(miri))]
use std::{
    any, env, panic, process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Set in a process that runs one model, to where that stands.
#[cfg(not(miri))]
const CHILD: &str = "TREMOR_MODEL";

/// What that process says in the end.
#[cfg(not(miri))]
const HELD: &str = "orders in which the model held:";

/// What is run, with so many preemptions at most: as few as find every fault that is planted, for each
/// more takes several times as long.
struct Model<R> {
    #[cfg_attr(miri, allow(dead_code, reason = "it is up to Miri"))]
    preemptions: usize,
    run: R,
}

/// The model ends well in every order. One model a test.
#[track_caller]
fn holds<R: Fn() + Send + Sync + 'static>(model: Model<R>) {
    if let Some(failure) = failure(model) {
        panic!("{failure}");
    }
}

/// There is an order in which the model fails, and says this. One model a test.
#[track_caller]
fn fails<R: Fn() + Send + Sync + 'static>(model: Model<R>, says: &str) {
    let failure = failure(model).expect("a fault is there to be found");
    assert!(failure.contains(says), "{failure}");
}

/// How the model fails, in the first order in which it does. It has a process of its own: the threads
/// that a failure leaves cannot be unwound.
#[cfg(not(miri))]
#[track_caller]
fn failure<R: Fn() + Send + Sync + 'static>(model: Model<R>) -> Option<String> {
    let place = panic::Location::caller().to_string();
    if let Ok(asked) = env::var(CHILD) {
        assert_eq!(asked, place, "a test has one model");
        panic::set_hook(Box::new(|info| {
            eprintln!("{info}");
            process::exit(1);
        }));
        let orders = Arc::<AtomicUsize>::default();
        let counted = orders.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(model.preemptions);
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            (model.run)();
        });
        println!("{HELD} {}", orders.load(Ordering::Relaxed));
        process::exit(0);
    }
    // The test that the model stands in.
    let run = any::type_name::<R>();
    let (_, test) = run.split_once("::").expect("a path begins with the crate");
    let test = test.strip_suffix("::{{closure}}").expect("a model is a closure");
    let mut child = process::Command::new(env::current_exe().expect("it runs"));
    child.args(["--exact", "--nocapture", test]).env(CHILD, place);
    let output = child.output().expect("what runs can be run again");
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some((_, orders)) = said.split_once(HELD) {
        println!("orders: {orders}");
        return None;
    }
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Miri ends the process where it finds something, and is free in which threads it runs when.
#[cfg(miri)]
fn failure<R: Fn() + Send + Sync + 'static>(model: Model<R>) -> Option<String> {
    (0..50).for_each(|_| (model.run)());
    None
}
