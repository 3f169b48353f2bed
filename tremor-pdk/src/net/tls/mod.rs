//! TLS over the sockets of this module, or over anything that carries bytes. Behind the feature `tls`.
//!
//! A connector takes a [`Tls`] as the key `tls` of its configuration, makes a [`TlsAcceptor`] or a
//! [`TlsConnector`] of it in its constructor, which opens no file, and has that make a [`TlsStream`] of each
//! connection:
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
//! The files of a configuration are looked at again when a connection is made, once a second at most: a
//! certificate that was renewed is used from then on, by new connections.

mod acceptor;
mod buffers;
mod certificates;
mod config;
mod connector;
mod refusal;
mod reload;
mod session;
mod stream;
#[cfg(all(test, feature = "testing-tls"))]
mod tests;
mod trust;

pub use self::{
    acceptor::TlsAcceptor,
    config::{ClientAuth, MinVersion, Tls},
    connector::TlsConnector,
    stream::TlsStream,
};

pub(super) use self::{buffers::Buffers, session::Session};
