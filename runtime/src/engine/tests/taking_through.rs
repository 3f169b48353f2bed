use std::sync::{Arc, atomic::AtomicBool};

use tremor_pdk::Operator;

use super::{
    Setup, both, doubles,
    doubles::{Fives, Pulls, Sees, Shared, Takes, Waits},
    outlet, pipeline, pulls, router, sink_side, source_side,
};
use crate::{
    engine::{
        account::stats::Stats,
        control::Control,
        handle::connection::Connection,
        pipeline::PipelineTask,
        processors::Processors,
        queue::{self, Bounds},
        target::{Ports, Target},
    },
    executor::block_on,
};

const PULLS: usize = 12;
/// Without helpers, and with more than there are processors.
const HELPERS: [usize; 2] = [0, 3];

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn events_go_through_operators_and_into_the_sink_in_the_order_of_pulls() {
    for (helpers, count) in [(0, PULLS), (3, PULLS), (3, 2_000)] {
        let seen = Shared::<Vec<String>>::default();
        let operators: Vec<Box<dyn Operator>> = vec![Box::new(Sees(seen.clone()))];
        let harness = Setup { helpers, operators, ..Setup::default() }.harness();
        let outcome = harness.run(Pulls::numbers(count), &Takes::of([]));
        assert_eq!(outcome.decoded, count, "{helpers}");
        assert_eq!(*seen.lock().unwrap(), numbers(3 * count), "{helpers}");
        assert_eq!(outcome.messages(), numbers(3 * count), "{helpers}");
        assert_eq!(outcome.heard, pulls(count as u64, true), "{helpers}");
        let events = 3 * count as u64;
        assert_eq!((outcome.counts.events_in, outcome.counts.events_out), (events, events));
    }
}

#[test]
fn what_operators_hold_back_is_acknowledged_with_the_batch_that_it_leaves_in() {
    for helpers in HELPERS {
        // Five do not go into three: every batch of the operator is of two pulls or three.
        let operators: Vec<Box<dyn Operator>> = vec![Box::new(Fives::default())];
        let harness = Setup { helpers, operators, ..Setup::default() };
        let outcome = harness.harness().run(Pulls::numbers(PULLS), &Takes::of([]));
        assert_eq!(outcome.messages(), numbers(3 * PULLS), "{helpers}");
        assert!(outcome.delivered.iter().all(|batch| matches!(batch.len(), 1 | 5)), "{helpers}");
        assert_eq!(outcome.heard, pulls(PULLS as u64, true), "{helpers}");
    }
}

#[test]
fn what_cannot_be_decoded_is_the_sources_and_what_cannot_be_encoded_the_sinks() {
    for helpers in HELPERS {
        let harness = Setup { sink_codec: "string", ..Setup::default() };
        let harness = Setup { helpers, err: true, ..harness }.harness();
        let source = Pulls::of(&[&["\"one\"", "{", "\"two\""], &["\"three\""]]);
        let outcome = harness.run(source, &Takes::of([]));
        let [letter, others @ ..] = &outcome.messages()[..] else { panic!("nothing") };
        assert!(letter.contains("\"component\":\"source\""), "{letter}");
        assert_eq!(others, ["one", "two", "three"], "{helpers}");

        let harness = Setup { sink_codec: "binary", helpers, ..Setup::default() };
        let source = Pulls::of(&[&["\"one\"", "2"], &["3", "\"four\""]]);
        let outcome = harness.harness().run(source, &Takes::of([]));
        assert_eq!(outcome.messages(), ["one", "four"], "{helpers}");
        for (letter, original) in outcome.letters.iter().zip(["\"2\"", "\"3\""]) {
            assert!(letter.contains("\"component\":\"sink\""), "{letter}");
            assert!(letter.contains(original), "{letter}");
        }
        assert_eq!(outcome.letters.len(), 2, "{helpers}");
        assert_eq!(outcome.heard, pulls(2, true), "{helpers}");
        assert_eq!((outcome.counts.dead_lettered, outcome.counts.failed), (2, 0), "{helpers}");
    }
}

#[test]
fn an_operator_is_told_the_time_that_it_wants_while_the_source_waits() {
    let told = Arc::new(AtomicBool::new(false));
    let operators: Vec<Box<dyn Operator>> = vec![Box::new(Waits { due: None, told: told.clone() })];
    let harness = Setup { operators, ..Setup::default() }.harness();
    let source = Pulls { until: Some(told), ..Pulls::numbers(1) };
    let outcome = harness.run(source, &Takes::of([]));
    assert_eq!(outcome.messages(), ["0", "1", "2", "\"told\""]);
}

#[test]
fn two_sources_of_one_pipeline_keep_their_order() {
    let stats = Arc::<Stats>::default();
    let (to_sink, queue) = queue::bounded(Bounds::default(), &Processors::default());
    let (to_pipeline, main) =
        queue::bounded(Bounds { events: 4, bytes: usize::MAX }, &Processors::default());
    let own = |target| Ports { out: vec![target], ..Ports::default() };
    let seen = Shared::<Vec<String>>::default();
    let pipelines = vec![pipeline(vec![Box::new(Sees(seen.clone()))], Arc::default())];
    let ports = own(Target::Pipeline(0));
    let routed =
        router("main", pipelines, ports, vec![outlet(to_sink, &stats)], Some("json"), &stats);
    let pipeline = PipelineTask { queue: main, router: routed, control: Arc::new(Control::new()) };
    let mut sources = [0, 1].map(|id| {
        let queues = vec![outlet(to_pipeline.clone(), &stats)];
        let routed = router("source", Vec::new(), own(Target::Queue(0)), queues, None, &stats);
        source_side(id, routed, "json")
    });
    drop(to_pipeline);
    let routed = router("sink", Vec::new(), Ports::default(), Vec::new(), None, &stats);
    let mut sink = sink_side(queue, routed, "json");
    let (connection, takes) = (Arc::<Connection>::default(), Takes::of([]));
    let [one, other] = &mut sources;
    let (low, high) = (Pulls::of(&[&["1", "2"], &["3"], &["4"]]), Pulls::of(&[&["10"], &["11"]]));
    let one_runs = async {
        _ = one.run(Box::new(low), &connection).await;
    };
    let other_runs = async {
        _ = other.run(Box::new(high), &connection).await;
    };
    let feed = both(one_runs, other_runs);
    let rest = both(pipeline.run(), async {
        _ = sink.run(Box::new(doubles::Taking(takes.clone())), &connection).await;
    });
    block_on(both(feed, rest));
    let delivered = takes.lock().unwrap().delivered.concat();
    assert_eq!(delivered, *seen.lock().unwrap());
    let of = |digits| delivered.iter().filter(|it| it.len() == digits).collect::<Vec<_>>();
    assert_eq!(of(1), ["1", "2", "3", "4"]);
    assert_eq!(of(2), ["10", "11"]);
}
