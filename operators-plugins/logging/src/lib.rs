//! The `logging` operator: says of every log event which class it belongs to, how many of that
//! class may pass in a second, and by which field they are counted.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: logging
//!       - type: bucket
//! ```
//!
//! The answer is the event's metadata: `class` (text), `rate` (events in a second) and
//! `dimensions`, the text of the field that is counted by, or `null` where the event has no such
//! text. Whatever else was in the metadata stays.
//!
//! It is an example of logic in Rust that a VRL program would do as well: the same in that
//! language is `bench/flows/logging.vrl`. No event is an error to it: a field of another type than
//! expected counts as missing. Binary data in UTF-8 is text, as it is in VRL.

mod classify;
mod operator;

pub use self::{
    classify::{Classification, classify},
    operator::Logging,
};

tremor_pdk::export! { operators: [Logging] }
