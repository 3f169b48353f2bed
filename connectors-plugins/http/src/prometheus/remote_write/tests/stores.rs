//! Tests of the sink against a peer that judges and stores samples as Prometheus 2.42 does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tremor_pdk::{
    StructuredBatch,
    testing::{Connection, TestHost, exceptions},
};

use super::{super::RemoteWrite, Point, Samples, batch, check, point};
use crate::{
    prometheus::sample::{Labels, Sample},
    testing::{Reply, Server},
};

/// Age in ms, compared with the newest sample of all series, from which samples are out of bounds: half of a block.
const BOUND: i64 = 3_600_000;

/// The samples that were stored, by series: their times and the bits of their values.
type Series = BTreeMap<String, Vec<(i64, u64)>>;

/// A peer that judges and stores samples as Prometheus does: each sample is compared with those that were stored before
/// the request. If one is refused, nothing of the request is stored. Otherwise, samples that are not later than an
/// earlier one of the same request are dropped without an error.
struct Prometheus {
    server: Server,
    series: Arc<Mutex<Series>>,
}

impl Prometheus {
    fn start() -> Self {
        let series = Arc::new(Mutex::new(Series::new()));
        let stored = series.clone();
        let server = Server::start(move |request| {
            let body = snap::raw::Decoder::new().decompress_vec(&request.body).unwrap();
            let samples = samples(body);
            let mut stored = stored.lock().unwrap();
            match samples.iter().find_map(|sample| refusal(&stored, sample)) {
                Some((status, text)) => Reply::With(status, "", format!("{text}\n")),
                None => {
                    for (name, time, bits) in samples {
                        let of_series = stored.entry(name).or_default();
                        if of_series.last().is_none_or(|(last, _)| *last < time) {
                            of_series.push((time, bits));
                        }
                    }
                    Reply::With(204, "", String::new())
                }
            }
        });
        Self { server, series }
    }

    fn sink(&self) -> Connection {
        let host = TestHost::new();
        host.follow_real_time();
        let config = format!(r#"{{ "url": "http://{}/api/v1/write" }}"#, self.server.address);
        host.connect::<RemoteWrite>(&config).unwrap()
    }

    /// Returns the number of stored samples.
    fn count(&self) -> usize {
        self.series.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// Returns why a sample is refused, if it is.
fn refusal(
    stored: &Series,
    (name, time, bits): &(String, i64, u64),
) -> Option<(u16, &'static str)> {
    let newest = stored.values().filter_map(|of_series| of_series.last()).map(|(time, _)| *time);
    if newest.max().is_some_and(|newest| *time < newest - BOUND) {
        return Some((400, "out of bounds"));
    }
    match stored.get(name).and_then(|of_series| of_series.last()) {
        Some((last, _)) if time < last => Some((400, "out of order sample")),
        Some((last, stored)) if time == last && bits != stored => {
            Some((400, "duplicate sample for timestamp"))
        }
        _ => None,
    }
}

/// Returns the samples of a request: the text of the series, the time and the bits of the value.
fn samples(request: Vec<u8>) -> Vec<(String, i64, u64)> {
    check(&request).unwrap();
    let mut batch = StructuredBatch::new();
    batch.set_limit(tremor_pdk::Limit { events: usize::MAX, bytes: usize::MAX });
    assert!(Samples::new(request, true).put(&mut batch, 1).unwrap());
    let (mut labels, mut found) = (Labels::default(), Vec::new());
    for event in &batch {
        let sample = Sample::read(event.value()).unwrap();
        labels.read(&sample).unwrap();
        let series: Vec<_> = labels.iter().collect();
        let time = sample.timestamp_ns.unwrap() / 1_000_000;
        found.push((format!("{}{series:?}", sample.name), time, sample.value.to_bits()));
    }
    found
}

/// Returns the samples of 50 series at these times in ms.
fn points(times: std::ops::Range<i64>) -> Vec<Point> {
    let of_time = |time| (0..50).map(move |n| point("up", ("n", &n.to_string()), 1.0, time));
    times.flat_map(of_time).collect()
}

/// After a kill, samples that are stored are sent again, together with new ones.
#[test]
fn samples_that_are_stored_cost_no_new_sample() {
    let prometheus = Prometheus::start();
    let mut sink = prometheus.sink();
    sink.deliver(&batch(&points(0..4))).unwrap();
    let refused = exceptions(sink.deliver(&batch(&points(0..8))));
    let count: usize = refused.iter().map(|it| it.events.len()).sum();
    // The latest sample of each series is accepted again.
    assert_eq!((prometheus.count(), count), (50 * 8, 50 * 3));
    let text = refused[0].error.to_string();
    assert!(text.ends_with("400 Bad Request: out of order sample"), "{text}");
}

#[test]
fn sample_of_the_future_makes_few_requests_and_dead_letters() {
    let prometheus = Prometheus::start();
    let mut sink = prometheus.sink();
    sink.deliver(&batch(&[point("clock", ("n", "wrong"), 1.0, 2 * BOUND)])).unwrap();
    let refused = exceptions(sink.deliver(&batch(&points(0..8))));
    assert_eq!(refused.iter().map(|it| it.events.len()).sum::<usize>(), 400);
    let requests = prometheus.server.requests().len();
    assert!(requests < 60, "{requests}");
    assert_eq!(prometheus.count(), 1);
}

#[test]
fn special_values_are_stored_and_may_be_repeated() {
    let prometheus = Prometheus::start();
    let mut sink = prometheus.sink();
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let values = [f64::NAN, stale, f64::INFINITY, f64::NEG_INFINITY];
    let numbered = (0..).zip(values);
    let points: Vec<_> =
        numbered.map(|(n, value)| point("up", ("n", &format!("{n}")), value, 1)).collect();
    for _ in 0..2 {
        sink.deliver(&batch(&points)).unwrap();
    }
    let stored = prometheus.series.lock().unwrap();
    let bits: Vec<_> = stored.values().flatten().map(|(_, bits)| *bits).collect();
    assert_eq!(bits, values.map(f64::to_bits));
}
