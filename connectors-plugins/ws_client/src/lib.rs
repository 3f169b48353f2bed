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
//! Each message is an event. If the connection is lost, the runtime connects again.

#[cfg(not(target_os = "linux"))]
compile_error!("the ws_client connector waits for sockets as Linux does, with epoll");

mod config;
mod handshake;
// The same as the server's: see there.
#[allow(dead_code, unused_imports, reason = "the server uses the rest of it")]
#[path = "../../ws_server/src/session/mod.rs"]
mod session;
mod sink;
#[cfg(test)]
mod tests;
mod url;

use std::{future::poll_fn, sync::Arc, time::Duration};

use tremor_pdk::{
    Descriptors, Task,
    net::{
        self,
        futures_io::{AsyncRead, AsyncWrite},
        tls::{Tls, TlsConnector},
    },
    prelude::*,
};
use tungstenite::protocol::{Role, WebSocketContext, frame::coding::CloseCode};

pub use self::{
    config::{Auth, Basic, Config},
    session::{Frames, Messages},
    sink::Sender,
};
use self::{
    handshake::Handshake,
    session::{Budget, End, Inbox, Link, Session},
};

/// How long the peer may take to answer the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long the peer may take to answer a close.
const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// The connector.
pub struct WsClient {
    config: Config,
    context: ComponentContext,
    handshake: Handshake,
    tls: Option<TlsConnector>,
    connection: Option<Connection>,
    /// Number of connections so far, which numbers their streams.
    connections: u64,
}

/// A connection, and the task that reads and writes it.
struct Connection {
    link: Arc<Link>,
    _session: Task,
}

impl Component for WsClient {
    const NAME: &str = "ws_client";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
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
                    "`tls` is set, and the `url` starts with `ws://`: write `wss://`",
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
        let address = &self.handshake.url().address;
        let descriptors = Descriptors::new(&self.context)?;
        let stream = net::connect(&self.context, &descriptors, address).await?;
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
    /// Makes a WebSocket of a connection, and its halves.
    async fn begin<S>(&mut self, mut stream: S, wanted: Sides) -> Result<Halves<Messages, Sender>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = net::within(&self.context, HANDSHAKE, self.handshake.shake(&mut stream)).await;
        let rest = shaken.unwrap_or_else(|| {
            let why = format!("no answer to the handshake in {HANDSHAKE:?}");
            Err(Error::connection_refused(why))
        });
        let peer: Arc<str> = self.handshake.url().to_string().into();
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
        // Before the session runs, because messages without a source are discarded.
        let halves = Halves {
            source: wanted.has_source().then(|| Messages::new(inbox.clone())),
            sink: wanted.has_sink().then(|| Sender::new(link.clone(), self.config.frames)),
        };
        let (shared, ended) = (inbox.clone(), link.clone());
        let session = async move {
            let end = session.run().await;
            shared.end(ended.stream, &ended.peer, end.is_complete());
            shared.fail(Error::connection_lost(format!("`{}`: {end}", ended.peer)));
            // A sink without a source would hear of it when it has something to send.
            if !matches!(end, End::Left(_)) && !shared.has_source() {
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
        // The configuration may have secrets.
        f.debug_struct("WsClient").field("url", self.handshake.url()).finish_non_exhaustive()
    }
}

tremor_pdk::export! { connectors: [WsClient] }
