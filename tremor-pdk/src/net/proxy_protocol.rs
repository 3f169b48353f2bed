//! The PROXY protocol, with which load balancers pass on the address of the client.

mod header;

use std::{fmt, io, net::SocketAddr, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;

pub(super) use self::header::Reader;
use super::{stream::StreamSocket, within::within};
use crate::{Counter, Error, Host, LimitedLog, Network, Result};

/// Maximum time in which a connection has to send its header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval in which at most one rejected connection is logged as a warning.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Settings of the PROXY protocol, versions 1 and 2, for a server behind a load balancer: the type of the configuration
/// key `proxy_protocol`. The balancer sends a header with the address of the client before the data of each connection,
/// also before a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyProtocol {
    /// Addresses and networks of the balancers. Each of their connections has to begin with a header.
    #[schemars(length(min = 1))]
    pub trusted: Vec<Network>,
    /// Handling of connections from all other addresses. Their headers are never believed.
    #[serde(default)]
    pub others: Others,
}

/// Handling of connections that do not come from a trusted balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// They are closed.
    #[default]
    Reject,
    /// They are served with the address of the connection. A header is data, as if the key was not set.
    Direct,
}

impl ProxyProtocol {
    /// Checks that a balancer is trusted.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if `trusted` is empty.
    pub fn check(&self) -> Result<()> {
        if self.trusted.is_empty() {
            return Err(Error::configuration(
                "invalid `proxy_protocol.trusted`: expected at least one address or network of a load balancer, such \
                 as `10.0.0.0/8`; it is empty",
            ));
        }
        Ok(())
    }
}

/// The reader of the headers of a server. Clones share the metrics.
///
/// [`Connections`](super::Connections) reads headers itself, with
/// [`with_proxy_protocol`](super::Connections::with_proxy_protocol). Other servers call [`ProxyHeaders::client`] for
/// each connection that they have accepted, before they read from it.
#[derive(Clone)]
pub struct ProxyHeaders {
    host: Host,
    /// Trusted peers, and the handling of others. `None` if each peer is trusted.
    from: Option<ProxyProtocol>,
    failed: Counter,
    log: LimitedLog,
}

/// Handling of a connection, according to the address of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The connection has to begin with a header.
    Header,
    /// The connection has no header.
    Direct,
    /// The connection is closed.
    Rejected,
}

impl ProxyHeaders {
    /// Creates a reader of headers from the networks that `config` trusts.
    ///
    /// # Errors
    /// Returns the errors of [`ProxyProtocol::check`].
    pub fn new(host: &Host, config: &ProxyProtocol) -> Result<Self> {
        config.check()?;
        Ok(Self::from(host, Some(config.clone())))
    }

    /// Creates a reader that requires and believes the header of each connection. Use this only if nobody but the
    /// balancer can connect, for example because the permissions of a Unix domain socket ensure that.
    pub fn of_all(host: &Host) -> Self {
        Self::from(host, None)
    }

    fn from(host: &Host, from: Option<ProxyProtocol>) -> Self {
        Self {
            from,
            failed: host.counter(
                "proxy_headers_failed",
                "Connections that were closed because they had no valid header of the PROXY protocol from a trusted \
                 address.",
            ),
            log: host.limited_log(1, LOGGED_EVERY),
            host: host.clone(),
        }
    }

    /// Reads the header of a connection from `peer`, within ten seconds. Returns the address of the client, or that of
    /// the peer if the connection has no header or the header has no address. Returns `None` if the connection has to
    /// be closed, which is logged and counted.
    ///
    /// The data after the header stays in the socket.
    pub async fn client(&self, stream: &impl StreamSocket, peer: SocketAddr) -> Option<SocketAddr> {
        match self.admit(Some(peer)) {
            Admission::Direct => return Some(peer),
            Admission::Rejected => {
                self.untrusted(&peer);
                return None;
            }
            Admission::Header => {}
        }
        let mut reader = Reader::default();
        let header = stream.registered().read_with(|socket| reader.read(socket));
        let read = within(&self.host, HEADER_TIMEOUT, header).await;
        match read.unwrap_or_else(|| Err(timed_out())) {
            Ok(client) => Some(client.unwrap_or(peer)),
            Err(error) => {
                self.failed(&peer, reader.has_begun(), &error);
                None
            }
        }
    }

    /// Returns the handling of a connection. `peer` is `None` for a peer without an IP address.
    pub(super) fn admit(&self, peer: Option<SocketAddr>) -> Admission {
        let Some(from) = &self.from else { return Admission::Header };
        let is_trusted = |network: &Network| peer.is_some_and(|peer| network.contains(peer.ip()));
        if from.trusted.iter().any(is_trusted) {
            return Admission::Header;
        }
        match from.others {
            Others::Reject => Admission::Rejected,
            Others::Direct => Admission::Direct,
        }
    }

    /// Records that a connection was closed because its peer is not trusted.
    pub(super) fn untrusted(&self, peer: &dyn fmt::Display) {
        self.failed.add(1);
        warn!(
            self.log,
            "closed the connection of {peer}: it is not in `proxy_protocol.trusted`; add it if it is a load balancer, \
             or serve it with `others: direct`"
        );
    }

    /// Records that a connection was closed because its header could not be read. `has_begun` is `true` if a byte of
    /// the header was received.
    pub(super) fn failed(&self, peer: &dyn fmt::Display, has_begun: bool, error: &io::Error) {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        // A balancer checks the server by connecting and closing at once, every few seconds.
        if !has_begun && matches!(error.kind(), UnexpectedEof | ConnectionReset) {
            debug!(self.host, "{peer} closed its connection without data");
            return;
        }
        self.failed.add(1);
        warn!(
            self.log,
            "closed the connection of {peer}: {error}; let the load balancer send a header, such as with \
             `send-proxy-v2` of HAProxy, or remove `proxy_protocol`"
        );
    }
}

/// Returns the error for a connection that did not send its header in time.
pub(super) fn timed_out() -> io::Error {
    let message = "it sent no whole header of the PROXY protocol within ten seconds";
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl fmt::Debug for ProxyHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyHeaders").field("from", &self.from).finish_non_exhaustive()
    }
}
