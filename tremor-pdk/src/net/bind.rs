//! Listening on addresses.

use std::{
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix,
    },
    task::{Context, Poll},
};

use rustix::{
    io::Errno,
    net::{SocketType, bind, listen as start_listening, sockopt},
};

use super::{
    options::{keep_alive, open_for},
    reserve::Reserve,
    stream::{TcpStream, UnixStream},
};
use crate::{Descriptors, Error, Registered, Result};

/// Maximum number of connections that wait to be accepted. The limit of the operating system (`somaxconn`) also
/// applies.
const BACKLOG: i32 = 1_024;

/// Listens on the first of `addresses` that is available.
///
/// The listener is in non-blocking mode, and its connections use TCP keep-alive. With `reuse_port`, several listeners
/// can share an address if each of them sets this option. The operating system distributes connections among them.
///
/// # Errors
/// Returns an error if no address is available. The error names the address and the remedy. If the address is in use,
/// a later attempt may succeed.
pub fn listen(addresses: &[SocketAddr], reuse_port: bool) -> Result<std::net::TcpListener> {
    first(addresses, |address| {
        let socket = open(address, SocketType::STREAM, reuse_port)?;
        // Otherwise the connections of an earlier process would block the address for a minute.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // Accepted connections inherit this option.
        keep_alive(&socket)?;
        bind(&socket, &address)?;
        start_listening(&socket, BACKLOG)?;
        Ok(socket.into())
    })
}

/// Binds a socket for datagrams to the first of `addresses` that is available. The socket is in non-blocking mode.
///
/// # Errors
/// Returns the errors of [`listen`].
pub fn bind_udp(addresses: &[SocketAddr], reuse_port: bool) -> Result<std::net::UdpSocket> {
    first(addresses, |address| {
        let socket = open(address, SocketType::DGRAM, reuse_port)?;
        bind(&socket, &address)?;
        Ok(socket.into())
    })
}

fn open(address: SocketAddr, kind: SocketType, reuse_port: bool) -> Result<OwnedFd, Errno> {
    let socket = open_for(address, kind)?;
    if reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    Ok(socket)
}

fn first<T>(
    addresses: &[SocketAddr],
    listen: impl Fn(SocketAddr) -> Result<T, Errno>,
) -> Result<T> {
    let mut failed = Error::configuration("there is no address to listen on");
    for &address in addresses {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = cannot_listen(&address.to_string(), error),
        }
    }
    Err(failed)
}

/// Returns the error for an address that is not available.
fn cannot_listen(address: &str, error: Errno) -> Error {
    let message = |remedy: &str| {
        let error = io::Error::from(error);
        format!("cannot listen on `{address}`: {error}{remedy}")
    };
    match error {
        // A later attempt may succeed after these errors.
        Errno::ADDRINUSE => Error::connection_refused(message(
            "; stop the process that uses it, choose another address, or share it between all listeners \
             (`reuse_port`)",
        )),
        Errno::ADDRNOTAVAIL => {
            Error::connection_refused(message("; choose an address of this machine"))
        }
        Errno::ACCESS | Errno::PERM => Error::authentication(message(
            "; choose a port from 1024 on, or grant the process CAP_NET_BIND_SERVICE",
        )),
        _ => Error::from(io::Error::from(error)).context(format!("cannot listen on `{address}`")),
    }
}

macro_rules! listeners {
    ($($(#[$doc:meta])* $name:ident: $listener:ty, $stream:ident, $address:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Registered<$listener>, Reserve);

        impl $name {
            /// Creates a listener from a listener of the standard library, which is set to non-blocking mode.
            ///
            /// # Errors
            /// Returns the error of the operating system if the listener cannot be registered.
            pub fn new(descriptors: &Descriptors, listener: $listener) -> io::Result<Self> {
                listener.set_nonblocking(true)?;
                Ok(Self(descriptors.register(listener)?, Reserve::default()))
            }

            /// Waits for a connection, and returns it with the address of the peer.
            ///
            /// # Errors
            /// Returns the error of the operating system. The cause may be a single connection or a lack of file
            /// descriptors, and the listener can be used again after a delay. `EMFILE` is returned before all
            /// descriptors are in use: an eighth of the limit of the process, at most 256, stays free for other
            /// components.
            pub async fn accept(&self) -> io::Result<($stream, $address)> {
                std::future::poll_fn(|context| self.poll_accept(context)).await
            }

            /// Accepts a connection if one is waiting: see `accept`.
            ///
            /// # Errors
            #[doc = concat!("Returns the errors of [`", stringify!($name), "::accept`].")]
            pub fn poll_accept(
                &self,
                context: &Context<'_>,
            ) -> Poll<io::Result<($stream, $address)>> {
                let accepted = self.0.poll_read_with(context, |listener| {
                    self.1.check(listener.as_fd())?;
                    listener.accept()
                });
                accepted.map(|accepted| {
                    let (stream, address) = accepted?;
                    self.1.took(&stream);
                    Ok(($stream::new(self.0.descriptors(), stream)?, address))
                })
            }

            /// Returns a reference to the listener.
            pub fn get_ref(&self) -> &$listener {
                self.0.get_ref()
            }
        }
    )*};
}

listeners! {
    /// A listener for TCP connections. For a source that reads byte streams, use [`Connections`](super::Connections)
    /// instead.
    TcpListener: std::net::TcpListener, TcpStream, SocketAddr;
    /// A listener for connections to a Unix domain socket.
    UnixListener: unix::net::UnixListener, UnixStream, unix::net::SocketAddr;
}
