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
//! With `tls: { cert_file: cert.pem, key_file: key.pem }` it is one for `wss://`.
//!
//! Each connection is a stream of the source, and each of its messages an event. The sink sends to all of
//! them, or to the one that an event came from.

#[cfg(not(target_os = "linux"))]
compile_error!("the ws_server connector waits for many sockets, as Linux does with epoll");

mod accept;
mod config;
mod handshake;
mod hub;
#[allow(dead_code, reason = "the client uses the rest of it")]
mod session;
mod sink;
#[cfg(test)]
mod tests;

use std::{net::TcpListener, sync::Arc};

use tremor_pdk::{
    Descriptors, Task,
    net::{self, tls::TlsAcceptor},
    prelude::*,
};

use self::hub::Hub;
pub use self::{
    config::{Config, SendTo},
    session::{Frames, Messages},
    sink::Sender,
};

/// The connector.
#[derive(Debug)]
pub struct WsServer {
    config: Arc<Config>,
    context: ComponentContext,
    tls: Option<TlsAcceptor>,
    /// The socket is kept when the runtime reconnects, so that no other process takes the address.
    listener: Option<TcpListener>,
    hub: Option<Arc<Hub>>,
}

/// Accepts clients and reads their messages for as long as a half of the connection exists. Otherwise clients would send
/// messages that nobody pulls while the runtime waits before it reconnects.
struct Accepting {
    hub: Arc<Hub>,
    _task: Task,
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.hub.inbox.abandon();
    }
}

/// The source: messages of all clients.
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
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        config.check()?;
        let tls = config.tls.as_ref().map(|tls| TlsAcceptor::new(tls, &context)).transpose()?;
        let config = Arc::new(config);
        Ok(Self { config, context, tls, listener: None, hub: None })
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
        let hub = self.hub.insert(Hub::new(&self.context, self.config.clone()));
        // Before connections are accepted, because messages without a source are discarded.
        let messages = wanted.has_source().then(|| Messages::new(hub.inbox.clone()));
        let task = accept::run(hub.clone(), listener, self.tls.clone());
        let task = self.context.spawn("accepts connections", task);
        let accepting = Arc::new(Accepting { hub: hub.clone(), _task: task });
        let received = |messages| Received { messages, _accepting: accepting.clone() };
        Ok(Halves {
            source: messages.map(received),
            sink: wanted.has_sink().then(|| Sender::new(hub.clone(), accepting.clone())),
        })
    }

    async fn close(&mut self) -> Result<()> {
        self.end().await;
        Ok(())
    }
}

impl WsServer {
    /// Closes all connections, with a word to each peer.
    async fn end(&mut self) {
        if let Some(hub) = &self.hub {
            hub.close_all().await;
        }
        self.hub = None;
    }
}

impl Drop for WsServer {
    fn drop(&mut self) {
        if let Some(hub) = &self.hub {
            hub.cut_off_all();
        }
    }
}

tremor_pdk::export! { connectors: [WsServer] }
