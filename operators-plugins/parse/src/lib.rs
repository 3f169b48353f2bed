//! The operator `parse`: parses the text of a field into fields.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: parse
//!         config: { format: nginx_combined, field: message }
//! ```
//!
//! `docs/guide/parse.md` describes the formats. The results are written directly into the document
//! of the batch. An event whose text does not match leaves by `err`, or passes unchanged with the
//! error in its metadata.

mod config;
mod field;
mod format;
mod operator;
mod stop;
#[cfg(test)]
mod testing;
mod types;

pub use self::{
    config::{Config, Format, OnError, TimeOutput},
    operator::Parse,
    types::Type,
};

tremor_pdk::export! { operators: [Parse] }
