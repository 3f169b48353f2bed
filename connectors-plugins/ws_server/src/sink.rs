//! What is sent to clients.

use std::{collections::HashMap, future::poll_fn, sync::Arc, task::Poll};

use tremor_pdk::{ErrorPolicy, RawEvent, prelude::*};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::{
    Accepting,
    config::SendTo,
    hub::Hub,
    session::{Link, cost, in_memory},
};

/// The sink: sends each event as a message to all clients, or to the one that it came from.
///
/// A batch is delivered once the system has all of it for one of the clients. Others may be behind, up to a
/// bound, and are closed beyond that: nobody waits for the slowest.
pub struct Sender {
    hub: Arc<Hub>,
    _accepting: Arc<Accepting>,
}

impl Sender {
    pub(crate) fn new(hub: Arc<Hub>, accepting: Arc<Accepting>) -> Self {
        Self { hub, _accepting: accepting }
    }

    /// Closes a client if `more` bytes would exceed what may wait for it. Returns whether it was closed.
    fn is_slow(&self, link: &Link, more: usize) -> bool {
        let most = in_memory(self.hub.config.max_send_bytes);
        let behind = link.unwritten().unwrap_or_default();
        if behind > 0 && behind.saturating_add(more) <= most && !link.may_keep(more) {
            self.hub.counts.over_budget.add(1);
            tremor_pdk::warn!(
                self.hub.host,
                "{} is closed: all connections together buffer more than `max_buffered_bytes`",
                link.peer
            );
            link.cut_off(CloseCode::Again, "too many bytes are buffered");
            return true;
        }
        let is_slow = behind > 0 && behind.saturating_add(more) > most;
        if is_slow {
            self.hub.counts.slow.add(1);
            tremor_pdk::warn!(self.hub.host, "{} is closed: it reads too slowly", link.peer);
            link.cut_off(CloseCode::Policy, "too slow");
        }
        is_slow
    }
}

impl Sink for Sender {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut links = self.hub.links();
        let more = batch.iter().map(RawEvent::raw).map(|it| cost(it.len())).sum();
        let of_origin: HashMap<Arc<str>, usize> = match self.hub.config.send_to {
            SendTo::All => HashMap::new(),
            SendTo::Origin => {
                links.iter().enumerate().map(|(at, it)| (it.peer.clone(), at)).collect()
            }
        };
        if self.hub.config.send_to == SendTo::All {
            links.retain(|link| !self.is_slow(link, more));
        }
        let mut lost = Vec::new();
        // Whom each event was sent to, where that is not everybody.
        let mut sent: Vec<(RawEvent<'_>, usize)> = Vec::new();
        let mut any = false;
        for event in batch {
            let bytes = event.raw();
            let message = match self.hub.config.frames.message(bytes) {
                Ok(message) => message,
                Err(error) => {
                    lost.push((event, error));
                    continue;
                }
            };
            match self.hub.config.send_to {
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
            // What was sent to a client that is gone now is not delivered.
            let are_lost = sent.into_iter().filter(|(_, at)| links[*at].unwritten().is_none());
            lost.extend(are_lost.map(|(event, _)| (event, gone())));
        } else if any && !written_to_one(&links).await {
            // All of them have gone meanwhile. The next attempt finds others, or none.
            return Err(nobody().with_policy(ErrorPolicy::RETRY).into());
        }
        Exceptions::from_iter(lost).into()
    }
}

/// Waits until the system has everything for one of them. False if all of them are gone before.
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
    Error::bad_data("the client that the event came from is gone, or the event came from none")
}
