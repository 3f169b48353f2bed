//! Connected sockets that carry bytes.

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

/// How many slices the system takes at once.
pub(super) const SLICES: usize = 1_024;

/// A connected socket that carries bytes: [`TcpStream`] or [`UnixStream`].
pub trait StreamSocket: Send + Sync + 'static {
    /// The socket of the standard library.
    type Socket: AsFd + Send + Sync;

    /// The socket, registered: for what the traits of asynchronous input and output do not offer.
    fn registered(&self) -> &Registered<Self::Socket>;
}

impl TcpStream {
    /// Connects. No thread is blocked meanwhile, and dropping the future gives the attempt up. What is
    /// written is sent at once, and a peer that is gone without a word is noticed after a minute and a
    /// half.
    ///
    /// # Errors
    /// The operating system's.
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
    /// Whether a socket may have this path, which the operating system bounds.
    ///
    /// # Errors
    /// Kind configuration: it is too long, or has a zero byte.
    pub fn check_path(path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        SocketAddrUnix::new(path).map(drop).map_err(|_| {
            Error::configuration(format!(
                "`{}` cannot be the path of a socket: choose one of 107 bytes at most",
                path.display()
            ))
        })
    }

    /// Connects to a socket in the file system.
    ///
    /// # Errors
    /// The operating system's; of the kind "would block" where too many connections wait there.
    pub async fn connect(descriptors: &Descriptors, path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        begin(connect(&socket, &SocketAddrUnix::new(path.as_ref())?))?;
        let stream = Self(descriptors.register(socket.into())?);
        connected(&stream.0).await?;
        Ok(stream)
    }
}

/// A connection that is under way is no error.
fn begin(connecting: Result<(), Errno>) -> Result<(), Errno> {
    match connecting {
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        result => result,
    }
}

/// Waits for the end of an attempt to connect.
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

/// Reads once into memory that nothing has to be written to before.
pub(super) fn receive(
    socket: impl AsFd,
    space: &mut [MaybeUninit<u8>],
) -> Result<&mut [u8], Errno> {
    recv(socket, space, RecvFlags::empty()).map(|((filled, _), _)| filled)
}

/// Sends what the system takes of these slices. A peer that is gone is an error, and no signal.
pub(super) fn send_slices(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let slices = &slices[..slices.len().min(SLICES)];
    let nothing_else = &mut SendAncillaryBuffer::default();
    Ok(sendmsg(socket, slices, nothing_else, SendFlags::NOSIGNAL)?)
}

/// The last says whether a read brings all that there is. Of a Unix socket it ends where descriptors were sent.
macro_rules! streams {
    ($($(#[$doc:meta])* $name:ident: $socket:ty, $reads_all:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// One task may read it while another writes it, through references.
        #[derive(Debug)]
        pub struct $name(Registered<$socket>);

        impl $name {
            /// Makes one of a connected socket of the standard library, which is set not to block.
            ///
            /// # Errors
            /// The operating system's.
            pub fn new(descriptors: &Descriptors, socket: $socket) -> io::Result<Self> {
                socket.set_nonblocking(true)?;
                descriptors.register(socket).map(Self)
            }

            /// The socket itself: for its addresses and options.
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

            /// Nothing is held back.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Says that nothing more is sent. What the peer still sends can be read.
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
    /// A connection of TCP.
    TcpStream: std::net::TcpStream, true;
    /// A connection to a socket in the file system.
    UnixStream: unix::net::UnixStream, false;
}

#[cfg(all(test, feature = "testing"))]
mod tests;
