use tremor_pdk::{Delivery, Error, Operator};

use super::{
    Lanes, Setup, both, doubles,
    doubles::{Pulls, Sees, Shared, Takes},
    pulls, sorted,
};
use crate::{
    engine::connection::{Connection, End},
    executor::block_on,
};

#[test]
fn what_was_handed_over_to_a_sink_that_is_lost_arrives_in_order_once_it_is_back() {
    let lost = || Err(Error::connection_lost("gone"));
    let done = || Ok(Delivery::done());
    // The first batch is the source's own and the second is handed over: it waits when the sink is
    // lost with the first, and is on its way when the sink is lost with the second.
    for next in [vec![lost()], vec![done(), lost()], vec![lost(), done(), lost(), lost()]] {
        let seen = Shared::<Vec<String>>::default();
        let operators: Vec<Box<dyn Operator>> = vec![Box::new(Sees(seen.clone()))];
        let script = vec![false, true, true];
        let lanes = Setup { script, operators, ..Setup::default() }.lanes();
        let outcome = lanes.run(Pulls::numbers(5), &Takes::of(next));
        let numbers: Vec<String> = (0..15).map(|number| number.to_string()).collect();
        assert_eq!(*seen.lock().unwrap(), numbers);
        assert_eq!(outcome.messages(), numbers);
        assert_eq!(outcome.heard, pulls(5, true));
    }
}

#[test]
fn what_is_to_be_delivered_again_is_encoded_again() {
    for script in [vec![false], vec![true]] {
        let mut delivery = Delivery::done();
        delivery.retry(1..2, Error::timeout("not now"));
        let lanes = Setup { script, ..Setup::default() }.lanes();
        let outcome = lanes.run(Pulls::numbers(1), &Takes::of([Ok(delivery)]));
        assert_eq!(outcome.delivered, [vec!["0", "2"], vec!["1"]]);
        assert_eq!(outcome.heard, pulls(1, true));
    }
}

#[test]
fn a_sink_that_is_abandoned_with_a_raw_batch_gives_the_routes_back_and_fails_the_pull() {
    let seen = Shared::<Vec<String>>::default();
    let operators: Vec<Box<dyn Operator>> = vec![Box::new(Sees(seen.clone()))];
    let lanes = Setup { script: vec![true], operators, ..Setup::default() };
    let Lanes { mut source, mut sink, stats, .. } = lanes.lanes();
    let double = Pulls::numbers(2);
    let heard = double.heard.clone();
    sink.queue.attend();
    let connection = Connection::default();
    let source_runs = async {
        let end = source.run(Box::new(double), &connection).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    // The source comes first, and goes as far as it can without the routes.
    block_on(both(source_runs, async { sink.abandon() }));
    assert_eq!(*seen.lock().unwrap(), ["3", "4", "5"]);
    assert_eq!(sorted(&heard), pulls(2, false));
    assert_eq!((stats.counts().events_in, stats.counts().failed), (6, 6));
}

#[test]
fn a_sink_that_is_not_connected_is_handed_nothing() {
    let lanes = Setup { script: vec![true; 3], ..Setup::default() }.lanes();
    let Lanes { mut source, mut sink, decoded, .. } = lanes;
    let (double, takes) = (Pulls::numbers(3), Takes::of([]));
    let heard = double.heard.clone();
    let connection = Connection::default();
    let source_runs = async {
        _ = source.run(Box::new(double), &connection).await;
    };
    // The source comes first, and the queue has room for all it brings.
    block_on(both(source_runs, async {
        _ = sink.run(Box::new(doubles::Taking(takes.clone())), &connection).await;
    }));
    let count = |side: usize| decoded[side].load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!([count(0), count(1)], [3, 0]);
    assert_eq!(sorted(&heard), pulls(3, true));
}
