//! A connection. When it is lost, the runtime hears of it and makes the next one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::{Event, ServerError, rustls::ClientConfig};
use futures_util::StreamExt;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};
use tremor_pdk::{prelude::*, tokio::Tokio};

use super::{Peer, refused_connection};

/// How long an attempt may take with each server.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often the server is asked for a sign of life; after two that are missing the connection is lost.
const PING: Duration = Duration::from_secs(10);
/// How many refusals a delivery may be behind.
const DENIALS: usize = 1_024;
/// How many messages of a subscription wait for its reader; those after them are dropped. More than any
/// reader of a stream asks for.
pub(crate) const WAITING: usize = 1 << 17;
/// Where there is no server.
const NOWHERE: &str = "127.0.0.1:0";

/// A client with one connection, and no other after it.
#[derive(Clone)]
pub(crate) struct Client {
    /// While it is there, the runtime is to hear of a loss. Dropped before the client is: its end is no loss.
    _is_ours: Arc<()>,
    pub(crate) nats: async_nats::Client,
    /// What the server did not let this client do.
    pub(crate) denied: broadcast::Sender<Denied>,
}

/// What a user may not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Publish to this subject.
    Publish(String),
    /// Subscribe to this subject.
    Subscribe(String),
}

/// How the server said that it has seen everything that was published before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trip {
    /// A message came back.
    Back,
    /// It lets this user have no inbox, which it says after everything before.
    Denied,
}

impl Client {
    /// Waits until the server has seen everything that was published before, and said what of it it refuses: a
    /// message to itself comes back.
    ///
    /// # Errors
    /// The connection is lost, or nothing comes back within this time.
    pub(crate) async fn round_trip(&self, within: Duration) -> Result<Trip> {
        let mut denied = self.denied.subscribe();
        let inbox = self.nats.new_inbox();
        let trip = async {
            let mut subscriber = self.nats.subscribe(inbox.clone()).await.ok()?;
            self.nats.publish(inbox.clone(), bytes::Bytes::new()).await.ok()?;
            loop {
                tokio::select! {
                    biased;
                    said = denied.recv() => match said {
                        Ok(Denied::Publish(it) | Denied::Subscribe(it)) if it == inbox => {
                            return Some(Trip::Denied);
                        }
                        // The other end is here.
                        Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => {}
                    },
                    message = subscriber.next() => return message.map(|_| Trip::Back),
                }
            }
        };
        let Ok(trip) = timeout(within, trip).await else {
            return Err(Error::timeout("the server does not answer in time"));
        };
        // What it refused was said before, and is told by a task of the client's own, which is woken first.
        tokio::task::yield_now().await;
        trip.ok_or_else(lost)
    }

    /// What comes of a future, unless the server says meanwhile that this user may not do that.
    ///
    /// # Errors
    /// Kind authentication: the server does not let it.
    pub(crate) async fn allowed<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let mut denied = self.denied.subscribe();
        tokio::select! {
            biased;
            Ok(denied) = denied.recv() => Err(denied.error()),
            result = future => result,
        }
    }
}

impl Denied {
    /// Of `Permissions Violation for Publish to "orders"`.
    fn of(text: &str) -> Option<Self> {
        let (_, text) = text.split_once("Permissions Violation for ")?;
        let (what, subject) = text.split_once(" to \"")?;
        match what {
            // As Go quotes it.
            "Publish" => {
                let subject = subject.rsplit_once('"')?.0;
                Some(Self::Publish(subject.replace("\\\"", "\"").replace("\\\\", "\\")))
            }
            "Subscription" => Some(Self::Subscribe(subject.split_once('"')?.0.to_owned())),
            _ => None,
        }
    }

    fn is_inbox(&self) -> bool {
        let (Self::Publish(subject) | Self::Subscribe(subject)) = self;
        subject.starts_with("_INBOX.")
    }

    /// Nothing that this client can mend.
    pub(crate) fn error(&self) -> Error {
        let (what, subject) = match self {
            Self::Publish(subject) => ("publish", subject),
            Self::Subscribe(subject) => ("subscribe", subject),
        };
        Error::authentication(format_args!(
            "the server does not let this user {what} to `{subject}`; see its permissions"
        ))
    }
}

/// The connection is gone.
pub(crate) fn lost() -> Error {
    Error::connection_lost("the connection to the server is lost")
}

/// Reaches one of the servers.
///
/// # Errors
/// Why none is reached. A secret is in none.
pub(crate) async fn connect(tokio: &Tokio, host: &Host, peer: &Peer) -> Result<Client> {
    let tls = peer.tls_config().await?;
    let (host, peer) = (host.clone(), peer.clone());
    tokio.run(async move { attempt(host, &peer, tls).await }).await?
}

async fn attempt(host: Host, peer: &Peer, tls: Option<Arc<ClientConfig>>) -> Result<Client> {
    let (denied, _) = broadcast::channel(DENIALS);
    let is_ours = Arc::new(());
    let heard = Arc::new(Heard { denied: denied.clone(), is_ours: Arc::downgrade(&is_ours), host });
    let options = peer.options(tls).await?;
    let options = options
        .name("tremor")
        .connection_timeout(ATTEMPT)
        .ping_interval(PING)
        .subscription_capacity(WAITING)
        // Each server once.
        .max_reconnects(Some(peer.servers.len()))
        .reconnect_delay_callback(|_| Duration::ZERO)
        .event_callback(move |event| {
            heard.hear(&event);
            std::future::ready(())
        });
    let nats =
        options.connect(&peer.servers).await.map_err(|error| refused_connection(&error, peer))?;
    // The runtime connects again, and knows then what was not delivered. The client must not: it would say of what
    // was in its buffer that it is sent, wait for answers that nobody gives, and later send again what was
    // delivered over another connection meanwhile. It cannot be told so, but to go where there is nobody.
    let stays = nats.set_server_pool(NOWHERE).await;
    stays.map_err(|error| lost().caused_by(&error))?;
    Ok(Client { _is_ours: is_ours, nats, denied })
}

/// What the client tells besides answers.
struct Heard {
    host: Host,
    denied: broadcast::Sender<Denied>,
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
            Event::LameDuckMode => {
                tremor_pdk::info!(
                    self.host,
                    "the server is about to end, and asks to go elsewhere"
                );
            }
            Event::ServerError(error) => {
                let denied = match error {
                    ServerError::Other(text) => Denied::of(text),
                    _ => None,
                };
                // Who uses an inbox says what follows from that.
                if !denied.as_ref().is_some_and(Denied::is_inbox) {
                    tremor_pdk::warn!(self.host, "{error}");
                }
                if let Some(denied) = denied {
                    // Without somebody who waits nobody listens.
                    let _ = self.denied.send(denied);
                }
            }
            // Of attempts to connect, which are told otherwise; and readers of core NATS count what they miss.
            Event::ClientError(error) => tremor_pdk::debug!(self.host, "{error}"),
            Event::Connected | Event::Draining | Event::SlowConsumer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_refuses_is_understood() {
        let text = "Permissions Violation for Publish to \"orders.new\"";
        assert_eq!(Denied::of(text), Some(Denied::Publish("orders.new".to_owned())));
        let text = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(Denied::of(text), Some(Denied::Subscribe("a.>".to_owned())));
        assert_eq!(Denied::of("Maximum Payload Violation"), None);
    }
}
