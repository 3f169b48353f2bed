//! The operator `logging`: classifies each log event. It determines the class of the event, the maximum rate of that
//! class, and the field by which events of the class are counted separately.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: logging
//!       - type: bucket
//! ```
//!
//! The result is stored in the metadata of the event: `class` (text), `rate` (events per second),
//! and `dimensions` (the text of the field by which events are counted, or `null` if the event has
//! no such text). Other metadata is unchanged.
//!
//! The operator is an example of logic that can be written in Rust or in VRL:
//! `bench/flows/logging.vrl` contains the same logic in VRL. The operator rejects no decoded event:
//! a field of an unexpected type counts as missing. Binary data that is UTF-8 counts as text, as in
//! VRL.

mod classify;
mod operator;

pub use self::{
    classify::{Classification, classify},
    operator::Logging,
};

tremor_pdk::export! { operators: [Logging] }
