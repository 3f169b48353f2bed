//! The codec `otlp`: export requests of the OpenTelemetry protocol for logs, metrics and traces, in protobuf and in
//! JSON.
//!
//! An event is a whole request. Requests in both encodings become values in [OTLP's JSON
//! mapping](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding):
//!
//! ```json
//! {"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
//!  "scopeLogs":[{"scope":{"name":"cart"},"logRecords":[{"timeUnixNano":"1544712660300000000",
//!  "severityNumber":9,"body":{"stringValue":"paid"},"traceId":"5b8efff798038103d269b633813fc60c"}]}]}]}
//! ```
//!
//! Keys are in lowerCamelCase, ids are hexadecimal, 64-bit integers are text, enumerations are
//! numbers, and default values are omitted.
//!
//! # Implementation
//!
//! The schema is a table (`schema.rs`), generated from the descriptors of OpenTelemetry's own package. Two functions
//! traverse a message according to the table: one reads protobuf into a document (`read.rs`), the other writes protobuf
//! from a value (`write.rs`). JSON is converted to protobuf before it is decoded, and protobuf to JSON after it was
//! encoded, so that a request becomes the same event in both encodings.
//!
//! The crate `opentelemetry-proto` provides the messages as Rust types. Its JSON support (feature
//! `with-serde`) loses data without an error: `asInt` as text, which the specification requires, is
//! ignored. Without that feature, its types would have to be mapped to values field by field, in
//! both directions. The table makes this mapping unnecessary. The functions of `prost` for single
//! fields are hidden from its documentation.

mod codec;
mod message;
mod read;
mod scalar;
mod schema;
mod signal;
#[cfg(test)]
mod tests;
mod wire;
mod write;

pub use crate::codec::Otlp;

tremor_pdk::export! {
    codecs: [Otlp],
}
