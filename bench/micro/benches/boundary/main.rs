//! Cost of calls to a plugin. The page `docs/benchmarks/boundary.md` describes what each group
//! measures, and its limits.
//!
//! The called library is `bench/boundary-plugin`, which is built here if necessary, with the
//! profile of the benchmark and the same compiler. Times are never asserted.

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
