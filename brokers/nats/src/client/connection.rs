//! A connection to a server. If the connection is lost, the runtime is notified and makes a new one.

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

/// Maximum time of a connection attempt with each server.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Interval of pings to the server. The connection is lost after two unanswered pings.
const PING: Duration = Duration::from_secs(10);
/// Maximum number of denials that may wait for a slow receiver. Further denials replace the oldest ones.
const DENIED_CAPACITY: usize = 1_024;
/// Maximum number of messages of a subscription that wait for their reader. The client drops further messages. The
/// limit is larger than any request for messages of a stream.
pub(crate) const SUBSCRIPTION_CAPACITY: usize = 1 << 17;
/// Address on which no server listens.
const NOWHERE: &str = "127.0.0.1:0";

/// A client with a single connection. It never reconnects.
#[derive(Clone)]
pub(crate) struct Client {
    /// While this value exists, the loss of the connection is reported to the runtime. Declared before `nats` to be
    /// dropped first, so that closing the client is not reported as a loss.
    _is_ours: Arc<()>,
    pub(crate) nats: async_nats::Client,
    /// Sends each operation that the server has denied to the receivers.
    pub(crate) denied: broadcast::Sender<Denied>,
}

/// An operation that the user has no permission for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Publishing to this subject.
    Publish(String),
    /// Subscribing to this subject.
    Subscribe(String),
}

/// Result of a round trip: in either case, the server has processed everything that was published before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundTrip {
    /// The client has received the message that it sent to itself.
    Completed,
    /// The server denied the inbox of the round trip. The server reports the denial only after it has
    /// processed all earlier messages.
    Denied,
}

impl Client {
    /// Waits until the server has processed everything that was published before, and has reported all denials. The
    /// method sends a message to the client itself through the server, and waits for the message.
    ///
    /// # Errors
    /// The connection was lost, or the server did not answer within `within`.
    pub(crate) async fn round_trip(&self, within: Duration) -> Result<RoundTrip> {
        let mut denied = self.denied.subscribe();
        let inbox = self.nats.new_inbox();
        let trip = async {
            let mut subscriber = self.nats.subscribe(inbox.clone()).await.ok()?;
            self.nats.publish(inbox.clone(), bytes::Bytes::new()).await.ok()?;
            loop {
                tokio::select! {
                    biased;
                    received = denied.recv() => match received {
                        Ok(Denied::Publish(it) | Denied::Subscribe(it)) if it == inbox => {
                            return Some(RoundTrip::Denied);
                        }
                        // The channel is never closed, because this client owns the sender.
                        Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => {}
                    },
                    message = subscriber.next() => return message.map(|_| RoundTrip::Completed),
                }
            }
        };
        let Ok(trip) = timeout(within, trip).await else {
            return Err(Error::timeout(format_args!(
                "the server did not answer within {within:?}"
            )));
        };
        // Denials have arrived before the reply, but a task of the client still has to distribute them. The task of the
        // client was woken before the current task, so it runs during the yield.
        tokio::task::yield_now().await;
        trip.ok_or_else(lost)
    }

    /// Returns the result of `future`, or an error as soon as the server denies an operation.
    ///
    /// # Errors
    /// An error of the kind authentication if the server denied an operation; otherwise the errors
    /// of `future`.
    pub(crate) async fn unless_denied<T>(
        &self,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut denied = self.denied.subscribe();
        tokio::select! {
            biased;
            Ok(denied) = denied.recv() => Err(denied.error()),
            result = future => result,
        }
    }
}

impl Denied {
    /// Parses the text of an error, such as `Permissions Violation for Publish to "orders"`.
    fn of(text: &str) -> Option<Self> {
        let (_, text) = text.split_once("Permissions Violation for ")?;
        let (what, subject) = text.split_once(" to \"")?;
        match what {
            // The subject is quoted according to the rules of Go.
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

    /// Returns the error for this denial. It is final, because the client cannot change its permissions.
    pub(crate) fn error(&self) -> Error {
        let (what, subject) = match self {
            Self::Publish(subject) => ("publish", subject),
            Self::Subscribe(subject) => ("subscribe", subject),
        };
        Error::authentication(format_args!(
            "cannot {what} to `{subject}`: the server denied permission; check the permissions of this user"
        ))
    }
}

/// Returns the error of a lost connection.
pub(crate) fn lost() -> Error {
    Error::connection_lost("the connection to the server is lost")
}

/// Connects to one of the servers.
///
/// # Errors
/// No server could be reached, or the servers rejected this client. Never contains a secret.
pub(crate) async fn connect(tokio: &Tokio, host: &Host, peer: &Peer) -> Result<Client> {
    let tls = peer.tls_config().await?;
    let (host, peer) = (host.clone(), peer.clone());
    tokio.run(async move { attempt(host, &peer, tls).await }).await?
}

async fn attempt(host: Host, peer: &Peer, tls: Option<Arc<ClientConfig>>) -> Result<Client> {
    let (denied, _) = broadcast::channel(DENIED_CAPACITY);
    let is_ours = Arc::new(());
    let handler =
        Arc::new(EventHandler { denied: denied.clone(), is_ours: Arc::downgrade(&is_ours), host });
    let options = peer.options(tls).await?;
    let options = options
        .name("tremor")
        .connection_timeout(ATTEMPT)
        .ping_interval(PING)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        // Try each server once.
        .max_reconnects(Some(peer.servers.len()))
        .reconnect_delay_callback(|_| Duration::ZERO)
        .event_callback(move |event| {
            handler.handle(&event);
            std::future::ready(())
        });
    let nats =
        options.connect(&peer.servers).await.map_err(|error| refused_connection(&error, peer))?;
    // The runtime reconnects, because it knows which events were not delivered. The client must not reconnect: it would
    // report its buffered messages as sent, wait for replies that never arrive, and later send messages that another
    // connection has delivered meanwhile. The client has no option to turn reconnecting off, so replace its servers by
    // an address on which no server listens.
    let replaced = nats.set_server_pool(NOWHERE).await;
    replaced.map_err(|error| lost().caused_by(&error))?;
    Ok(Client { _is_ours: is_ours, nats, denied })
}

/// Handler of the client's events.
struct EventHandler {
    host: Host,
    denied: broadcast::Sender<Denied>,
    is_ours: Weak<()>,
}

impl EventHandler {
    fn handle(&self, event: &Event) {
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
                    "the server is about to shut down (lame duck mode): the client reconnects to another server"
                );
            }
            Event::ServerError(error) => {
                let denied = match error {
                    ServerError::Other(text) => Denied::of(text),
                    _ => None,
                };
                // Do not log denied inboxes: the code that uses the inbox reports the consequence.
                if !denied.as_ref().is_some_and(Denied::is_inbox) {
                    tremor_pdk::warn!(self.host, "{error}");
                }
                if let Some(denied) = denied {
                    // Ignore the error, which means that no receiver exists.
                    let _ = self.denied.send(denied);
                }
            }
            // Log these only for debugging: `connect` also returns the errors of connection attempts.
            Event::ClientError(error) => tremor_pdk::debug!(self.host, "{error}"),
            Event::Connected | Event::Draining | Event::SlowConsumer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_violations_are_parsed() {
        let text = "Permissions Violation for Publish to \"orders.new\"";
        assert_eq!(Denied::of(text), Some(Denied::Publish("orders.new".to_owned())));
        let text = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(Denied::of(text), Some(Denied::Subscribe("a.>".to_owned())));
        assert_eq!(Denied::of("Maximum Payload Violation"), None);
    }
}
