//! The `http_server` connector: receives requests over HTTP.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: http_server
//!     preprocessors: [lines]
//!     codec: json
//!     config: { listen: '0.0.0.0:8080', path: /logs, respond: delivered }
//! ```
//!
//! Each connection is a task of the host. The body of a request is one message, which preprocessors
//! may split. A request waits until a pull takes it into the flow. While the waiting requests reach
//! `max_waiting_bytes`, no further bodies are read, and the peers of unread requests wait.

mod accept;
mod access;
mod answer;
mod config;
mod connection;
mod connections;
mod content;
mod counts;
mod encoding;
mod listening;
mod metadata;
mod otlp;
mod peer;
mod permit;
mod protocol;
mod queue;
mod request;
mod request_state;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod ticket;

use tremor_pdk::{NoSink, Raw, prelude::*};

pub use self::{
    access::Auth,
    config::{Config, Respond},
    source::Requests,
};
pub(crate) use self::{
    answer::Answer,
    content::Content,
    listening::{Listening, Serving},
    protocol::{Events, Page, Protocol, Service},
};

/// Receives requests over HTTP.
pub struct HttpServer(Listening);

impl Component for HttpServer {
    const NAME: &str = "http_server";
    const DESCRIPTION: &str =
        "Receives requests over HTTP, and answers once their events are queued or delivered.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self(Listening::new(config, Service::Messages, context)?))
    }
}

impl Connector for HttpServer {
    type Source = Requests<Raw>;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Requests<Raw>, NoSink>> {
        Ok(Halves::source(Requests::new(self.0.serve().await?)))
    }

    async fn on_pause(&mut self) -> Result<()> {
        self.0.set_paused(true);
        Ok(())
    }

    async fn on_resume(&mut self) -> Result<()> {
        self.0.set_paused(false);
        Ok(())
    }
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HttpServer").field(&self.0).finish()
    }
}
