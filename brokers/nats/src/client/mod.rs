//! What both connectors share: how servers are reached, and what goes wrong with them.

mod config;
mod connection;
mod errors;
#[cfg(test)]
mod tls_tests;

pub use self::config::{Auth, Tls};
pub(crate) use self::{
    config::Peer,
    connection::{Client, Denied, Trip, WAITING, connect, lost},
    errors::{explain_api, refused_connection},
};
