//! Both sides of a connection that a client has made.

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::{
    address::Address,
    appetite::Appetite,
    link::Link,
    stream::{StreamSocket, TcpStream},
    within::within,
};
use crate::{
    Delivery, Descriptors, Error, Halves, Host, Pull, RawBatch, Result, Sides, Sink, Source,
    raw_runs,
};

/// How long an attempt to connect may take, of each address.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a connection may take, once everything is written.
const FAREWELL: Duration = Duration::from_secs(1);

/// How much of what a peer has sent last is thrown away, in bytes: more than the system holds.
const SKIPPED: usize = 16 << 20;

/// Connects to the first of the peer's addresses that answers. A name is looked up anew each time.
///
/// # Errors
/// Kind connection refused: none of them answers within ten seconds.
pub async fn connect(
    host: &Host,
    descriptors: &Descriptors,
    address: &Address,
) -> Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for peer in address.resolve(host).await? {
        match within(host, PATIENCE, TcpStream::connect(descriptors, peer)).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => failed = error,
            None => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(Error::connection_refused(format!("cannot connect to `{address}`: {failed}")))
}

/// The source of a connection: what the peer sends, as one stream.
///
/// Once the peer has closed the connection, what is left is a message, and a pull fails with connection
/// lost: the connector connects again.
pub struct StreamSource<S> {
    link: Arc<Link<S>>,
    peer: Box<str>,
    appetite: Appetite,
    has_brought: bool,
    /// How it ended.
    over: Option<Error>,
}

impl<S: StreamSocket> StreamSource<S> {
    /// Of a connection with this peer.
    pub fn new(link: Arc<Link<S>>, peer: &impl fmt::Display) -> Self {
        link.add_reader();
        let peer = peer.to_string().into();
        Self { link, peer, appetite: Appetite::default(), has_brought: false, over: None }
    }

    /// Makes the wanted halves of a connection with this peer.
    pub fn halves(
        host: &Host,
        link: Link<S>,
        peer: &impl fmt::Display,
        wanted: Sides,
    ) -> Halves<Self, StreamSink<S>> {
        let link = Arc::new(link);
        Halves {
            source: wanted.has_source().then(|| Self::new(link.clone(), peer)),
            sink: wanted.has_sink().then(|| StreamSink::new(host, link, peer)),
        }
    }
}

impl<S: StreamSocket> Source for StreamSource<S> {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        let space = self.appetite.space(batch.limit().bytes as usize);
        let read = poll_fn(|context| self.link.poll_fill(context, batch, space)).await;
        let lost = match read {
            Ok(0) => {
                let lost = format!("`{}` has closed the connection", self.peer);
                if self.has_brought {
                    batch.stream(self.link.stream()).end();
                }
                lost
            }
            Ok(count) => {
                self.has_brought = true;
                self.appetite.learn(count, space);
                batch.set_origin(&self.peer);
                return Ok(Pull::Events);
            }
            Err(error) => {
                if self.has_brought {
                    batch.stream(self.link.stream()).abort();
                }
                format!("cannot read from `{}`: {error}", self.peer)
            }
        };
        let error = self.over.insert(Error::connection_lost(lost)).clone();
        // The end comes first, and the error with the next pull.
        if batch.is_empty() { Err(error) } else { Ok(Pull::Events) }
    }
}

/// The sink of a connection: messages, one after the other, without a copy.
///
/// `Ok(())` says that the operating system has them: the protocol has no acknowledgements. What was not
/// written where a connection is lost is written on the next one, from the start of its batch. At the end it
/// says that nothing more comes, and waits for the peer to close as well, a second at most: a connection that
/// is closed before everything on it was read is reset, and what was on its way is lost.
pub struct StreamSink<S> {
    host: Host,
    link: Arc<Link<S>>,
    peer: Box<str>,
}

impl<S: StreamSocket> StreamSink<S> {
    /// Of a connection with this peer.
    pub fn new(host: &Host, link: Arc<Link<S>>, peer: &impl fmt::Display) -> Self {
        Self { host: host.clone(), link, peer: peer.to_string().into() }
    }

    /// The connection is lost: to what the system says of that, what the peer has said last is more.
    fn lost(&self, cause: Option<io::Error>) -> Error {
        let said = if self.link.has_reader() { None } else { self.last_words() };
        Error::connection_lost(match said.or(cause) {
            Some(error) => format!("cannot write to `{}`: {error}", self.peer),
            None => format!("`{}` has closed the connection", self.peer),
        })
    }

    /// Why the peer has ended the connection, if it has said so.
    fn last_words(&self) -> Option<io::Error> {
        let context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut skipped = 0;
        while skipped < SKIPPED {
            match self.link.poll_skip(&context) {
                Poll::Ready(Ok(count)) if count > 0 => skipped += count,
                Poll::Ready(Err(error)) => return Some(error),
                _ => return None,
            }
        }
        None
    }

    /// Ends the connection so that nothing is lost which the system has.
    async fn end(&self) -> io::Result<()> {
        poll_fn(|context| self.link.poll_close(context)).await?;
        let mut skipped = 0;
        while skipped < SKIPPED {
            match poll_fn(|context| self.link.poll_skip(context)).await? {
                0 => break,
                count => skipped += count,
            }
        }
        Ok(())
    }
}

impl<S: StreamSocket> Sink for StreamSink<S> {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let bytes = batch.bytes();
        let slices = raw_runs(batch).into_iter().map(|run| IoSlice::new(&bytes[run]));
        let mut slices: Vec<_> = slices.collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            // The system would take it all the same, and nobody would get it.
            if self.link.is_hung_up() {
                return Err(self.lost(None).into());
            }
            match poll_fn(|context| self.link.poll_send(context, rest)).await {
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) => return Err(self.lost(Some(error)).into()),
            }
        }
        let flushed = poll_fn(|context| self.link.poll_flush(context)).await;
        flushed.map_err(|error| self.lost(Some(error)).into())
    }

    async fn close(&mut self) -> Result<()> {
        // An error means that the peer is gone: what it has received is all that it gets.
        let _ = within(&self.host, FAREWELL, self.end()).await;
        Ok(())
    }
}

shows! { StreamSource<S> { peer } StreamSink<S> { peer } }

#[cfg(all(test, feature = "testing"))]
mod tests;
