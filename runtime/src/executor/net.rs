//! Connections, and tasks that run on a single thread. The admin API uses both, so that it responds even if plugins
//! block the threads of the executor.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    task::{Context, Poll, ready},
};

use async_io::Async;

/// An executor whose tasks all run on one thread.
pub(crate) type Tasks = async_executor::LocalExecutor<'static>;

/// Listening socket.
#[derive(Debug)]
pub(crate) struct Listener(Async<TcpListener>);

impl Listener {
    /// Starts to listen at an address.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Async::<TcpListener>::bind(address).map(Self)
    }

    /// Returns the address that the socket listens at.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Errors of the operating system. A later call may succeed.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        Ok(Connection(self.0.accept().await?.0))
    }
}

/// Connection of a client or a server.
#[derive(Debug)]
pub(crate) struct Connection(Async<TcpStream>);

impl Connection {
    /// Connects to an address.
    ///
    /// # Errors
    /// Errors of the operating system.
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
                Err(error) if must_wait(&error) => ready!(self.0.poll_readable(context))?,
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
                Err(error) if must_wait(&error) => ready!(self.0.poll_writable(context))?,
                result => return Poll::Ready(result),
            }
        }
    }

    /// Closes the sending direction of the connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.0.get_ref().shutdown(Shutdown::Write)
    }
}

fn must_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
