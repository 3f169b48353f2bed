//! Tests of the encoding and decoding of requests.

use proptest::{collection::vec, prelude::*};
use tremor_pdk::{Batch, Limit, StructuredBatch};

use super::{
    super::request::{Samples, check},
    Point, compressed, events, point, request,
};
use crate::prometheus::{
    number::STALE,
    sample::{Labels, Sample},
};

/// Returns samples whose series and times repeat.
fn points() -> impl Strategy<Value = Vec<Point>> {
    let label = ("[a-cA-C_]", "[a-z\"\\\\é\n]{0,3}");
    let value =
        prop_oneof![any::<f64>(), Just(f64::from_bits(STALE)), Just(f64::INFINITY), Just(0.0)];
    let timestamp_ms = prop_oneof![-3..3_i64, 1_700_000_000_000..1_700_000_000_009_i64];
    let point = ("[a-b]:?[0-1]?", vec(label, 0..4), value, timestamp_ms);
    let point = point.prop_map(|(name, labels, value, timestamp_ms)| Point {
        name,
        labels,
        value,
        timestamp_ms,
    });
    vec(point, 0..20)
}

/// The bits of the value of each sample by its series and time, in order.
type Written = Vec<(String, Vec<(String, String)>, i64, u64)>;

fn written(points: &[Point]) -> Written {
    let mut written: Written = points
        .iter()
        .map(|Point { name, labels, value, timestamp_ms }| {
            // The last value of a repeated label counts, and an empty label does not count.
            let labels: std::collections::BTreeMap<_, _> = labels.iter().cloned().collect();
            let labels = labels.into_iter().filter(|(_, text)| !text.is_empty()).collect();
            (name.clone(), labels, *timestamp_ms, value.to_bits())
        })
        .collect();
    written.sort();
    written
}

fn read(request: Vec<u8>) -> Written {
    let mut batch = StructuredBatch::new();
    batch.set_limit(Limit { events: usize::MAX, bytes: usize::MAX });
    assert!(Samples::new(request, false).put(&mut batch, 1).unwrap());
    let batch: Batch = batch.into();
    let mut read: Written = batch
        .iter()
        .map(|event| {
            let sample = Sample::read(event.value().unwrap()).unwrap();
            let mut labels = Labels::default();
            labels.read(&sample).unwrap();
            labels.sort();
            let labels =
                labels.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
            let timestamp_ms = sample.timestamp_ns.unwrap() / 1_000_000;
            (sample.name.to_owned(), labels, timestamp_ms, sample.value.to_bits())
        })
        .collect();
    read.sort();
    read
}

proptest! {
    #[test]
    fn samples_are_unchanged_by_a_round_trip(points in points()) {
        let request = request(&points);
        prop_assert_eq!(check(&request).unwrap().samples, points.len());
        prop_assert_eq!(read(request), written(&points));
    }

    /// A request that passes the check can become events. Others are rejected before they enter the flow.
    #[test]
    fn damaged_request_is_rejected_or_read(
        points in points(),
        damages in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut request = request(&points);
        if !request.is_empty() {
            for (at, byte) in damages {
                let at = at.index(request.len());
                request[at] = byte;
            }
        }
        if let Ok(contents) = check(&request) {
            let mut batch = StructuredBatch::new();
            batch.set_limit(Limit { events: usize::MAX, bytes: usize::MAX });
            prop_assert!(Samples::new(request, false).put(&mut batch, 1).unwrap());
            prop_assert_eq!(batch.len(), contents.samples);
        }
    }

    #[test]
    fn any_bytes_are_rejected_or_read(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(contents) = check(&bytes) {
            let mut batch = StructuredBatch::new();
            prop_assert!(Samples::new(bytes, true).put(&mut batch, 1).unwrap());
            prop_assert_eq!(batch.len(), contents.samples);
        }
    }
}

