//! Sockets for connectors, which need neither a thread nor a task for each socket. Enabled by the feature `net`.
//!
//! A server whose clients send byte streams needs only [`Connections`], which is a source:
//!
//! ```
//! use tremor_pdk::{NoSink, net::{self, Address, Connections, Limits}, prelude::*};
//!
//! /// The `config` of the flow file.
//! #[tremor_pdk::config]
//! pub struct Config {
//!     /// The address to listen on.
//!     listen: Address,
//! }
//!
//! pub struct Server {
//!     config: Config,
//!     context: ComponentContext,
//! }
//!
//! impl Component for Server {
//!     const NAME: &str = "server";
//!     type Config = Config;
//!
//!     fn new(config: Config, context: ComponentContext) -> Result<Self> {
//!         Ok(Self { config, context })
//!     }
//! }
//!
//! impl Connector for Server {
//!     type Source = Connections;
//!     type Sink = NoSink;
//!
//!     async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Connections, NoSink>> {
//!         let addresses = self.config.listen.resolve(&self.context).await?;
//!         let listener = net::listen(&addresses, false)?;
//!         Connections::new(&self.context, listener, Limits::default()).map(Halves::source)
//!     }
//! }
//!
//! tremor_pdk::export! { connectors: [Server] }
//! # fn main() {}
//! ```
//!
//! A client uses [`connect`], with [`StreamSource`] and [`StreamSink`] for the two directions of the connection.
//! Protocol libraries can use a [`TcpStream`] or a [`UnixStream`], which implement the traits of [`futures_io`].

mod address;
mod bind;
mod client;
mod connect;
mod connection_memory;
mod connections;
mod drops;
mod link;
mod options;
mod origin;
#[cfg(not(feature = "tls"))]
mod plain;
mod poller;
mod proxy;
mod proxy_protocol;
mod read_size;
mod renewal;
mod reserve;
mod stream;
mod timer;
#[cfg(feature = "tls")]
pub mod tls;
mod udp;
mod unix_datagrams;
mod within;

#[cfg(not(feature = "tls"))]
use self::plain as secure;
#[cfg(feature = "tls")]
use self::tls as secure;

pub use futures_io;

pub use self::{
    address::Address,
    bind::{TcpListener, UnixListener, bind_udp, listen},
    client::{StreamSink, StreamSource},
    connect::{connect, connect_within},
    connection_memory::ConnectionMemory,
    connections::{Connections, Limits, Listener},
    link::Link,
    origin::{peer_origin, server_origin, socket_origin},
    proxy::{Proxy, percent_decode},
    proxy_protocol::{Others, ProxyHeaders, ProxyProtocol},
    stream::{StreamSocket, TcpStream, UnixStream},
    udp::{DatagramSink, DatagramSocket, Datagrams, UdpSocket},
    unix_datagrams::{UnixDatagramSink, UnixDatagrams},
    within::within,
};
