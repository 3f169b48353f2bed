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
    context: Context,
    tls: Option<TlsAcceptor>,
    /// The socket is kept when the runtime reconnects, so that no other process takes the address.
    listener: Option<TcpListener>,
    hub: Option<Arc<Hub>>,
    accepting: Option<Task>,
}

impl Component for WsServer {
    const NAME: &str = "ws_server";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        config.check()?;
        let tls = config.tls.as_ref().map(|tls| TlsAcceptor::new(tls, &context)).transpose()?;
        let config = Arc::new(config);
        Ok(Self { config, context, tls, listener: None, hub: None, accepting: None })
    }
}

impl Connector for WsServer {
    type Source = Messages;
    type Sink = Sender;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Messages, Sender>> {
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
        let halves = Halves {
            source: wanted.has_source().then(|| Messages::new(hub.inbox.clone())),
            sink: wanted.has_sink().then(|| Sender::new(hub.clone())),
        };
        let accepting = accept::run(hub.clone(), listener, self.tls.clone());
        self.accepting = Some(self.context.spawn("accepts connections", accepting));
        Ok(halves)
    }

    async fn close(&mut self) -> Result<()> {
        self.end().await;
        Ok(())
    }
}

impl WsServer {
    /// Closes all connections, with a word to each peer.
    async fn end(&mut self) {
        self.accepting = None;
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
