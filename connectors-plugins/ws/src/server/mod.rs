//! The `ws_server` connector: serves WebSockets.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: ws_server
//!     codec: json
//!     config: { listen: '0.0.0.0:8080', path: /events }
//! ```
//!
//! With `tls: { cert_file: cert.pem, key_file: key.pem }` the server accepts `wss://`.
//!
//! Each connection is a stream of the source, and each of its messages is an event. The sink sends
//! each event to all clients, or to the client from which the event was received.

mod accept;
mod config;
mod connections;
mod handshake;
mod sink;
#[cfg(test)]
mod tests;

use std::{net::TcpListener, sync::Arc};

use tremor_pdk::{
    Descriptors, Task,
    net::{self, tls::TlsAcceptor},
    prelude::*,
};

use self::connections::Connections;
pub use self::{
    config::{Config, SendTo},
    sink::Sender,
};
use crate::session::Messages;

/// Serves WebSockets: receives messages from its clients and sends to them.
#[derive(Debug)]
pub struct WsServer {
    config: Arc<Config>,
    context: ComponentContext,
    tls: Option<TlsAcceptor>,
    /// The listening socket. Kept when the runtime reconnects, so that no other process can take
    /// the address.
    listener: Option<TcpListener>,
    connections: Option<Arc<Connections>>,
}

/// Keeps the server accepting clients and reading their messages, until the last half of the
/// connection is dropped. While the runtime waits before it reconnects, nobody pulls messages, so
/// clients have to wait.
struct Accepting {
    connections: Arc<Connections>,
    _task: Task,
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.connections.inbox.abandon();
    }
}

/// The source: returns the messages of all clients.
pub struct Received {
    messages: Messages,
    _accepting: Arc<Accepting>,
}

impl Source for Received {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        self.messages.pull(batch).await
    }
}

impl Component for WsServer {
    const NAME: &str = "ws_server";
    const DESCRIPTION: &str =
        "Serves WebSockets: receives messages of its clients, and sends to them.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let config = config.check()?;
        let tls = config.tls.as_ref().map(|tls| TlsAcceptor::new(tls, &context)).transpose()?;
        let config = Arc::new(config);
        Ok(Self { config, context, tls, listener: None, connections: None })
    }
}

impl Connector for WsServer {
    type Source = Received;
    type Sink = Sender;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Received, Sender>> {
        self.end().await;
        if let Some(tls) = &self.tls {
            tls.load().await?;
        }
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let addresses = self.config.listen.resolve(&self.context).await?;
                let listener = net::listen(&addresses, self.config.reuse_port)?;
                tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
                listener
            }
        };
        let listener = self.listener.insert(listener).try_clone()?;
        let listener = net::TcpListener::new(&Descriptors::new(&self.context)?, listener)?;
        let connections =
            self.connections.insert(Connections::new(&self.context, self.config.clone())?);
        // Create the source before connections are accepted, because messages are discarded while
        // no source exists.
        let messages = wanted.has_source().then(|| Messages::new(connections.inbox.clone()));
        let task = accept::run(connections.clone(), listener, self.tls.clone());
        let task = self.context.spawn("accepts connections", task);
        let accepting = Arc::new(Accepting { connections: connections.clone(), _task: task });
        let received = |messages| Received { messages, _accepting: accepting.clone() };
        Ok(Halves {
            source: messages.map(received),
            sink: wanted.has_sink().then(|| Sender::new(connections.clone(), accepting.clone())),
        })
    }

    async fn close(&mut self) -> Result<()> {
        self.end().await;
        Ok(())
    }
}

impl WsServer {
    /// Closes all connections with a close frame.
    async fn end(&mut self) {
        if let Some(connections) = &self.connections {
            connections.close_all().await;
        }
        self.connections = None;
    }
}

impl Drop for WsServer {
    fn drop(&mut self) {
        if let Some(connections) = &self.connections {
            connections.cut_off_all();
        }
    }
}
