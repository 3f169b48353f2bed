//! The source and the sink of a connection that a client has established.

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::{link::Link, read_size::ReadSize, stream::StreamSocket, within::within};
use crate::{
    Delivery, Error, Halves, Host, Origin, Pull, RawBatch, Result, Sides, Sink, Source, raw_runs,
};

/// Maximum time for closing a connection after everything was written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes that are read and discarded while a connection closes. Operating systems buffer less data
/// than this.
const SKIPPED: usize = 16 << 20;

/// The source of a connection. All data of the peer belongs to one stream.
///
/// When the peer has closed the connection, the stream ends, and the next pull fails with an error of the kind
/// connection lost, so that the connector connects again.
pub struct StreamSource<S> {
    link: Arc<Link<S>>,
    peer: Origin,
    read_size: ReadSize,
    has_data: bool,
    /// The error of all pulls after the end of the connection.
    failure: Option<Error>,
}

impl<S: StreamSocket> StreamSource<S> {
    /// Creates the source of a connection. `peer` is the origin of events, and its text is the name of the peer in
    /// errors.
    pub fn new(link: Arc<Link<S>>, peer: &Origin) -> Self {
        link.add_reader();
        let peer = peer.clone();
        Self { link, peer, read_size: ReadSize::default(), has_data: false, failure: None }
    }

    /// Creates those halves of a connection that are in `wanted`. `peer` is the origin of events, and its text is the
    /// name of the peer in errors.
    pub fn halves(
        host: &Host,
        link: Link<S>,
        peer: &Origin,
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
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let space = self.read_size.space(batch.limit().bytes);
        let read = poll_fn(|context| self.link.poll_fill(context, batch, space)).await;
        let lost = match read {
            Ok(0) => {
                let lost = format!("`{}` has closed the connection", self.peer);
                if self.has_data {
                    batch.stream(self.link.stream()).end();
                    batch.apply_origin(0, &self.peer);
                }
                lost
            }
            Ok(count) => {
                self.has_data = true;
                self.read_size.adjust(count, space);
                batch.apply_origin(0, &self.peer);
                return Ok(Pull::Events);
            }
            Err(error) => {
                if self.has_data {
                    batch.stream(self.link.stream()).abort();
                    batch.apply_origin(0, &self.peer);
                }
                format!("cannot read from `{}`: {error}", self.peer)
            }
        };
        let error = self.failure.insert(Error::connection_lost(lost)).clone();
        // The batch contains the end of the stream. The error follows with the next pull.
        if batch.is_empty() { Err(error) } else { Ok(Pull::Events) }
    }
}

/// The sink of a connection: writes messages one after the other, without copying them.
///
/// `Ok(())` only means that the operating system has accepted the messages, because peers do not acknowledge bytes of a
/// stream. If the connection is lost during a delivery, the whole batch is written again on the next connection.
///
/// When the sink is closed, it shuts down the sending direction, and then reads and discards data for up to one second
/// until the peer closes the connection. Otherwise unread data would reset the connection, and data in transit would be
/// lost.
pub struct StreamSink<S> {
    host: Host,
    link: Arc<Link<S>>,
    peer: Box<str>,
}

impl<S: StreamSocket> StreamSink<S> {
    /// Creates the sink of a connection. `peer` is the name of the peer in errors.
    pub fn new(host: &Host, link: Arc<Link<S>>, peer: &impl fmt::Display) -> Self {
        Self { host: host.clone(), link, peer: peer.to_string().into() }
    }

    /// Returns the error for a lost connection. If the peer has sent a reason, such as a TLS alert, the error contains
    /// that reason instead of `cause`, the error of the operating system.
    fn lost(&self, cause: Option<io::Error>) -> Error {
        let reported = if self.link.has_reader() { None } else { self.reported_error() };
        Error::connection_lost(match reported.or(cause) {
            Some(error) => format!("cannot write to `{}`: {error}", self.peer),
            None => format!("`{}` has closed the connection", self.peer),
        })
    }

    /// Reads and discards the data that the peer has sent, and returns the error with which reading ends, if any.
    fn reported_error(&self) -> Option<io::Error> {
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

    /// Closes the connection without losing data that the operating system has not sent yet.
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
        let mut remaining = &mut slices[..];
        while !remaining.is_empty() {
            // After the peer has closed the connection, the operating system still accepts data, but the peer never
            // receives it.
            if self.link.is_hung_up() {
                return Err(self.lost(None).into());
            }
            match poll_fn(|context| self.link.poll_send(context, remaining)).await {
                Ok(count) => IoSlice::advance_slices(&mut remaining, count),
                Err(error) => return Err(self.lost(Some(error)).into()),
            }
        }
        let flushed = poll_fn(|context| self.link.poll_flush(context)).await;
        flushed.map_err(|error| self.lost(Some(error)).into())
    }

    async fn close(&mut self) -> Result<()> {
        // An error is ignored, because it means that the peer has gone and cannot receive more data.
        let _ = within(&self.host, CLOSE_TIMEOUT, self.end()).await;
        Ok(())
    }
}

shows! { StreamSource<S> { peer } StreamSink<S> { peer } }

#[cfg(all(test, feature = "testing"))]
mod tests;
