//! The `ws_client` connector: connects to a WebSocket.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: ws_client
//!     codec: json
//!     config: { url: 'wss://stream.example.com/events' }
//! ```
//!
//! Each message is an event. If the connection is lost, the runtime reconnects.

mod config;
mod handshake;
mod sink;
#[cfg(test)]
mod tests;
mod url;

use std::{future::poll_fn, sync::Arc, time::Duration};

use tremor_pdk::{
    Descriptors, Task,
    net::{
        self, Proxy,
        futures_io::{AsyncRead, AsyncWrite},
        tls::{Tls, TlsConnector},
    },
    prelude::*,
};
use tungstenite::protocol::{Role, WebSocketContext, frame::coding::CloseCode};

use self::handshake::Handshake;
pub use self::{
    config::{Auth, Basic, Config},
    sink::Sender,
};
use crate::session::{Budget, End, Inbox, Link, Messages, Session};

/// Maximum time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Maximum time for the peer to answer a close frame.
const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// Connects to a WebSocket: receives messages and sends them.
pub struct WsClient {
    config: Config,
    context: ComponentContext,
    handshake: Handshake,
    tls: Option<TlsConnector>,
    connection: Option<Connection>,
    /// Number of connections that were made, which is the stream number of the current connection.
    connections: u64,
}

/// A connection, and the task that reads from it and writes to it.
struct Connection {
    link: Arc<Link>,
    _session: Task,
}

impl Component for WsClient {
    const NAME: &str = "ws_client";
    const DESCRIPTION: &str = "Connects to a WebSocket: receives its messages, and sends to it.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let handshake = Handshake::new(&config)?;
        let url = handshake.url();
        let tls = match (&config.tls, url.is_secure) {
            (None, false) => None,
            (tls, true) => {
                let tls = tls.clone().unwrap_or_else(Tls::default);
                Some(TlsConnector::new(&tls, &context, &url.address)?)
            }
            (Some(_), false) => {
                return Err(Error::configuration(
                    "invalid `url`: expected `wss://`, because `tls` is set",
                ));
            }
        };
        Ok(Self { config, context, handshake, tls, connection: None, connections: 0 })
    }
}

impl Connector for WsClient {
    type Source = Messages;
    type Sink = Sender;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Messages, Sender>> {
        self.connection = None;
        let url = self.handshake.url();
        let descriptors = Descriptors::new(&self.context)?;
        let proxy = Proxy::from_environment(&self.context, &url.address, url.is_secure)?;
        let stream = match &proxy {
            None => net::connect(&self.context, &descriptors, &url.address).await?,
            Some(proxy) => {
                tremor_pdk::info!(self.context, "connects through {proxy}");
                let connected = proxy.connect(&self.context, &descriptors, &url.address).await;
                let failed = format_args!("cannot connect to `{url}` through {proxy}");
                connected.map_err(|error| error.context(failed))?
            }
        };
        match &self.tls {
            None => self.begin(stream, wanted).await,
            Some(tls) => {
                let stream = tls.connect(stream).await?;
                self.begin(stream, wanted).await
            }
        }
    }

    async fn close(&mut self) -> Result<()> {
        if let Some(Connection { link, .. }) = &self.connection {
            link.close(CloseCode::Normal, "the flow has ended");
            let ended = poll_fn(|context| link.poll_end(context));
            let _ = net::within(&self.context, CLOSES_WITHIN, ended).await;
        }
        Ok(())
    }
}

impl WsClient {
    /// Performs the handshake on a connection, and creates the halves.
    async fn begin<S>(&mut self, mut stream: S, wanted: Sides) -> Result<Halves<Messages, Sender>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let performed =
            net::within(&self.context, HANDSHAKE, self.handshake.perform(&mut stream)).await;
        let rest = performed.unwrap_or_else(|| {
            let why = format!("the peer did not answer the handshake within {HANDSHAKE:?}");
            Err(Error::connection_refused(why))
        });
        let url = self.handshake.url();
        let peer = Arc::new(net::server_origin(&url.to_string(), &url.address));
        let rest =
            rest.map_err(|error| error.context(format_args!("cannot connect to `{peer}`")))?;
        let limits = self.config.limits();
        let socket =
            WebSocketContext::from_partially_read(rest, Role::Client, Some(limits.config()));
        let inbox = Arc::<Inbox>::default();
        self.connections += 1;
        let budget = Budget::new(usize::MAX, None);
        let link = Arc::new(Link::new(self.connections, peer, &budget, false));
        let host: Host = self.context.clone().into();
        let session = Session::new(&host, stream, socket, link.clone(), inbox.clone(), &limits);
        // Create the halves before the session runs, because the session discards messages while no
        // source exists.
        let halves = Halves {
            source: wanted.has_source().then(|| Messages::new(inbox.clone())),
            sink: wanted.has_sink().then(|| Sender::new(link.clone(), self.config.frames)),
        };
        let (shared, ended) = (inbox.clone(), link.clone());
        let session = async move {
            let end = session.run().await;
            shared.end(ended.stream, &ended.peer, end.is_complete());
            shared.fail(Error::connection_lost(format!("`{}`: {end}", ended.peer)));
            // Report the end of the connection now, because without a source only the next delivery
            // would detect it.
            if !matches!(end, End::ClosedLocally(_)) && !shared.has_source() {
                tremor_pdk::warn!(host, "`{}`: {end}", ended.peer);
                host.connection_lost();
            }
        };
        let session = self.context.spawn("a WebSocket", session);
        self.connection = Some(Connection { link, _session: session });
        Ok(halves)
    }
}

impl std::fmt::Debug for WsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration is not shown, because it may contain secrets.
        f.debug_struct("WsClient").field("url", self.handshake.url()).finish_non_exhaustive()
    }
}
