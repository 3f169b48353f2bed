//! Connected sockets for byte streams.

use std::{
    io::{self, IoSlice, IoSliceMut, Read},
    mem::MaybeUninit,
    net::{Shutdown, SocketAddr},
    os::{fd::AsFd, unix},
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
        SocketType, connect, getpeername, recv, sendmsg, socket_with, sockopt,
    },
};

use super::options::{keep_alive, open_for};
use crate::{Descriptors, Error, Registered};

/// Maximum number of slices that one system call accepts.
pub(super) const SLICES: usize = 1_024;

/// A connected socket for a byte stream: [`TcpStream`] or [`UnixStream`].
pub trait StreamSocket: Send + Sync + 'static {
    /// The socket type of the standard library.
    type Socket: AsFd + Send + Sync;

    /// Returns the registered socket, for operations that the asynchronous I/O traits do not offer.
    fn registered(&self) -> &Registered<Self::Socket>;
}

impl TcpStream {
    /// Connects to `address` without blocking a thread. Dropping the future cancels the attempt.
    ///
    /// Written data is sent at once (`TCP_NODELAY`). If the peer no longer responds, an idle connection fails after a
    /// minute and a half (keep-alive).
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub async fn connect(descriptors: &Descriptors, address: SocketAddr) -> io::Result<Self> {
        let socket = open_for(address, SocketType::STREAM)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        keep_alive(&socket)?;
        begin(connect(&socket, &address))?;
        let stream = Self(descriptors.register(socket.into())?);
        connected(&stream.0).await?;
        Ok(stream)
    }
}

impl UnixStream {
    /// Checks that `path` can be the path of a socket.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if the path is too long or contains a NUL byte.
    pub fn check_path(path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        SocketAddrUnix::new(path).map(drop).map_err(|_| {
            Error::configuration(format!(
                "invalid socket path `{}`: expected at most 107 bytes and no NUL byte",
                path.display()
            ))
        })
    }

    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// Returns the error of the operating system. The kind is `WouldBlock` if too many connections wait at the socket.
    pub async fn connect(descriptors: &Descriptors, path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        begin(connect(&socket, &SocketAddrUnix::new(path.as_ref())?))?;
        let stream = Self(descriptors.register(socket.into())?);
        connected(&stream.0).await?;
        Ok(stream)
    }
}

/// Ignores errors that state that the operating system continues to connect in the background.
fn begin(connecting: Result<(), Errno>) -> Result<(), Errno> {
    match connecting {
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        result => result,
    }
}

/// Waits until the operating system has connected the socket or has failed to do so.
async fn connected<D: AsFd>(socket: &Registered<D>) -> io::Result<()> {
    let is_over = |socket: &D| -> io::Result<()> {
        sockopt::socket_error(socket)??;
        match getpeername(socket) {
            Ok(_) => Ok(()),
            Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    };
    socket.write_with(is_over).await
}

/// Reads once into uninitialised memory.
pub(super) fn receive(
    socket: impl AsFd,
    space: &mut [MaybeUninit<u8>],
) -> Result<&mut [u8], Errno> {
    recv(socket, space, RecvFlags::empty()).map(|((filled, _), _)| filled)
}

/// Sends as many bytes of `slices` as the operating system accepts. If the peer has gone, returns an error instead of
/// raising `SIGPIPE`.
pub(super) fn send_slices(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let slices = &slices[..slices.len().min(SLICES)];
    let nothing_else = &mut SendAncillaryBuffer::default();
    Ok(sendmsg(socket, slices, nothing_else, SendFlags::NOSIGNAL)?)
}

/// Implements the stream types. The literal is `true` if a short read means that no more data is available. Reads from
/// a Unix domain socket also stop at data with which file descriptors were sent.
macro_rules! streams {
    ($($(#[$doc:meta])* $name:ident: $socket:ty, $reads_all:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// A task may read while another task writes, because references to the stream implement `AsyncRead` and
        /// `AsyncWrite` too.
        #[derive(Debug)]
        pub struct $name(Registered<$socket>);

        impl $name {
            /// Creates a stream from a connected socket of the standard library, which is set to non-blocking mode.
            ///
            /// # Errors
            /// Returns the error of the operating system if the socket cannot be registered.
            pub fn new(descriptors: &Descriptors, socket: $socket) -> io::Result<Self> {
                socket.set_nonblocking(true)?;
                descriptors.register(socket).map(Self)
            }

            /// Returns a reference to the socket, for its addresses and options.
            pub fn get_ref(&self) -> &$socket {
                self.0.get_ref()
            }
        }

        impl StreamSocket for $name {
            type Socket = $socket;

            fn registered(&self) -> &Registered<$socket> {
                &self.0
            }
        }

        impl AsyncRead for &$name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let space = buffer.len();
                let read = |mut socket: &$socket| socket.read(buffer);
                if $reads_all {
                    return self.0.poll_read_bytes(context, space, read);
                }
                self.0.poll_read_with(context, read)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_read_with(context, |mut socket| socket.read_vectored(buffers))
            }
        }

        impl AsyncWrite for &$name {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_vectored(context, &[IoSlice::new(buffer)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write_with(context, |socket| send_slices(socket, buffers))
            }

            /// Completes at once, because nothing is buffered.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Closes the sending direction. Data from the peer can still be read.
            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(match self.get_ref().shutdown(Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    result => result,
                })
            }
        }

        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_read(context, buffer)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_read_vectored(context, buffers)
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_write(context, buffer)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_write_vectored(context, buffers)
            }

            fn poll_flush(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self).poll_flush(context)
            }

            fn poll_close(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self).poll_close(context)
            }
        }
    )*};
}

streams! {
    /// A TCP connection.
    TcpStream: std::net::TcpStream, true;
    /// A connection to a Unix domain socket.
    UnixStream: unix::net::UnixStream, false;
}

#[cfg(all(test, feature = "testing"))]
mod tests;
