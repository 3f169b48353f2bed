//! Listening.

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

/// How many connections may wait to be accepted. The system has a bound of its own (`somaxconn`).
const BACKLOG: i32 = 1_024;

/// Listens on the first of these addresses that can be had. The listener does not block, and its
/// connections are kept alive. With `reuse_port` several listeners share an address, if each of them wants
/// to, and the system spreads connections over them.
///
/// # Errors
/// The address cannot be had. The error names it and what to do; time may mend that an address is in use.
pub fn listen(addresses: &[SocketAddr], reuse_port: bool) -> Result<std::net::TcpListener> {
    first(addresses, |address| {
        let socket = open(address, SocketType::STREAM, reuse_port)?;
        // Otherwise connections of an earlier process would keep the address for a minute.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // Connections inherit that.
        keep_alive(&socket)?;
        bind(&socket, &address)?;
        start_listening(&socket, BACKLOG)?;
        Ok(socket.into())
    })
}

/// A socket for datagrams on the first of these addresses that can be had. It does not block.
///
/// # Errors
/// As [`listen`].
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

/// Why an address cannot be had.
fn cannot_listen(address: &str, error: Errno) -> Error {
    let message = |remedy: &str| {
        let error = io::Error::from(error);
        format!("cannot listen on `{address}`: {error}{remedy}")
    };
    match error {
        // Time may mend these.
        Errno::ADDRINUSE => Error::connection_refused(message(
            ": stop the process that has it, choose another, or let all that listen there share it \
             (`reuse_port`)",
        )),
        Errno::ADDRNOTAVAIL => {
            Error::connection_refused(message(": name an address of this machine"))
        }
        Errno::ACCESS | Errno::PERM => Error::authentication(message(
            ": choose a port from 1024 on, or allow the process this one (CAP_NET_BIND_SERVICE)",
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
            /// Makes one of a listener of the standard library, which is set not to block.
            ///
            /// # Errors
            /// The operating system's.
            pub fn new(descriptors: &Descriptors, listener: $listener) -> io::Result<Self> {
                listener.set_nonblocking(true)?;
                Ok(Self(descriptors.register(listener)?, Reserve::default()))
            }

            /// Waits for a connection, and gives it with the address of its peer.
            ///
            /// # Errors
            /// The operating system's: of one connection, or that no descriptor is left. What listens
            /// on goes on after both, and waits for a while first. `EMFILE` is returned while an eighth of the
            /// descriptors that the process may have is still free: servers leave those to other components.
            pub async fn accept(&self) -> io::Result<($stream, $address)> {
                std::future::poll_fn(|context| self.poll_accept(context)).await
            }

            /// Ready with a connection and the address of its peer.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($name), "::accept`].")]
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

            /// The listener itself.
            pub fn get_ref(&self) -> &$listener {
                self.0.get_ref()
            }
        }
    )*};
}

listeners! {
    /// A listener for connections of TCP. A source that reads byte streams has
    /// [`Connections`](super::Connections) instead.
    TcpListener: std::net::TcpListener, TcpStream, SocketAddr;
    /// A listener for connections to a socket in the file system.
    UnixListener: unix::net::UnixListener, UnixStream, unix::net::SocketAddr;
}
