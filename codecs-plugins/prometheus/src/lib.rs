//! The Prometheus text format: the codec `prometheus`, and the preprocessor `prometheus`, which splits an exposition
//! into a message for each sample.
//!
//! ```text
//! # HELP http_requests_total The requests that were answered.
//! # TYPE http_requests_total counter
//! http_requests_total{method="post",code="200"} 1027 1395066363000
//! ```
//! ```json
//! {"name":"http_requests_total","type":"counter","help":"The requests that were answered.",
//!  "labels":{"method":"post","code":"200"},"value":1027.0,"timestamp":1395066363000000000}
//! ```
//!
//! Both versions of the format are supported: [text
//! 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/), and [OpenMetrics
//! 1.0](https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md).
//!
//! # An event is a sample
//!
//! Flows filter and forward single samples. A codec decodes a message to one value, so the preprocessor splits an
//! exposition into messages, one for each sample. Each message begins with the `HELP`, `TYPE` and `UNIT` lines of the
//! sample's family. The preprocessor buffers only these lines and the incomplete line, so an exposition may have any
//! size. An invalid line affects only its own sample.
//!
//! By default, the codec writes the lines of the family before each sample. A valid exposition contains these lines
//! only once for each family. To write a valid exposition, set `event: exposition`: an event is then an array of
//! samples, and the samples of a family are written together.
//!
//! # Reasons for a separate parser
//!
//! The crate `prometheus-parse` drops input that it does not understand. The crate
//! `openmetrics-parser` builds a tree of all families with their positions in the source text.
//! Neither crate can read a part of an exposition or write directly into a document. A line of the
//! format consists only of a name, labels and two numbers.

mod codec;
mod config;
mod decode;
mod encode;
mod family;
mod numbers;
mod parser;
mod split;
#[cfg(test)]
mod tests;

pub use crate::{codec::Prometheus, config::Config, split::Split};

tremor_pdk::export! {
    codecs: [Prometheus],
    preprocessors: [Split],
}
