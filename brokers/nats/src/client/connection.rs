//! A connection. When it is lost, the runtime hears of it and makes the next one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::{Event, ServerError};
use tokio::sync::broadcast;
use tremor_pdk::{Counter, prelude::*, tokio::Tokio};

use super::{Peer, refused_connection};

/// How long an attempt may take with each server.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often the server is asked for a sign of life; after two that are missing the connection is lost.
const PING: Duration = Duration::from_secs(10);
/// How many refusals a delivery may be behind.
const DENIALS: usize = 1_024;

/// A client with one connection.
pub(crate) struct Client {
    pub(crate) nats: async_nats::Client,
    /// Subjects to which the server did not let this client publish.
    pub(crate) denied: broadcast::Sender<String>,
    /// While it is there, the runtime is to hear of a loss.
    _is_ours: Arc<()>,
}

/// Reaches one of the servers.
///
/// # Errors
/// Why none is reached. A secret is in none.
pub(crate) async fn connect(tokio: &Tokio, host: &Host, peer: &Peer) -> Result<Client> {
    let (host, peer) = (host.clone(), peer.clone());
    tokio.run(async move { attempt(host, &peer).await }).await?
}

async fn attempt(host: Host, peer: &Peer) -> Result<Client> {
    let (denied, _) = broadcast::channel(DENIALS);
    let is_ours = Arc::new(());
    let heard = Heard {
        dropped: host
            .counter("dropped", "Messages of core NATS that came faster than the flow took them."),
        denied: denied.clone(),
        is_ours: Arc::downgrade(&is_ours),
        host,
    };
    let heard = Arc::new(heard);
    let options = peer.options().await?;
    let options = options
        .name("tremor")
        .connection_timeout(ATTEMPT)
        .ping_interval(PING)
        // The runtime connects again, and knows then what was not delivered.
        .max_reconnects(Some(peer.servers.len()))
        .reconnect_delay_callback(|_| Duration::ZERO)
        .event_callback(move |event| {
            heard.hear(&event);
            std::future::ready(())
        });
    let nats =
        options.connect(&peer.servers).await.map_err(|error| refused_connection(&error, peer))?;
    Ok(Client { nats, denied, _is_ours: is_ours })
}

/// What the client tells besides answers.
struct Heard {
    host: Host,
    dropped: Counter,
    denied: broadcast::Sender<String>,
    is_ours: Weak<()>,
}

impl Heard {
    fn hear(&self, event: &Event) {
        if self.is_ours.strong_count() == 0 {
            return;
        }
        match event {
            Event::Disconnected | Event::Closed => {
                tremor_pdk::warn!(self.host, "the connection to the server is lost");
                self.host.connection_lost();
            }
            Event::SlowConsumer(_) => self.dropped.add(1),
            Event::LameDuckMode => {
                tremor_pdk::info!(
                    self.host,
                    "the server is about to end, and asks to go elsewhere"
                );
            }
            Event::ServerError(error) => {
                tremor_pdk::warn!(self.host, "{error}");
                if let ServerError::Other(text) = error
                    && let Some(subject) = denied_subject(text)
                {
                    // Without a delivery under way nobody listens.
                    let _ = self.denied.send(subject.to_owned());
                }
            }
            Event::ClientError(error) => tremor_pdk::warn!(self.host, "{error}"),
            Event::Connected | Event::Draining => {}
        }
    }
}

/// Of `Permissions Violation for Publish to "orders"`.
fn denied_subject(text: &str) -> Option<&str> {
    let (_, subject) = text.split_once("Permissions Violation for Publish to \"")?;
    Some(subject.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_refusal_is_found() {
        let text = "Permissions Violation for Publish to \"orders.new\"";
        assert_eq!(denied_subject(text), Some("orders.new"));
        assert_eq!(denied_subject("Permissions Violation for Subscription to \"a\""), None);
    }
}
