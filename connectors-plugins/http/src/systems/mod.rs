//! Sinks for systems that speak HTTP. Each system is a [`Protocol`](crate::exchange::Protocol), with a configuration of
//! its own.

pub mod elasticsearch;

pub use self::elasticsearch::Elasticsearch;
pub use crate::exchange::JsonPosts;
