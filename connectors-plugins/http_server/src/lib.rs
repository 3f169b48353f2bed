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
//! Each connection is a task of the host's. The body of a request is one message, which preprocessors may
//! cut, and waits until a pull takes it into the flow. If there is no room for more, further bodies are not
//! read, and their peers wait.

#[cfg(not(target_os = "linux"))]
compile_error!("the http_server connector waits for sockets as Linux does, with epoll");

mod accept;
mod access;
mod answer;
mod config;
mod connection;
mod content;
mod counts;
mod encoding;
mod facts;
mod fate;
mod io;
mod otlp;
mod payload;
mod peer;
mod place;
mod request;
mod room;
mod server;
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

pub use crate::{
    access::{Auth, Basic},
    config::{Config, Preset, Respond},
    otlp::Signal,
    source::Requests,
};
use crate::{config::Settings, room::Closed, server::Server};

/// The connector.
pub struct HttpServer {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// The socket is kept when the runtime reconnects, so that no other process takes the address.
    listener: Option<net::TcpListener>,
    /// That of the source.
    server: Weak<Server>,
    is_paused: bool,
}

impl Component for HttpServer {
    const NAME: &str = "http_server";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
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
            && server.room.closed() != Some(Closed::Draining)
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
        let server = Arc::new(Server::new(&self.context, self.settings.clone()));
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

tremor_pdk::export! { connectors: [HttpServer] }
