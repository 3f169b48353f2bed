//! Connecting to a peer whose name may have several addresses.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use async_ffi::FfiFuture;

use super::{address::Address, stream::TcpStream, within::within};
use crate::{Descriptors, Error, Host, Result};

/// Maximum time of [`connect`] after the lookup of the name, for all addresses together.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time after the beginning of an attempt at which the next address is tried as well: the value of RFC 8305, section 5.
const DELAY: Duration = Duration::from_millis(250);

/// Minimum of that time if the time for all addresses is short: RFC 8305, section 5.
const MIN_DELAY: Duration = Duration::from_millis(10);

/// Maximum number of addresses of a name that are tried, which bounds the number of open sockets.
const MAX_ADDRESSES: usize = 32;

/// Connects to the peer at `address` within ten seconds. A host name is looked up again for each call.
///
/// If the name has several addresses, they are tried in turn, alternating between IPv6 and IPv4. The next address is
/// tried when an attempt has failed, or has not succeeded within 250 ms; earlier attempts then continue. The first
/// connection is returned (RFC 8305). At most 32 addresses are tried.
///
/// The ten seconds do not include the lookup of the name, for which the operating system has time limits of its own.
///
/// # Errors
/// Returns an error of the kind connection refused if the name has no address or no address accepts the connection. The
/// error names all addresses that were tried.
pub async fn connect(
    host: &Host,
    descriptors: &Descriptors,
    address: &Address,
) -> Result<TcpStream> {
    let peers = address.resolve(host).await?;
    connect_any(host, descriptors, address, peers, TIMEOUT, Duration::ZERO).await
}

/// Connects like [`connect`], but within `timeout`, which includes the lookup of the name.
///
/// # Errors
/// Returns the errors of [`connect`].
pub async fn connect_within(
    host: &Host,
    descriptors: &Descriptors,
    address: &Address,
    timeout: Duration,
) -> Result<TcpStream> {
    let begun_ns = host.monotonic_ns();
    let Some(peers) = within(host, timeout, address.resolve(host)).await else {
        let late = format!("cannot find the address of `{address}`: no answer within {timeout:?}");
        return Err(Error::connection_refused(late));
    };
    let elapsed = Duration::from_nanos(host.monotonic_ns().saturating_sub(begun_ns));
    connect_any(host, descriptors, address, peers?, timeout, elapsed).await
}

/// Connects to one of `peers`, which are the addresses of `address`, before `timeout` is over. `elapsed` is the part of
/// this time that has passed already.
async fn connect_any(
    host: &Host,
    descriptors: &Descriptors,
    address: &Address,
    peers: Vec<SocketAddr>,
    timeout: Duration,
    elapsed: Duration,
) -> Result<TcpStream> {
    let remaining = timeout.saturating_sub(elapsed);
    let found = peers.len();
    let mut peers = alternating(peers);
    peers.truncate(MAX_ADDRESSES);
    // With a short time limit, the last address also has to get its turn.
    let turns = u32::try_from(peers.len()).unwrap_or(u32::MAX).saturating_add(1);
    let delay = (remaining / turns).clamp(MIN_DELAY, DELAY);
    let mut attempts = Attempts {
        host,
        descriptors,
        remaining: peers.into_iter(),
        delay,
        next: host.timer(delay),
        running: Vec::new(),
        failed: Vec::new(),
    };
    let connected = within(host, remaining, poll_fn(|context| attempts.poll(context))).await;
    if let Some(Some(stream)) = connected {
        return Ok(stream);
    }
    let limit = if connected.is_none() { format!(" within {timeout:?}") } else { String::new() };
    let failed = attempts.failed.iter().map(|(peer, error)| format!("{peer}: {error}"));
    let silent = attempts.running.iter().map(|(peer, _)| format!("{peer}: no answer"));
    let mut causes: Vec<_> = failed.chain(silent).collect();
    let untried = found - causes.len();
    if untried > 0 {
        causes.push(format!("{untried} other addresses were not tried"));
    }
    let causes = causes.join("; ");
    Err(Error::connection_refused(format!("cannot connect to `{address}`{limit}: {causes}")))
}

/// Sorts addresses so that the families alternate, beginning with the family of the first address (RFC 8305,
/// section 4). Otherwise all addresses of a family that the network does not carry would be tried first.
fn alternating(peers: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut counts = [0_usize; 2];
    let mut ranked: Vec<_> = peers
        .into_iter()
        .map(|peer| {
            let count = &mut counts[usize::from(peer.is_ipv4())];
            *count += 1;
            (*count, peer)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, peer)| peer).collect()
}

type Attempt<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// Attempts to connect to the addresses of a peer.
struct Attempts<'a> {
    host: &'a Host,
    descriptors: &'a Descriptors,
    /// Addresses that were not tried yet.
    remaining: vec::IntoIter<SocketAddr>,
    delay: Duration,
    /// Completes when the next address has to be tried although the earlier attempts have not ended.
    next: FfiFuture<()>,
    running: Vec<(SocketAddr, Attempt<'a>)>,
    failed: Vec<(SocketAddr, io::Error)>,
}

impl Attempts<'_> {
    /// Returns the first connection, or `None` once all attempts have failed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<TcpStream>> {
        loop {
            let failed_before = self.failed.len();
            let mut index = 0;
            while let Some((peer, attempt)) = self.running.get_mut(index) {
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Some(stream)),
                    Poll::Ready(Err(error)) => {
                        self.failed.push((*peer, error));
                        drop(self.running.remove(index));
                    }
                    Poll::Pending => index += 1,
                }
            }
            if self.remaining.as_slice().is_empty() {
                let is_over = self.running.is_empty();
                return if is_over { Poll::Ready(None) } else { Poll::Pending };
            }
            let is_due = self.running.is_empty() || self.failed.len() > failed_before;
            if !is_due && Pin::new(&mut self.next).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.next = self.host.timer(self.delay);
            let Self { descriptors, remaining, running, .. } = self;
            running.extend(remaining.next().map(|peer| -> (_, Attempt<'_>) {
                (peer, Box::pin(TcpStream::connect(descriptors, peer)))
            }));
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
