//! Sinks that answer several deliveries together when they are flushed.

use tremor_pdk::{Demand, Error};

use super::{
    doubles::Shared,
    parallel::{Desk, run, until},
};

/// Returns the messages that were in flight at each flush.
fn flushed(desk: &Shared<Desk>) -> Vec<String> {
    desk.lock().unwrap().flushed.iter().map(|messages| messages.concat()).collect()
}

#[test]
fn sink_is_flushed_when_all_granted_deliveries_are_in_flight() {
    let desk = Desk::of(Demand::gather(3));
    let reports = run(&[0; 7], (64, false), &desk, async {});
    assert_eq!(
        flushed(&desk),
        ["123", "456", "7"],
        "the end of the input flushes the last delivery"
    );
    assert_eq!(reports.len(), 7);
    assert!(reports.iter().all(|(_, acknowledged)| *acknowledged), "{reports:?}");
}

#[test]
fn ordered_stream_flushes_each_delivery_before_the_next() {
    let desk = Desk::of(Demand::gather(3));
    let reports = run(&[0; 3], (64, true), &desk, async {});
    assert_eq!(flushed(&desk), ["1", "2", "3"]);
    assert_eq!(reports.len(), 3);
}

#[test]
fn parallel_sink_is_flushed_once_when_the_input_has_ended() {
    let desk = Desk::of(Demand::new());
    let answers = async {
        until(&desk, 3, &["1", "2", "3"]).await;
        while flushed(&desk).is_empty() {
            crate::executor::yield_now().await;
        }
        for message in ["1", "2", "3"] {
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    };
    run(&[0; 3], (64, false), &desk, answers);
    assert_eq!(flushed(&desk), ["123"]);
}

#[test]
fn retried_delivery_is_flushed_again() {
    let desk = Desk::of(Demand::new());
    let answers = async {
        until(&desk, 2, &["1", "2"]).await;
        while flushed(&desk).is_empty() {
            crate::executor::yield_now().await;
        }
        desk.lock().unwrap().answer("1", Err(Error::full("not now")));
        until(&desk, 3, &["1", "2"]).await;
        while flushed(&desk).len() < 2 {
            crate::executor::yield_now().await;
        }
        for message in ["1", "2"] {
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    };
    run(&[0; 2], (64, false), &desk, answers);
    assert_eq!(flushed(&desk), ["12", "12"]);
}

#[test]
fn sink_gets_batches_of_the_size_that_it_asks_for() {
    let desk = Desk::of(Demand::gather(2).max_events(2));
    run(&[0; 8], (64, false), &desk, async {});
    assert_eq!(flushed(&desk), ["1234", "5678"]);
}
