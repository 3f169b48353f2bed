//! Sinks whose batches are joined to deliveries.

use std::{num::NonZeroUsize, time::Duration};

use tremor_pdk::Error;

use super::{
    doubles::{Shared, exception},
    parallel::{Desk, run_batching, until},
    pulls,
};
use crate::engine::sink::lane::Batching;

const HOUR: Duration = Duration::from_hours(1);

fn batches(max_events: usize, linger: Duration) -> Batching {
    let max_events = NonZeroUsize::new(max_events).unwrap();
    Batching { max_events, max_bytes: NonZeroUsize::MAX, linger }
}

/// The last delivery does not wait for more events.
#[test]
fn pulls_of_one_delivery_end_together() {
    let desk = Shared::<Desk>::default();
    let reports = run_batching(&[0; 5], (1, true), Some(batches(2, HOUR)), &desk, async {
        for (begun, message) in [(1, "12"), (2, "34"), (3, "5")] {
            until(&desk, begun, &[message]).await;
            desk.lock().unwrap().answer(message, Ok(Vec::new()));
        }
    });
    assert_eq!(reports, pulls(5, true));
}

#[test]
fn each_event_of_a_joined_delivery_ends_as_the_sink_reports() {
    let desk = Shared::<Desk>::default();
    let reports = run_batching(&[0; 6], (1, true), Some(batches(6, HOUR)), &desk, async {
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
    assert_eq!(reports, pulls(6, true), "dead letters are acknowledged");
}

#[test]
fn lost_delivery_is_repeated_before_later_ones() {
    let desk = Shared::<Desk>::default();
    let reports = run_batching(&[0; 4], (1, true), Some(batches(2, HOUR)), &desk, async {
        until(&desk, 1, &["12"]).await;
        desk.lock().unwrap().answer("12", Err(Error::connection_lost("reset")));
        until(&desk, 2, &["12"]).await;
        desk.lock().unwrap().answer("12", Ok(Vec::new()));
        until(&desk, 3, &["34"]).await;
        desk.lock().unwrap().answer("34", Ok(Vec::new()));
    });
    assert_eq!(reports, pulls(4, true));
}

#[test]
fn ordered_streams_do_not_share_deliveries() {
    let desk = Shared::<Desk>::default();
    let reports =
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
    assert_eq!(reports, pulls(6, true));
    assert_eq!(desk.lock().unwrap().begun, ["13", "24", "6", "13", "5"]);
}
