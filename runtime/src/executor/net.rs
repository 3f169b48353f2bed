//! Connections, and the tasks of one thread: what the admin API runs on, whatever plugins do with the
//! executor's threads.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    task::{Context, Poll, ready},
};

use async_io::Async;

/// The tasks of one thread.
pub(crate) type Tasks = async_executor::LocalExecutor<'static>;

/// Takes connections.
#[derive(Debug)]
pub(crate) struct Listener(Async<TcpListener>);

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Async::<TcpListener>::bind(address).map(Self)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The next connection.
    ///
    /// # Errors
    /// The operating system's; another connection may go better.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        Ok(Connection(self.0.accept().await?.0))
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection(Async<TcpStream>);

impl Connection {
    /// Connects to an address.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) async fn to(address: SocketAddr) -> io::Result<Self> {
        Async::<TcpStream>::connect(address).await.map(Self)
    }

    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        to: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.get_ref().read(to) {
                Err(error) if is_for_later(&error) => ready!(self.0.poll_readable(context))?,
                result => return Poll::Ready(result),
            }
        }
    }

    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.get_ref().write(bytes) {
                Err(error) if is_for_later(&error) => ready!(self.0.poll_writable(context))?,
                result => return Poll::Ready(result),
            }
        }
    }

    /// Nothing more is written.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.0.get_ref().shutdown(Shutdown::Write)
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
