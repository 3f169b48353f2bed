//! Tests of both sides over real sockets, and of requests.

mod receives;
mod requests;
mod sends;
mod stores;

use tremor_pdk::{Batch, EventRef, literal};

use super::{
    encode::Encoder,
    request::{Samples, check},
};
use crate::prometheus::sample::{Labels, Sample};

/// A sample of an event: its name, its labels, its value and its time in ms.
#[derive(Clone, Debug)]
struct Point {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
    timestamp_ms: i64,
}

fn point(name: &str, label: (&str, &str), value: f64, timestamp_ms: i64) -> Point {
    let labels = vec![(label.0.to_owned(), label.1.to_owned())];
    Point { name: name.to_owned(), labels, value, timestamp_ms }
}

/// Returns a batch with an event for each sample.
fn batch(points: &[Point]) -> Batch {
    let mut batch = Batch::new();
    for Point { name, labels, value, timestamp_ms } in points {
        let mut own = tremor_pdk::Object::new();
        for (name, text) in labels {
            own.insert(name.clone(), text.clone());
        }
        let (value, timestamp) = (*value, timestamp_ms * 1_000_000);
        let value = literal!({
            "name": name.clone(), "type": "gauge", "labels": own, "value": value, "timestamp": timestamp
        });
        batch.push(&value).unwrap();
    }
    batch
}

/// Returns the request with the samples of a batch, before compression.
fn request(points: &[Point]) -> Vec<u8> {
    let (batch, mut encoder, mut labels) = (batch(points), Encoder::default(), Labels::default());
    for (position, event) in batch.iter().enumerate() {
        let sample = Sample::read(event.value().unwrap()).unwrap();
        labels.read(&sample).unwrap();
        encoder.add(&sample, &mut labels, 0, position, usize::MAX).unwrap();
    }
    encoder.sort();
    let mut request = Vec::new();
    encoder.write(0..points.len(), &mut request);
    request
}

fn compressed(request: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(request).unwrap()
}

/// Returns the events of a request.
fn events(request: Vec<u8>) -> Vec<String> {
    check(&request).unwrap();
    let mut batch = tremor_pdk::StructuredBatch::new();
    batch.set_limit(tremor_pdk::Limit { events: usize::MAX, bytes: usize::MAX });
    assert!(Samples::new(request, true).put(&mut batch, 1).unwrap());
    values(&batch.into())
}

/// Returns the values of the events of a batch as text.
fn values(batch: &Batch) -> Vec<String> {
    batch.iter().filter_map(EventRef::value).map(|value| value.to_string()).collect()
}
