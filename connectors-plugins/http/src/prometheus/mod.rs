//! Connectors for metrics of Prometheus. Their events are samples in the form of the codec `prometheus`.

pub mod exporter;
mod family;
mod labels;
mod number;
pub mod remote_write;
mod sample;