/// The bytes are those of the message `WriteRequest` of the specification.
#[test]
fn request_has_sorted_labels_and_times_in_order() {
    let mut points = vec![point("up", ("job", "a"), 1.0, 2), point("up", ("job", "a"), 0.0, 1)];
    points[1].labels.insert(0, ("Z".to_owned(), String::new()));
    let expected = [
        &b"\x0a\x34"[..],
        b"\x0a\x0e\x0a\x08__name__\x12\x02up",
        b"\x0a\x08\x0a\x03job\x12\x01a",
        b"\x12\x0b\x09\0\0\0\0\0\0\0\0\x10\x01",
        b"\x12\x0b\x09\0\0\0\0\0\0\xf0\x3f\x10\x02",
    ];
    assert_eq!(request(&points), expected.concat());
}

#[test]
fn event_has_the_form_of_the_codec() {
    let points = [
        point("up", ("job", "a"), f64::from_bits(STALE), 1_700_000_000_000),
        point("up", ("job", "a"), f64::NEG_INFINITY, 1_700_000_000_001),
    ];
    assert_eq!(
        events(request(&points)),
        [
            r#"{"name":"up","type":"untyped","labels":{"job":"a"},"value":"StaleNaN","timestamp":1700000000000000000}"#,
            r#"{"name":"up","type":"untyped","labels":{"job":"a"},"value":"-Inf","timestamp":1700000000001000000}"#,
        ]
    );
}

#[test]
fn full_batch_leaves_samples_for_the_next_one() {
    let series = |n: i64| if n < 5 { "a" } else { "b" };
    let points: Vec<_> = (0..10).map(|n| point(series(n), ("l", "v"), 1.0, n)).collect();
    let (mut samples, mut read) = (Samples::new(request(&points), true), Vec::new());
    for is_last in [false, false, false, true] {
        let mut batch = StructuredBatch::new();
        batch.set_limit(Limit { events: 3, bytes: usize::MAX });
        assert_eq!(samples.put(&mut batch, 1).unwrap(), is_last);
        read.extend(super::values(&batch.into()));
    }
    assert_eq!(read, events(request(&points)));
}

#[test]
fn invalid_series_is_rejected_with_its_position() {
    let field =
        |tag: u8, bytes: &[u8]| [&[tag, u8::try_from(bytes.len()).unwrap()][..], bytes].concat();
    let label = |name: &str, value: &str| {
        let fields = [field(0x0a, name.as_bytes()), field(0x12, value.as_bytes())].concat();
        field(0x0a, &fields)
    };
    let name = label("__name__", "up");
    let cases: [(Vec<u8>, &str); 8] = [
        (label("a", "b"), "expected the label `__name__` in the series at byte 2"),
        (label("__name__", "1up"), "expected one valid name of a metric"),
        ([&name[..], &name].concat(), "expected one valid name of a metric"),
        ([&name[..], &label("a-b", "c")].concat(), "expected the name of a label"),
        (
            [&name[..], &label("a", "1"), &label("a", "2")].concat(),
            "expected labels with different names",
        ),
        ([&name[..], b"\x12\x02\x09\x00"].concat(), "the message ends within a number"),
        ([&name[..], b"\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x08"].concat(), ""),
        ([&name[..], b"\x0a\x04\x0a\x02\xff\xfe"].concat(), "expected UTF-8"),
    ];
    for (series, expected) in cases {
        let request = field(0x0a, &series);
        let error = check(&request).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(" at byte "), "{error}");
    }
}

#[test]
fn histograms_exemplars_and_descriptions_are_counted() {
    let request = [
        &b"\x0a\x14\x0a\x0e\x0a\x08__name__\x12\x02up"[..],
        b"\x1a\x00\x22\x00",
        b"\x1a\x02\x08\x01",
        b"\x2a\x01\x00",
    ]
    .concat();
    let contents = check(&request).unwrap();
    assert_eq!(
        (contents.samples, contents.histograms, contents.exemplars, contents.descriptions),
        (0, 1, 1, 1)
    );
    assert!(!compressed(&request).is_empty());
}
