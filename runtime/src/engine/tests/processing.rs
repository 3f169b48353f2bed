use std::sync::{Arc, atomic::AtomicBool};

use super::{
    Setup,
    doubles::{Fives, NeedsValue, Pulls, Records, Shared, SinkScript, Timed},
    pulls,
};

const PULLS: usize = 12;
/// Numbers of helpers: no helper, and more helpers than a small machine has processors.
const HELPERS: [usize; 2] = [0, 3];

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn events_reach_operators_and_sink_in_the_order_of_pulls() {
    for (helpers, count) in [(0, PULLS), (3, PULLS), (3, 2_000)] {
        let seen = Shared::<Vec<String>>::default();
        let setup = Setup::default().helpers(helpers);
        let setup = setup.operators("main", vec![Box::new(Records(seen.clone()))]);
        let outcome = setup.run(Pulls::numbers(count), &SinkScript::of([]));
        assert_eq!(*seen.lock().unwrap(), numbers(3 * count), "{helpers}");
        assert_eq!(outcome.messages(), numbers(3 * count), "{helpers}");
        assert_eq!(outcome.reports, pulls(count as u64, true), "{helpers}");
        let events = 3 * count as u64;
        assert_eq!((outcome.counts.events_in, outcome.counts.events_out), (events, events));
    }
}

#[test]
fn buffered_events_are_acknowledged_with_their_output_batch() {
    for helpers in HELPERS {
        // Each pull has three events, so a batch of five events contains events of two or three pulls.
        let setup = Setup::default().helpers(helpers);
        let setup = setup.operators("main", vec![Box::new(Fives::default())]);
        let outcome = setup.run(Pulls::numbers(PULLS), &SinkScript::of([]));
        assert_eq!(outcome.messages(), numbers(3 * PULLS), "{helpers}");
        assert!(outcome.delivered.iter().all(|batch| matches!(batch.len(), 1 | 5)), "{helpers}");
        assert_eq!(outcome.reports, pulls(PULLS as u64, true), "{helpers}");
    }
}

#[test]
fn dead_letters_name_the_source_or_sink_whose_codec_failed() {
    for helpers in HELPERS {
        let links = "source -> main -> sink, source/err -> sink, sink/err -> letters";
        let source = Pulls::of(&[&["\"one\"", "{", "\"two\""], &["\"three\""]]);
        let outcome = Setup::of(links).helpers(helpers).run(source, &SinkScript::of([]));
        let [letter, others @ ..] = &outcome.messages()[..] else { panic!("nothing") };
        assert!(letter.contains("\"component\":\"source\""), "{letter}");
        assert_eq!(others, ["\"one\"", "\"two\"", "\"three\""], "{helpers}");
    }
    let source = Pulls::of(&[&["\"one\"", "2"], &["3", "\"four\""]]);
    let outcome = Setup::default().codec("sink", "binary").run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), ["one", "four"]);
    for (letter, original) in outcome.letters.iter().zip(["\"2\"", "\"3\""]) {
        assert!(letter.contains("\"component\":\"sink\""), "{letter}");
        assert!(letter.contains(original), "{letter}");
    }
    assert_eq!(outcome.letters.len(), 2);
    assert_eq!(outcome.reports, pulls(2, true));
    assert_eq!((outcome.counts.dead_lettered, outcome.counts.failed), (2, 0));
}

#[test]
fn due_operator_is_called_while_the_source_waits() {
    let was_called = Arc::new(AtomicBool::new(false));
    let timed = Timed { due: None, was_called: was_called.clone() };
    let source = Pulls { until: Some(was_called), ..Pulls::numbers(1) };
    let setup = Setup::default().operators("main", vec![Box::new(timed)]);
    let outcome = setup.run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), ["0", "1", "2", "\"timer\""]);
}

#[test]
fn ends_of_streams_reach_neither_operators_nor_sinks() {
    let setup = Setup::default().set("source", |it| it.codec = None);
    let setup = setup.operators("main", vec![Box::new(NeedsValue)]);
    let source = Pulls { ends: true, ..Pulls::of(&[&["1", "2"], &["3"]]) };
    let outcome = setup.run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), ["\"1\"", "\"2\"", "\"3\""]);
    assert_eq!((outcome.counts.events_in, outcome.counts.failed), (3, 0));
    assert_eq!(outcome.reports, pulls(2, true));
}
