//! Tests of the page "Dead letters and their replay".

use std::fs;

use serde_json::Value;

use super::{Kitchen, collector::Collector, counts, flows, values};
use crate::{peer::wait_until, tremor::Run};

/// Orders in the log. Each tenth has a time that is not an integer.
const ORDERS: usize = 30;

/// Orders that the endpoint rejects at first.
const REJECTED: &str = "red";

fn lines() -> String {
    let long = "chair ".repeat(2_000);
    let line = |order| {
        let took = if order % 10 == 0 { "12.5" } else { "12" };
        let item = if order % 7 == 0 { REJECTED } else { &long };
        format!("order={order} took={took} item=\"{item}\"\n")
    };
    (0..ORDERS).map(line).collect()
}

/// Returns the numbers of the orders that the endpoint has accepted.
fn orders(events: &[Value]) -> Vec<usize> {
    let numbers = events.iter().map(|event| event["order"].as_u64().unwrap());
    let mut orders: Vec<_> = numbers.map(|number| usize::try_from(number).unwrap()).collect();
    orders.sort_unstable();
    orders
}

fn replay(kitchen: &Kitchen, dead: &str, replaced: &[(&str, &str)]) -> Run {
    fs::rename(kitchen.state(dead), kitchen.state("replay.json")).unwrap();
    let scene = kitchen.flow(&flows("dead-letters.md")[1], replaced);
    scene.tremor(&["check", "--deny-warnings", "flow.yaml"]).expect(0, &[]);
    let run = scene.run();
    run.expect(0, &[]);
    run
}

#[test]
fn replay_delivers_each_dead_letter_once_mended() {
    let (kitchen, collector) = (Kitchen::new(), Collector::start(200));
    let replaced = [("logs.example.com:8080", collector.address())];
    fs::create_dir(kitchen.log("shop")).unwrap();
    fs::write(kitchen.log("shop/orders.log"), lines()).unwrap();
    collector
        .answer_by(|events| if events.iter().any(|it| it["item"] == REJECTED) { 422 } else { 200 });
    // Several requests, so that the endpoint accepts some of the events.
    let small = [replaced[0], ("max_events: 1000", "max_events: 3")];
    let running = kitchen.start(&flows("dead-letters.md")[0], &small, &[]);
    let dead = || values(&kitchen.state("dead.json"));
    wait_until(|| dead().len() + collector.until(|_| true).len() == ORDERS);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
    let letters = dead();
    let components = counts(&letters, "/component");
    assert_eq!(components.keys().collect::<Vec<_>>(), ["collector", "fields"]);
    assert_eq!(components["fields"], ORDERS / 10);
    assert!(letters.iter().all(|letter| letter["original_bytes"].is_null()), "{letters:?}");
    let files = counts(&letters, "/file");
    assert_eq!(
        files.into_keys().collect::<Vec<_>>(),
        [kitchen.log("shop/orders.log").to_str().unwrap()]
    );

    // The endpoint still rejects some events, so the letters of these events are kept with the new error.
    replay(&kitchen, "dead.json", &[replaced[0], ("max_events: 1000", "max_events: 1")]);
    let letters = values(&kitchen.state("still-dead.json"));
    assert_eq!(letters.len(), ORDERS.div_ceil(7), "{letters:?}");
    assert!(letters.iter().all(|it| it["component"] == "collector"), "{letters:?}");
    assert!(letters.iter().all(|it| it["file"].is_string()), "{letters:?}");
    collector.answer(200);
    let run = replay(&kitchen, "still-dead.json", &replaced);
    run.expect(0, &[" 0 dead-lettered"]);
    let events = collector.until(|_| true);
    assert_eq!(orders(&events), (0..ORDERS).collect::<Vec<_>>());
    assert!(events.iter().any(|event| event["took"] == 12.5), "{events:?}");
}
