//! Test of the allocations of a flow from JSON to JSON. In the steady state, host and plugin make no allocations for
//! each event and almost none for each batch.

#![allow(clippy::unwrap_used)] // a failed test reports its location
#![allow(clippy::print_stderr)] // people read the output

// The module is compiled into the test as well, because host and plugin each count their own allocations.
#[path = "../../tests/fixtures/plugins/counting/src/allocator.rs"]
mod allocator;
#[path = "support/mod.rs"]
mod support;

use std::{fs, time::Duration};

use tremor_runtime::{
    components::Components,
    flow,
    plugin::{Describer, Policy, SearchPath},
    run::{RunHandle, run},
};

/// Returns the numbers of allocations of host and plugin in a run of `batches` batches of 100 events.
fn allocations(batches: u64) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let message = r#"{"level":"info","text":"line\nand more","tags":["a","b",{"c":null}],"n":1.5}"#;
    let text = format!(
        "connectors:
  io:
    type: counting
    codec: json
    config: {{ batches: {batches}, message: '{message}', report: report }}
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
    let before = allocator::count();
    let reports = run(&[(&flow, &components)], &RunHandle::default(), Duration::from_mins(1));
    let host = allocator::count() - before;
    let counts = reports.unwrap()[0].counts;
    assert_eq!((counts.events_in, counts.events_out), (batches * 100, batches * 100));
    let plugin = fs::read_to_string(folder.path().join("report")).unwrap();
    (host, plugin.parse().unwrap())
}

#[test]
fn json_flow_allocates_at_most_twice_per_batch() {
    const FEW: u64 = 1_000; // enough for every buffer to have grown
    const MORE: usize = 2_000;
    // The runs are in one process, and the count of the plugin continues from one run to the next.
    let (_, plugin_start) = allocations(FEW);
    let (host_few, plugin_few) = allocations(FEW);
    let (host_many, plugin_many) = allocations(FEW + MORE as u64);
    let host = host_many.saturating_sub(host_few);
    let plugin = (plugin_many - plugin_few).saturating_sub(plugin_few - plugin_start);
    eprintln!("{MORE} more batches took {host} allocations of the host, {plugin} of the plugin");
    // Events cause no allocations. One allocation per batch is the list of its messages, which are not copied. Tasks that
    // wake each other at the same time occasionally allocate.
    assert!(host <= 2 * MORE + MORE / 10, "{host} allocations of the host for {MORE} batches");
    // The plugin allocates less, because the pool reuses the buffers that host or plugin have enlarged.
    assert!(plugin <= MORE / 100, "{plugin} allocations of the plugin for {MORE} batches");
}
