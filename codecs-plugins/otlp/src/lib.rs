//! The codec `otlp`: export requests of the OpenTelemetry protocol, for logs, metrics and traces, in
//! protobuf and in JSON.
//!
//! An event is a whole request, as [OTLP's JSON
//! mapping](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding) has it, whatever its
//! encoding was:
//!
//! ```json
//! {"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
//!  "scopeLogs":[{"scope":{"name":"cart"},"logRecords":[{"timeUnixNano":"1544712660300000000",
//!  "severityNumber":9,"body":{"stringValue":"paid"},"traceId":"5b8efff798038103d269b633813fc60c"}]}]}]}
//! ```
//!
//! Names are in lowerCamelCase, ids are hexadecimal, integers of 64 bits are text, enumerations are
//! numbers, what has its default is left out.
//!
//! # How it is made
//!
//! The schema is a table (`schema.rs`), made of the descriptors of OpenTelemetry's own package. Two
//! functions walk over a message with it: one reads protobuf into a document (`read.rs`), one writes
//! protobuf of a value (`write.rs`). Protobuf is the normal form: JSON is read and written through it,
//! so that a request becomes the same event in either encoding.
//!
//! The crate `opentelemetry-proto` has the messages as Rust types. Its JSON (feature `with-serde`)
//! loses data without an error: `asInt` as text, which the specification asks for, is read as nothing.
//! Without that feature its types would have to be mapped to values by hand, in both directions, field
//! by field, which is what the table is for. The functions of `prost` for single fields are hidden
//! from its documentation.

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
