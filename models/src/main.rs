//! Model checks of the project's concurrency protocols.
//!
//! A model is a function with a few operations on two or three threads. [loom] runs the operations in every order with
//! a limited number of preemptions, and with every value that the memory model lets a load return. The modules of this
//! crate have the names of the product's modules. They include files of the product unchanged, with doubles of the
//! items that these files import. The double of `crate::sync` replaces locks and atomics by those of loom, and plants
//! faults. A model has to fail with each fault that it lists.
//!
//! Without arguments, all models are checked. With the arguments `MODEL` or `MODEL FAULT`, one model is checked in this
//! process, without or with a planted fault.

// Do not compile as a test: the models would include the unit tests in the product's files.
#![cfg(not(test))]
#![allow(dead_code, reason = "models use only a part of the product's files")]

// The product's files use these names of crates.
extern crate self as abi_stable;
extern crate self as tremor_abi;
extern crate self as tremor_pdk;

mod batch;
mod clock;
mod doubles;
mod driver;
mod engine;
mod executor;
#[path = "../../tremor-pdk/src/oneshot.rs"]
mod oneshot;
mod rt;
mod sync;

use std::{env, process::ExitCode};

use doubles::*;

/// A model, and the faults that it finds.
struct Model {
    name: &'static str,
    run: fn(),
    /// Maximum number of preemptions in an order that loom runs. This is the smallest number that finds every fault,
    /// because each further preemption makes the check take several times as long.
    preemptions: usize,
    /// Names of faults, each with a part of the message with which the model has to fail.
    faults: &'static [(&'static str, &'static str)],
}

/// Returns the models. Miri runs only those of unsafe code.
fn models() -> impl Iterator<Item = &'static Model> {
    use engine::{queue, route, source, sync, tracking};

    let is_unsafe = [batch::MODELS, driver::MODELS];
    let others = [
        tracking::MODELS,
        executor::MODELS,
        queue::MODELS,
        route::MODELS,
        source::MODELS,
        sync::MODELS,
    ];
    is_unsafe.into_iter().chain(others.into_iter().filter(|_| !cfg!(miri))).flatten()
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(name) = arguments.next() else { return rt::check_all() };
    let model = models().find(|model| model.name == name).expect("a model has this name");
    arguments.next().into_iter().for_each(sync::plant);
    rt::check(model);
    ExitCode::SUCCESS
}
