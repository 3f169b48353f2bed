//! Prometheus' text format as events: the codec `prometheus`, and the preprocessor `prometheus`, which
//! makes a message of every sample.
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
//! Both versions of the format are read and written: [text
//! 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/), and [OpenMetrics
//! 1.0](https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md).
//!
//! # An event is a sample
//!
//! People scrape to filter samples and to send them on, and a sample is what they name in a condition.
//! A codec makes one value of a message, so a preprocessor cuts a scrape into messages, one for each
//! sample, with the `HELP`, `TYPE` and `UNIT` lines of its family before it. It keeps those lines and
//! the line that has begun, and nothing else of a scrape, so a scrape may be of any size. A line that
//! is wrong costs that sample, and no other.
//!
//! Written, such an event has the lines of its family before it, which may not stand there twice in one
//! exposition. So `event: exposition` has an array of samples as an event instead, and writes the
//! samples of a family together.
//!
//! # Why there is a parser here
//!
//! Of the crates for the format, `prometheus-parse` drops what it does not understand, and
//! `openmetrics-parser` builds a tree of all families, with positions that are those of its grammar
//! engine. Neither reads a piece of an exposition, and neither writes into a document. A line of the
//! format is a name, labels and two numbers.

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
