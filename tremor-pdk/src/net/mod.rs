//! Sockets on the host's readiness: no thread and no task for a socket, and no blocking. Behind the
//! feature `net`.
//!
//! A server whose clients send byte streams needs no more than [`Connections`], which is a source:
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
//! A client has [`connect`], and [`StreamSource`] and [`StreamSink`] for its two sides. Crates of protocols
//! get a [`TcpStream`] or a [`UnixStream`], which implement the traits of [`futures_io`].

mod address;
mod alarm;
mod appetite;
mod bind;
mod client;
mod connection_memory;
mod connections;
mod drops;
mod link;
mod options;
#[cfg(not(feature = "tls"))]
mod plain;
mod poller;
mod reserve;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;
mod udp;
mod within;

#[cfg(not(feature = "tls"))]
use self::plain as secure;
#[cfg(feature = "tls")]
use self::tls as secure;

pub use futures_io;

pub use self::{
    address::Address,
    bind::{TcpListener, UnixListener, bind_udp, listen},
    client::{StreamSink, StreamSource, connect},
    connection_memory::ConnectionMemory,
    connections::{Connections, Limits, Listener},
    link::Link,
    stream::{StreamSocket, TcpStream, UnixStream},
    udp::{DatagramSink, Datagrams, UdpSocket},
    within::within,
};
