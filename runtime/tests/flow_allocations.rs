//! Test of the allocations of a flow from JSON to JSON. In the steady state, host and plugin make no allocations for
//! each event and almost none for each batch.

#![allow(clippy::unwrap_used)] // a failed test reports its location

// The module is compiled into the test as well, because host and plugin each count their own allocations.
#[path = "../../tests/fixtures/plugins/counting/src/allocator.rs"]
mod allocator;
#[path = "support/mod.rs"]
mod support;

use std::{
    env, fs,
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tracing::{Event, Subscriber, field};
use tracing_subscriber::{Layer, layer, prelude::*};
use tremor_runtime::{
    clock::Clock,
    components::Components,
    flow,
    memory::MemoryBudget,
    plugin::{Describer, Policy, SearchPath},
    run::{RunHandle, run_at},
};

/// Variable that sets the number of threads that run tasks. The executor reads it when it starts.
const THREADS: &str = "TREMOR_THREADS";

/// Numbers of batches after which the allocations are counted. At the first one, every buffer has grown.
const MARKS: [usize; 3] = [1_000, 2_000, 5_000];

/// Numbers of allocations of host and plugin when the plugin logged its own number.
static COUNTS: Mutex<Vec<[usize; 2]>> = Mutex::new(Vec::new());

/// Adds the numbers of allocations at each log line of the plugin. A layer runs on the thread that logs.
struct Marks;

impl<S: Subscriber> Layer<S> for Marks {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let host = allocator::count();
        event.record(&mut |field: &field::Field, value: &dyn std::fmt::Debug| {
            if let ("message", Ok(plugin)) = (field.name(), format!("{value:?}").parse()) {
                COUNTS.lock().unwrap_or_else(PoisonError::into_inner).push([host, plugin]);
            }
        });
    }
}

/// Runs the flow on the executor of this process, with a clock that stands still.
fn run() {
    let folder = tempfile::tempdir().unwrap();
    let message = r#"{"level":"info","text":"line\nand more","tags":["a","b",{"c":null}],"n":1.5}"#;
    let text = format!(
        "connectors:
  io: {{ type: counting, codec: json, config: {{ marks: {MARKS:?}, message: '{message}' }} }}
pipelines: {{ p: {{ operators: [{{ type: passthrough }}] }} }}
links: [io -> p -> io]"
    );
    let path = folder.path().join("flow.yaml");
    fs::write(&path, text).unwrap();
    let library = support::library("fixture-counting");
    let search = [SearchPath::new(library, "this test")];
    let describer =
        Describer::new(Policy::default()).program(env!("CARGO_BIN_EXE_tremor")).cache(None);
    let (components, _) = Components::find(&search, describer, Policy::default());
    let flow = flow::load(&path).unwrap();
    components.check(&flow).unwrap();
    let (handle, budget, clock) = (RunHandle::default(), MemoryBudget::default(), Clock::stopped());
    let flows = [(&flow, &components)];
    let reports = run_at(&flows, &handle, Duration::from_mins(1), &budget, &clock).unwrap();
    let (counts, events) = (reports[0].counts, MARKS[2] as u64 * 100);
    assert_eq!((counts.events_in, counts.events_out), (events, events));
}

/// The flow runs on one thread, with a clock that stands still. Otherwise the number of batches in flight, the ticks of
/// sinks and the wake-ups of helper tasks would depend on time, and all of them allocate.
#[test]
fn json_flow_allocates_twice_per_batch() {
    if env::var(THREADS).as_deref() != Ok("1") {
        let mut again = Command::new(env::current_exe().unwrap());
        again.args(["--exact", "json_flow_allocates_twice_per_batch"]).env(THREADS, "1");
        assert!(again.status().unwrap().success(), "see its output above");
        return;
    }
    COUNTS.lock().unwrap().reserve(MARKS.len());
    tracing_subscriber::registry().with(Marks).init();
    run();
    let counts = COUNTS.lock().unwrap().clone();
    let [first, second, third] = counts[..] else { panic!("three marks: {counts:?}") };
    // A log line takes the same number of allocations each time, so the difference of two differences is without them.
    let between = |at: usize| (third[at] - second[at]) - (second[at] - first[at]);
    let batches = (MARKS[2] - MARKS[1]) - (MARKS[1] - MARKS[0]);
    // Events cause no allocations. One allocation per batch is the list of its messages, which are not copied.
    assert_eq!(between(0), 2 * batches, "allocations of the host: {counts:?}");
    // The plugin allocates nothing, because the pool reuses the buffers that host or plugin have enlarged.
    assert_eq!(between(1), 0, "allocations of the plugin: {counts:?}");
}
