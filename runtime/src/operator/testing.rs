//! Helpers for the tests of operators.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_pdk::{Batch, Operator, Output, Value};

use crate::components;

/// Creates a batch with these payloads. All events have the time 0.
pub(super) fn batch<T: Serialize>(events: &[T]) -> Batch {
    let mut batch = Batch::new();
    for event in events {
        batch.push(event).unwrap();
    }
    batch
}

/// Creates a batch with these payloads, each with its time in ns.
pub(super) fn timed<T: Serialize>(events: &[(u64, T)]) -> Batch {
    let mut batch = Batch::new();
    for (time, event) in events {
        batch.push(event).unwrap();
        batch.events_mut().last_mut().unwrap().ingest_ns = *time;
    }
    batch
}

/// Creates a batch of events with these times and metadata. The payload of each event is its position.
pub(super) fn with_metadata(events: &[(u64, Value<'static>)]) -> Batch {
    let mut batch = Batch::new();
    for (position, (time, metadata)) in events.iter().enumerate() {
        batch.push(&position).unwrap();
        batch.set_metadata(batch.len() - 1, metadata.clone());
        batch.events_mut().last_mut().unwrap().ingest_ns = *time;
    }
    batch
}

/// Results of a call. Payloads are JSON texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) out: Vec<String>,
    pub(super) ports: BTreeMap<String, Vec<String>>,
    /// Errors of the events that were rejected.
    pub(super) rejected: Vec<String>,
    pub(super) discarded: usize,
    pub(super) merged: usize,
    /// Events that the operator buffers after the call.
    pub(super) buffered: usize,
}

impl Ran {
    pub(super) fn port(&self, name: &str) -> &[String] {
        self.ports.get(name).map_or(&[], Vec::as_slice)
    }
}

/// An operator with its output, used in the same way as in a pipeline.
pub(super) struct Bench {
    pub(super) operator: Box<dyn Operator>,
    ports: Vec<String>,
    output: Output,
    buffered: usize,
}

impl Bench {
    #[expect(clippy::needless_pass_by_value, reason = "written in place")]
    pub(super) fn new(name: &str, config: Json) -> Self {
        let operator = components::operator(name, &config).unwrap();
        Self { ports: operator.ports(), operator, output: Output::new(), buffered: 0 }
    }

    pub(super) fn process(&mut self, mut batch: Batch) -> Ran {
        let came = batch.len();
        self.output.begin(1);
        self.operator.process(&mut batch, &mut self.output).unwrap();
        self.ran(came, &batch)
    }

    pub(super) fn on_time(&mut self, now: u64) -> Ran {
        self.operator.on_time(now, &mut self.output).unwrap();
        self.ran(0, &Batch::new())
    }

    pub(super) fn flush(&mut self) -> Ran {
        self.operator.flush(&mut self.output).unwrap();
        self.ran(0, &Batch::new())
    }

    /// Collects the results of a call that received `came` events.
    fn ran(&mut self, came: usize, batch: &Batch) -> Ran {
        batch.validate().unwrap();
        assert!(self.output.failed().is_empty());
        let mut count = batch.len();
        let (mut out, mut ports) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for sent in self.output.take_ports() {
            count += sent.batch.len();
            match self.ports.get(usize::from(sent.port)) {
                Some(port) => ports.entry(port.clone()).or_default().extend(texts(&sent.batch)),
                None => {
                    assert_eq!(sent.port, Output::OUT);
                    out.extend(texts(&sent.batch));
                }
            }
        }
        out.extend(texts(batch));
        let rejected = self.output.take_rejected();
        let (discarded, merged) = (self.output.take_discarded(), self.output.take_merged());
        let absorbed = usize::try_from(self.output.take_absorbed()).unwrap();
        let released: u64 = self.output.take_released().map(|share| share.events).sum();
        let released = usize::try_from(released).unwrap();
        let became = count + rejected.len() + discarded + merged + absorbed;
        let had = came + released + self.output.take_created();
        assert_eq!(had, became, "the operator lost or invented no event");
        self.buffered = self.buffered + absorbed - released;
        Ran {
            out,
            ports,
            rejected: rejected.iter().map(|rejected| rejected.error.to_string()).collect(),
            discarded,
            merged,
            buffered: self.buffered,
        }
    }
}

fn texts(batch: &Batch) -> Vec<String> {
    let text = |event| batch.value(event).map_or_else(String::new, |value| value.to_string());
    batch.events().iter().map(text).collect()
}

/// Returns the error of creating an operator with an invalid configuration.
pub(super) fn creation_error(name: &str, config: &Json) -> String {
    components::operator(name, config).err().expect("a bad configuration").to_string()
}
