//! The operator `lookup`: adds fields of a table to events.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: lookup
//!         config: { file: teams.csv, key: host, into: owner }
//! ```
//!
//! `docs/guide/lookup.md` describes the keys. The table is read from a file when the flow starts, and again on another
//! thread when the file has changed. All instances of the operator with the same table share it.

mod config;
mod data;
mod load;
mod maxmind;
mod operator;
mod record;
mod shared;
mod table;

pub use self::{
    config::{By, Config, Format, Missing},
    operator::Lookup,
};

tremor_pdk::export! { operators: [Lookup] }
