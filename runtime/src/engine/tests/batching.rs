//! A sink whose batches are put together.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tremor_pdk::Error;

use super::{
    doubles::{Pulls, Shared, exception},
    parallel::{Desk, run_batching, run_source, until},
    pulls, sorted,
};
use crate::engine::sink::lane::Batching;

const HOUR: Duration = Duration::from_hours(1);

fn batches(max_events: usize, linger: Duration) -> Batching {
    let max_events = NonZeroUsize::new(max_events).unwrap();
    Batching { max_events, max_bytes: NonZeroUsize::MAX, linger }
}

#[test]
fn pulls_that_are_delivered_together_end_together_and_the_last_wait_for_nothing() {
    let desk = Shared::<Desk>::default();
    let heard = run_batching(&[0; 5], (1, true), Some(batches(2, HOUR)), &desk, async {
        for (begun, message) in [(1, "12"), (2, "34"), (3, "5")] {
            until(&desk, begun, &[message]).await;
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    });
    assert_eq!(heard, pulls(5, true));
}

#[test]
fn of_a_delivery_of_several_pulls_each_event_ends_as_the_sink_says() {
    let desk = Shared::<Desk>::default();
    let heard = run_batching(&[0; 6], (1, true), Some(batches(6, HOUR)), &desk, async {
        until(&desk, 1, &["123456"]).await;
        let some = vec![
            exception(0..1, Error::bad_data("no")),
            exception(2..4, Error::full("not now")),
            exception(5..6, Error::bad_data("no")),
        ];
        desk.lock().unwrap().answer("123456", Ok(some));
        until(&desk, 2, &["34"]).await;
        desk.lock().unwrap().answer("34", Err(Error::timeout("slow")));
        until(&desk, 3, &["34"]).await;
        let last = vec![exception(0..1, Error::full("not now"))];
        desk.lock().unwrap().answer("34", Ok(last));
        until(&desk, 4, &["3"]).await;
        desk.lock().unwrap().answer("3", Ok(Vec::new()));
    });
    assert_eq!(heard, pulls(6, true), "what was dead-lettered is done with");
}

#[test]
fn where_the_connection_is_lost_the_delivery_is_made_again_before_what_follows() {
    let desk = Shared::<Desk>::default();
    let heard = run_batching(&[0; 4], (1, true), Some(batches(2, HOUR)), &desk, async {
        until(&desk, 1, &["12"]).await;
        desk.lock().unwrap().answer("12", Err(Error::connection_lost("reset")));
        until(&desk, 2, &["12"]).await;
        desk.lock().unwrap().answer("12", Ok(Vec::new()));
        until(&desk, 3, &["34"]).await;
        desk.lock().unwrap().answer("34", Ok(Vec::new()));
    });
    assert_eq!(heard, pulls(4, true));
}

#[test]
fn in_order_each_stream_has_deliveries_of_its_own() {
    let desk = Shared::<Desk>::default();
    let heard =
        run_batching(&[7, 8, 7, 8, 7, 8], (2, true), Some(batches(2, HOUR)), &desk, async {
            until(&desk, 2, &["13", "24"]).await;
            desk.lock().unwrap().answer("24", Ok(Vec::new()));
            until(&desk, 3, &["13", "6"]).await;
            desk.lock().unwrap().answer("13", Err(Error::full("not now")));
            until(&desk, 4, &["13", "6"]).await;
            desk.lock().unwrap().answer("6", Ok(Vec::new()));
            desk.lock().unwrap().answer("13", Ok(Vec::new()));
            until(&desk, 5, &["5"]).await;
            desk.lock().unwrap().answer("5", Ok(Vec::new()));
        });
    assert_eq!(heard, pulls(6, true));
    assert_eq!(desk.lock().unwrap().begun, ["13", "24", "6", "13", "5"]);
}

#[test]
fn an_event_that_nothing_joins_goes_when_it_has_waited_its_time() {
    let desk = Shared::<Desk>::default();
    let linger = batches(usize::MAX >> 8, Duration::from_millis(1));
    let may_end = Arc::<AtomicBool>::default();
    let source = Pulls { until: Some(may_end.clone()), ..Pulls::of(&[&["1"]]) };
    let heard = source.heard.clone();
    run_source(source, (1, true), Some(linger), &desk, async {
        until(&desk, 1, &["1"]).await;
        may_end.store(true, Ordering::Relaxed);
        desk.lock().unwrap().answer("1", Ok(Vec::new()));
    });
    assert_eq!(sorted(&heard), pulls(1, true));
}
