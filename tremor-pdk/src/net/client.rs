//! Both sides of a connection that a client has made.

use std::{
    fmt,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::{
    address::Address,
    appetite::Appetite,
    stream::{StreamSocket, TcpStream, receive, send_slices},
};
use crate::{
    Batch, CodecRequirement, Delivery, Descriptors, Error, Host, Pull, Result, Sink, Source,
    raw_runs,
};

/// How long an attempt to connect may take, of each address.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// What a future comes to; none if it takes longer.
async fn within<T>(host: &Host, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut sleep) = (pin!(future), pin!(host.sleep(time)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// The source of a connection: what the peer sends, as one stream.
///
/// Once the peer has closed the connection, what is left is a message, and a pull fails with connection
/// lost: the connector connects again.
pub struct StreamSource<S> {
    socket: Arc<S>,
    peer: Box<str>,
    appetite: Appetite,
    has_brought: bool,
    /// How it ended.
    over: Option<Error>,
}

impl<S: StreamSocket> StreamSource<S> {
    /// Of a connection with this peer.
    pub fn new(socket: Arc<S>, peer: &impl fmt::Display) -> Self {
        let peer = peer.to_string().into();
        Self { socket, peer, appetite: Appetite::default(), has_brought: false, over: None }
    }
}

impl<S: StreamSocket> Source for StreamSource<S> {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        let space = self.appetite.space(batch.limit().bytes as usize);
        let socket = self.socket.registered();
        let read = socket.read_with(|socket| {
            Ok(batch.stream(0).fill_fragment(space, |space| receive(socket, space))?)
        });
        let lost = match read.await {
            Ok(0) => {
                let lost = format!("`{}` has closed the connection", self.peer);
                if self.has_brought {
                    batch.stream(0).end();
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
                    batch.stream(0).abort();
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
/// written where a connection is lost is written on the next one, from the start of its batch.
pub struct StreamSink<S> {
    socket: Arc<S>,
    peer: Box<str>,
}

impl<S: StreamSocket> StreamSink<S> {
    /// Of a connection with this peer.
    pub fn new(socket: Arc<S>, peer: &impl fmt::Display) -> Self {
        Self { socket, peer: peer.to_string().into() }
    }
}

impl<S: StreamSocket> Sink for StreamSink<S> {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        let socket = self.socket.registered();
        let bytes = batch.bytes();
        let slices = raw_runs(batch).into_iter().map(|run| IoSlice::new(&bytes[run]));
        let mut slices: Vec<_> = slices.collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            // The system would take it all the same, and nobody would get it.
            if socket.is_hung_up() {
                let lost = format!("`{}` has closed the connection", self.peer);
                return Err(Error::connection_lost(lost).into());
            }
            match socket.write_with(|socket| send_slices(socket, rest)).await {
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) => {
                    let lost = format!("cannot write to `{}`: {error}", self.peer);
                    return Err(Error::connection_lost(lost).into());
                }
            }
        }
        Ok(())
    }
}

impl<S> fmt::Debug for StreamSource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for StreamSink<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
