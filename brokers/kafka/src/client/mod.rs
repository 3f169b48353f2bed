//! What both connectors share: how they reach brokers, and what becomes of librdkafka's log and errors.

mod config;
mod errors;
mod memory;
mod properties;
mod token;
mod told;

pub use config::{Mechanism, Sasl, Tls};
pub(crate) use errors::{cannot_start, explain};
pub(crate) use memory::Records;
pub(crate) use properties::Peer;
pub(crate) use token::token;
pub(crate) use told::Told;
