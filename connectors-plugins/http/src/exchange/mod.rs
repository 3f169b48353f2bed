//! Requests and their responses, for all connectors that send over HTTP.
//!
//! An [`Endpoint`] is the server with what all requests to it have in common, and a [`Pool`] has the connections to it.
//! [`Posts`] is the sink: it divides deliveries into requests, judges statuses, and divides requests that the peer
//! refuses. A [`Protocol`] determines how events become bodies and what responses mean.

pub(crate) mod answer;
mod asking;
mod compression;
pub(crate) mod config;
mod connection;
mod endpoint;
mod pool;
mod protocol;
mod question;
mod secrets;
mod sink;
mod target;
mod text;
mod url;

pub use self::sink::Posts;
pub(crate) use self::{
    compression::{STORED_HEAD, put_stored_head},
    config::sink_config,
    connection::Answer,
    endpoint::{Endpoint, Keys, header_value},
    pool::Pool,
    protocol::{
        Caches, Common, Item, Items, Line, Part, Protocol, Response, Verdict, is_by_content,
    },
    question::{Channel, Channels, Question},
    secrets::Secrets,
    sink::JsonPosts,
    target::{Target, Targets},
    text::{Escaping, MOST_TEXT, Text, escape_json, percent_encode, push_json},
    url::Url,
};
