//! Listeners whose waits end.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};

/// Maximum time for the connection that wakes an acceptor at its end.
const WAKE: Duration = Duration::from_secs(5);

/// A thread that accepts connections and hands each of them to a function. It ends when this value is dropped.
#[derive(Debug)]
pub struct Acceptor {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    wake: Wake,
}

/// Address to which a connection wakes the thread.
#[derive(Debug)]
enum Wake {
    Tcp(SocketAddr),
    Unix(std::path::PathBuf),
}

impl Acceptor {
    /// Listens on a free port of the loopback interface. Returns the acceptor and the address.
    ///
    /// # Errors
    /// No port is free.
    pub fn tcp(serve: impl FnMut(TcpStream) + Send + 'static) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Ok((Self::start(accept, Wake::Tcp(address), serve), address))
    }

    /// Listens on a Unix socket.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn unix(path: &Path, serve: impl FnMut(UnixStream) + Send + 'static) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Ok(Self::start(accept, Wake::Unix(path.to_owned()), serve))
    }

    fn start<S: 'static>(
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        wake: Wake,
        mut serve: impl FnMut(S) + Send + 'static,
    ) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            loop {
                let accepted = accept();
                if over.load(Ordering::Acquire) {
                    return;
                }
                match accepted {
                    Ok(stream) => serve(stream),
                    // The client may have closed its connection before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => panic!("a peer cannot accept a connection: {error}"),
                }
            }
        });
        Self { is_over, thread: Some(thread), wake }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // The connection fails if the thread has ended already.
        match &self.wake {
            Wake::Tcp(address) => drop(TcpStream::connect_timeout(address, WAKE)),
            Wake::Unix(path) => drop(UnixStream::connect(path)),
        }
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// Fills the queue of a listener that accepts no connection. From now on, the system drops the packets of further
/// attempts to connect, as a firewall does, until the returned connection is closed.
///
/// # Errors
/// Errors of the system.
pub fn fill_queue(listener: &TcpListener) -> io::Result<TcpStream> {
    rustix::net::listen(listener, 0)?;
    TcpStream::connect(listener.local_addr()?)
}

/// Accepts a connection.
///
/// # Errors
/// No client connects within `limit`.
pub fn accept_within(listener: &TcpListener, limit: Duration) -> io::Result<TcpStream> {
    let timeout = limit.try_into().map_err(io::Error::other)?;
    if poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&timeout))? == 0
    {
        let address = listener.local_addr()?;
        let text = format!("no client connected to {address} within {limit:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    }
    Ok(listener.accept()?.0)
}

#[cfg(test)]
mod tests {
    use std::{io::Read, sync::mpsc};

    use super::*;

    #[test]
    fn acceptor_serves_until_it_is_dropped() {
        let (sender, served) = mpsc::channel();
        let (acceptor, address) =
            Acceptor::tcp(move |stream| sender.send(stream).unwrap()).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        drop(served.recv_timeout(WAKE).unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(acceptor);
        assert!(served.recv().is_err(), "the connection that ended the thread is not served");
        assert!(TcpStream::connect(address).is_err(), "the listener is closed");
    }

    #[test]
    fn wait_without_a_client_names_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = accept_within(&listener, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("connected to 127.0.0.1:"), "{error}");
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        accept_within(&listener, WAKE).unwrap();
    }
}
