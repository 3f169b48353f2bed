//! Sinks for systems that speak HTTP. Each system is a [`Protocol`](crate::exchange::Protocol), with a configuration of
//! its own.

pub mod elasticsearch;
pub mod loki;
mod parts;

pub use self::{elasticsearch::Elasticsearch, loki::Loki};
pub use crate::exchange::JsonPosts;
