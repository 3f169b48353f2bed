use std::sync::Arc;

use tremor_pdk::Error;

use super::{
    Harness, Setup, both,
    doubles::{Pulls, Records, ScriptedSink, Shared, SinkScript, exception},
    pulls, settled, sorted,
};
use crate::{
    engine::handle::connection::{Connection, End},
    executor::{self, alone, block_on},
};

#[test]
fn encoded_batches_arrive_in_order_after_a_lost_connection() {
    let lost = || Err(Error::connection_lost("gone"));
    let done = || Ok(Vec::new());
    for next in [vec![lost()], vec![done(), lost()], vec![lost(), done(), lost(), lost()]] {
        for helpers in [0, 3] {
            let seen = Shared::<Vec<String>>::default();
            let setup = Setup::default().helpers(helpers);
            let setup = setup.operators("main", vec![Box::new(Records(seen.clone()))]);
            let next = next.iter().cloned();
            let outcome = setup.run(Pulls::numbers(5), &SinkScript::of(next));
            let numbers: Vec<String> = (0..15).map(|number| number.to_string()).collect();
            assert_eq!(*seen.lock().unwrap(), numbers);
            assert_eq!(outcome.messages(), numbers);
            assert_eq!(outcome.reports, pulls(5, true));
        }
    }
}

#[test]
fn retried_events_are_encoded_again() {
    let exceptions = vec![exception(1..2, Error::timeout("not now"))];
    let outcome = Setup::default().run(Pulls::numbers(1), &SinkScript::of([Ok(exceptions)]));
    assert_eq!(outcome.delivered, [vec!["0", "2"], vec!["1"]]);
    assert_eq!(outcome.reports, pulls(1, true));
}

#[test]
fn undelivered_part_is_delivered_in_order_after_a_reconnect() {
    let exceptions = vec![
        exception(0..1, Error::bad_data("never")),
        exception(1..2, Error::timeout("not now")),
        exception(2..3, Error::connection_lost("gone")),
    ];
    let script = SinkScript::of([Ok(exceptions)]);
    let outcome = Setup::default().run(Pulls::numbers(2), &script);
    assert_eq!(outcome.messages(), ["1", "2", "3", "4", "5"]);
    assert_eq!(outcome.letters.len(), 1);
    assert_eq!(outcome.reports, pulls(2, true));
}

#[test]
fn abandoned_sink_fails_the_pulls_of_its_batches() {
    for helpers in [0, 3] {
        let Harness { mut source, sink, counters, .. } =
            Setup::default().helpers(helpers).harness();
        let double = Pulls::numbers(7);
        let reports = double.reports.clone();
        let connection = Arc::<Connection>::default();
        let source_runs = async {
            let end = source.run(Box::new(double), &connection).await;
            assert!(matches!(end, End::Finished), "{end:?}");
        };
        block_on(both(source_runs, async { sink.abandon(false) }));
        assert_eq!(sorted(&reports), pulls(7, false));
        let counts = settled(&counters.components());
        assert_eq!((counts.events_in, counts.failed), (21, 21));
    }
}

#[test]
fn source_with_a_full_queue_ends_when_its_own_sink_is_lost() {
    for helpers in [0, 3] {
        let Harness { mut source, mut sink, control, .. } =
            Setup::default().helpers(helpers).harness();
        let connection = Arc::<Connection>::default();
        let lost = Err(Error::connection_lost("gone"));
        let script = SinkScript::of([Ok(Vec::new()), lost]);
        let sink_runs = async {
            let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
            assert!(matches!(end, End::Lost(_)), "{end:?}");
            while !sink.queue.is_full() {
                executor::yield_now().await;
            }
            connection.break_off();
        };
        let double = Pulls::numbers(10_000);
        let (reports, closed) = (double.reports.clone(), double.closed.clone());
        let source_runs = async {
            let end = source.run(Box::new(double), &connection).await;
            assert!(matches!(end, End::Interrupted), "{end:?}");
        };
        alone::run(control.clock(), both(sink_runs, source_runs));
        assert_eq!(
            *closed.lock().unwrap(),
            [reports.lock().unwrap().len()],
            "closed after all reports"
        );
        connection.restore();
        let sink_runs = async {
            let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
            assert!(matches!(end, End::Finished), "{end:?}");
        };
        let source_runs = async {
            let end = source.run(Box::new(Pulls::numbers(0)), &connection).await;
            assert!(matches!(end, End::Finished), "{end:?}");
        };
        alone::run(control.clock(), both(sink_runs, source_runs));
        let delivered = script.lock().unwrap().delivered.concat();
        let numbers: Vec<String> = (0..delivered.len()).map(|it| it.to_string()).collect();
        assert_eq!(delivered, numbers);
        assert!(delivered.len() >= 256, "the queue was full");
    }
}
