//! Sources at the limits of what they may have in flight.

use std::{sync::Arc, time::Duration};

use tremor_pdk::InFlight;

use super::{
    Harness, Setup, both,
    doubles::{Fives, Pulls, Takes, Taking},
    pulls, sorted,
};
use crate::{
    engine::{
        Kind,
        control::Phase,
        handle::{
            connection::{Connection, End},
            status::PULL_LIMIT,
        },
        waiting::{Line, Waits},
    },
    executor::{self, block_on},
};

/// A window of five events, of which the source may have three in flight.
#[test]
fn window_above_limit_of_source_is_warned_of_once() {
    let operators: Vec<Box<dyn tremor_pdk::Operator>> = vec![Box::new(Fives::default())];
    let harness = Setup { operators, ..Setup::default() }.harness();
    let Harness { mut source, mut sink, books, .. } = harness;
    let control = source.control.clone();
    let name = source.handle.name().to_owned();
    control.add(source.handle.clone());
    let events = move || {
        let components = books.components();
        let counts = components.iter().find(|it| it.kind == Kind::Pipeline).map(|it| it.counts);
        counts.map_or(0, |counts| counts.in_flight())
    };
    control.add_pipeline("window", vec![name.clone()], Box::new(events));
    let takes = Takes::of([]);
    let mut double = Pulls::numbers(4);
    double.most_in_flight = 3;
    let heard = double.heard.clone();
    let connection = Arc::<Connection>::default();
    let sink_runs = async {
        let end = sink.run(Box::new(Taking(takes.clone())), &connection).await;
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
        assert_eq!((&*awaited.sink, awaited.reason), ("window", PULL_LIMIT));
        assert_eq!(awaited.limit, Some(InFlight { events: 3, ..InFlight::UNLIMITED }));
        let mut waits = Waits::default();
        let mut at =
            |seconds| waits.lines(control.waits(), awaited.since + Duration::from_secs(seconds));
        assert!(at(1).is_empty() && at(29).is_empty());
        assert_eq!(at(30), [Line::Waits { source: name.clone(), awaited: awaited.clone() }]);
        assert!(at(31).is_empty() && at(3_600).is_empty(), "once");
        control.advance(Phase::Draining);
        let duration = Duration::from_secs(3_601);
        let sink = "window".to_owned();
        assert_eq!(at(3_601), [Line::Ended { source: name.clone(), sink, duration }]);
    };
    block_on(both(both(sink_runs, source_runs), operator_looks));
    assert_eq!(sorted(&heard), pulls(1, true));
}
