//! The sink: sends events to clients.

use std::{collections::HashMap, future::poll_fn, sync::Arc, task::Poll};

use tremor_pdk::{ErrorPolicy, RawEvent, prelude::*};
use tungstenite::protocol::frame::coding::CloseCode;

use super::{Accepting, config::SendTo, connections::Connections};
use crate::session::{Link, cost};

/// Sends each event as a message to all clients, or to the client from which the event was
/// received.
///
/// A batch counts as delivered once the operating system has all its bytes for one of the clients
/// to which it was sent. Up to `max_send_bytes` may wait to be sent to each of the other clients. A
/// client for which more bytes wait is disconnected, so that it does not delay the others.
pub struct Sender {
    connections: Arc<Connections>,
    _accepting: Arc<Accepting>,
}

impl Sender {
    pub(super) fn new(connections: Arc<Connections>, accepting: Arc<Accepting>) -> Self {
        Self { connections, _accepting: accepting }
    }

    /// Disconnects a client that has unwritten messages, if `more` bytes would exceed a limit of
    /// buffered bytes. Returns whether the client was disconnected.
    fn is_slow(&self, link: &Link, more: usize) -> bool {
        let most = self.connections.config.max_send_bytes.in_memory();
        let behind = link.unwritten().unwrap_or_default();
        if behind > 0 && behind.saturating_add(more) <= most && !link.may_keep(more) {
            self.connections.counts.over_budget.add(1);
            tremor_pdk::warn!(
                self.connections.host,
                "disconnected {}: all connections together buffer more than `max_buffered_bytes`",
                link.peer
            );
            link.cut_off(CloseCode::Again, "too many bytes are buffered");
            return true;
        }
        let is_slow = behind > 0 && behind.saturating_add(more) > most;
        if is_slow {
            self.connections.counts.slow.add(1);
            tremor_pdk::warn!(
                self.connections.host,
                "disconnected {}: it reads too slowly, and more than `max_send_bytes` would wait for it",
                link.peer
            );
            link.cut_off(CloseCode::Policy, "too slow");
        }
        is_slow
    }
}

impl Sink for Sender {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut links = self.connections.links();
        let more = batch.iter().map(RawEvent::raw).map(|it| cost(it.len())).sum();
        if self.connections.config.send_to == SendTo::All {
            links.retain(|link| !self.is_slow(link, more));
        }
        let of_origin: HashMap<&str, usize> = match self.connections.config.send_to {
            SendTo::All => HashMap::new(),
            SendTo::Origin => {
                links.iter().enumerate().map(|(at, it)| (it.peer.text(), at)).collect()
            }
        };
        let mut lost = Vec::new();
        // With `send_to: origin`, the events that were sent, each with the index of its client in
        // `links`.
        let mut sent: Vec<(RawEvent<'_>, usize)> = Vec::new();
        let mut any = false;
        for event in batch {
            let bytes = event.raw();
            let message = match self.connections.config.frames.message(bytes) {
                Ok(message) => message,
                Err(error) => {
                    lost.push((event, error));
                    continue;
                }
            };
            match self.connections.config.send_to {
                SendTo::All if links.is_empty() => lost.push((event, nobody())),
                SendTo::All => {
                    any = true;
                    links.iter().for_each(|link| link.send(message.clone()));
                }
                SendTo::Origin => {
                    let link = event.origin().and_then(|it| of_origin.get(it));
                    match link {
                        Some(&at) if !self.is_slow(&links[at], cost(bytes.len())) => {
                            links[at].send(message);
                            sent.push((event, at));
                        }
                        _ => lost.push((event, gone())),
                    }
                }
            }
        }
        if !sent.is_empty() {
            let mut to: Vec<_> = sent.iter().map(|(_, at)| *at).collect();
            to.sort_unstable();
            to.dedup();
            let to: Vec<_> = to.into_iter().map(|at| links[at].clone()).collect();
            written_to_one(&to).await;
            // An event whose client has disconnected meanwhile counts as not delivered.
            let are_lost = sent.into_iter().filter(|(_, at)| links[*at].unwritten().is_none());
            lost.extend(are_lost.map(|(event, _)| (event, gone())));
        } else if any && !written_to_one(&links).await {
            // Every client has disconnected meanwhile. The retry sends the batch to the clients
            // that are connected then.
            return Err(nobody().with_policy(ErrorPolicy::RETRY).into());
        }
        Exceptions::from_iter(lost).into()
    }
}

/// Waits until the operating system has all bytes for one of the clients. Returns `false` if all
/// clients disconnect before that.
async fn written_to_one(links: &[Arc<Link>]) -> bool {
    links.iter().for_each(|link| link.wake());
    poll_fn(|context| {
        let mut is_any_left = false;
        for link in links {
            match link.poll_written(context) {
                Poll::Ready(Ok(())) => return Poll::Ready(true),
                Poll::Ready(Err(_)) => {}
                Poll::Pending => is_any_left = true,
            }
        }
        if is_any_left { Poll::Pending } else { Poll::Ready(false) }
    })
    .await
}

fn nobody() -> Error {
    Error::bad_data("no client is connected")
}

fn gone() -> Error {
    Error::bad_data(
        "the client from which the event came has disconnected, or the event came from no client",
    )
}
