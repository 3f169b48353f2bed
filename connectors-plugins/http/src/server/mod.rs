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
mod metadata;
mod otlp;
mod peer;
mod permit;
mod queue;
mod request;
mod request_state;
mod source;
#[cfg(test)]
mod tests;
mod ticket;

use std::{
    net,
    sync::{Arc, Weak},
};

use tremor_pdk::{
    Descriptors, NoSink,
    net::{TcpListener, listen},
    prelude::*,
};

pub use self::{
    access::Auth,
    config::{Config, Respond},
    source::Requests,
};
use self::{config::Settings, connections::Server, queue::Closed};

/// Receives requests over HTTP.
pub struct HttpServer {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// The listening socket. Kept when the runtime reconnects, so that no other process can take
    /// the address.
    listener: Option<net::TcpListener>,
    /// State of the current source's connections.
    server: Weak<Server>,
    is_paused: bool,
}

impl Component for HttpServer {
    const NAME: &str = "http_server";
    const DESCRIPTION: &str =
        "Receives requests over HTTP, and answers once their events are queued or delivered.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let settings = Arc::new(Settings::new(config, &context)?);
        Ok(Self { settings, context, listener: None, server: Weak::new(), is_paused: false })
    }
}

impl HttpServer {
    fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        if let Some(server) = self.server.upgrade()
            && server.queue.closed() != Some(Closed::Draining)
        {
            server.set_closed(is_paused.then_some(Closed::Paused));
        }
    }
}

impl Connector for HttpServer {
    type Source = Requests;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Requests, NoSink>> {
        if let Some(tls) = &self.settings.tls {
            tls.load().await?;
        }
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let config = &self.settings.config;
                let addresses = config.listen.resolve(&self.context).await?;
                let listener = listen(&addresses, config.reuse_port)?;
                tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
                listener
            }
        };
        let listener = self.listener.insert(listener).try_clone()?;
        let listener = TcpListener::new(&Descriptors::new(&self.context)?, listener)?;
        let server = Arc::new(Server::new(&self.context, self.settings.clone())?);
        self.server = Arc::downgrade(&server);
        self.set_paused(self.is_paused);
        let accepts =
            self.context.spawn("accepts connections", accept::accept(server.clone(), listener));
        let keeps_time = self.context.spawn("keeps time", server.clone().keep_time());
        Ok(Halves::source(Requests::new(server, accepts, keeps_time)))
    }

    async fn on_pause(&mut self) -> Result<()> {
        self.set_paused(true);
        Ok(())
    }

    async fn on_resume(&mut self) -> Result<()> {
        self.set_paused(false);
        Ok(())
    }
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer")
            .field("listen", &self.settings.config.listen)
            .finish_non_exhaustive()
    }
}
