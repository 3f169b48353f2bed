//! Sources at their limit of events in flight.

use std::sync::Arc;

use tremor_pdk::InFlight;

use super::{
    Harness, Setup, both,
    doubles::{Fives, Pulls, ScriptedSink, SinkScript},
    pulls, sorted,
};
use crate::{
    engine::{
        control::Phase,
        handle::{
            connection::{Connection, End},
            status::PULL_LIMIT,
        },
    },
    executor::{self, block_on},
};

/// The pipeline has a window of five events, but the source may have only three events in flight.
#[test]
fn source_at_its_limit_is_reported_to_wait_for_the_window() {
    let setup = Setup::default().operators("main", vec![Box::new(Fives::default())]);
    let Harness { mut source, mut sink, control, .. } = setup.harness();
    control.sink_ready("sink");
    control.sink_ready("letters");
    let script = SinkScript::of([]);
    let mut double = Pulls::numbers(4);
    double.most_in_flight = 3;
    let reports = double.reports.clone();
    let connection = Arc::<Connection>::default();
    let sink_runs = async {
        let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let source_runs = async {
        let end = source.run(Box::new(double), &Arc::default()).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let operator_looks = async {
        let mut found = control.waits();
        while found.is_empty() {
            executor::yield_now().await;
            found = control.waits();
        }
        let (_, awaited) = found[0].clone();
        assert_eq!((&*awaited.sink, awaited.reason), ("main", PULL_LIMIT));
        assert_eq!(awaited.limit, Some(InFlight { events: 3, ..InFlight::UNLIMITED }));
        control.advance(Phase::Draining);
    };
    block_on(both(both(sink_runs, source_runs), operator_looks));
    assert_eq!(sorted(&reports), pulls(1, true));
}
