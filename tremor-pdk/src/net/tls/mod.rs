//! TLS over the sockets of [`net`](super), or over any other byte stream. Enabled by the feature `tls`.
//!
//! Use [`Tls`] as the type of the key `tls` in the configuration of a connector. In the constructor of a connector,
//! create a [`TlsAcceptor`] (server) or a [`TlsConnector`] (client) from the value of this key; their constructors open
//! no file. Use the acceptor or connector to create a [`TlsStream`] for each connection:
//!
//! ```
//! use tremor_pdk::{net::{self, Address, TcpStream, tls::{Tls, TlsConnector, TlsStream}}, prelude::*};
//! use tremor_pdk::Descriptors;
//!
//! async fn call(host: &Host, address: &Address, tls: &Tls) -> Result<TlsStream<TcpStream>> {
//!     let connector = TlsConnector::new(tls, host, address)?;
//!     let stream = net::connect(host, &Descriptors::new(host)?, address).await?;
//!     connector.connect(stream).await
//! }
//! ```
//!
//! When a connection is established, the files that the configuration names are checked for changes, at most once a
//! second. A new connection uses the new files.

mod acceptor;
mod buffers;
mod certificates;
mod config;
mod connector;
mod refusal;
mod reload;
mod session;
mod signatures;
mod stream;
#[cfg(all(test, feature = "testing-tls"))]
mod tests;
mod trust;
mod unverified;

pub use self::{
    acceptor::TlsAcceptor,
    config::{ClientAuth, MinVersion, Tls},
    connector::TlsConnector,
    stream::TlsStream,
};

pub(super) use self::{buffers::Buffers, session::Session};
