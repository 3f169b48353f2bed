//! What it costs to call a plugin: the page `docs/benchmarks/boundary.md` says what each group asks,
//! and what its answer is not good for.
//!
//! What is called lies in a library of its own, `bench/boundary-plugin`, which is built here where it
//! is not: in the profile of the benchmark, by the same compiler. Times are never asserted.

mod calls;
mod components;
mod host;
mod instances;
mod ladder;
mod library;
mod panics;
mod queue;
mod waiting;

#[path = "../../../boundary-plugin/src/components.rs"]
#[allow(dead_code, unreachable_pub)]
mod counted;
#[path = "../../../boundary-plugin/src/echo.rs"]
#[allow(dead_code, unreachable_pub)]
mod echo;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    ladder::ladder,
    components::components,
    waiting::waiting,
    panics::panics,
    instances::instances,
    host::host,
    queue::queue,
);
criterion_main!(benches);
