//! Code that the consumer and the producer share: connection settings, and handling of librdkafka's log and
//! errors.

mod config;
mod diagnostics;
mod errors;
mod memory;
mod properties;
mod token;

pub use config::{Mechanism, Sasl, Tls};
pub(crate) use diagnostics::Diagnostics;
pub(crate) use errors::{cannot_start, explain};
pub(crate) use memory::Records;
pub(crate) use properties::Peer;
pub(crate) use token::token;
