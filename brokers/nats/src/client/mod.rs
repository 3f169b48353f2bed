//! Code that the consumer and the producer share: connection settings, connections and their errors.

mod config;
mod connection;
mod errors;
#[cfg(test)]
mod tls_tests;

pub use self::config::{Auth, Tls};
pub(crate) use self::{
    config::Peer,
    connection::{Client, Denied, RoundTrip, SUBSCRIPTION_CAPACITY, connect, lost},
    errors::{explain_api, refused_connection},
};
