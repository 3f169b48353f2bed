//! NATS's own view of what it has.

use std::time::Duration;

use async_nats::{
    Client, ConnectOptions, HeaderMap,
    jetstream::{self, consumer, stream},
};
use tokio::runtime::{Builder, Runtime};

use crate::eventually;

pub use crate::kafka::unique;

/// A client of a server. It lives while it is asked something.
pub struct Nats {
    address: String,
    runtime: Runtime,
}

impl Nats {
    /// One of the server at this address.
    pub fn new(address: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { address: address.to_owned(), runtime }
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn ask<T>(&self, what: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(async {
            let options = ConnectOptions::new().connection_timeout(Duration::from_secs(10));
            let client = options.connect(&self.address).await.unwrap();
            let answer = what(&client).await;
            client.flush().await.unwrap();
            answer
        })
    }

    /// Makes a stream of these subjects, `NAME.>`, and says what it is called.
    pub fn stream(&self, name: &str) -> String {
        self.stream_with(name, |_| {})
    }

    /// The same with other settings.
    pub fn stream_with(&self, name: &str, set: impl FnOnce(&mut stream::Config)) -> String {
        let name = unique(name);
        let subjects = vec![format!("{name}.>")];
        let mut config = stream::Config { name: name.clone(), subjects, ..Default::default() };
        set(&mut config);
        self.ask(async |client| {
            jetstream::new(client.clone()).create_stream(config).await.unwrap();
        });
        name
    }

    /// Publishes these messages, and waits until the stream has them.
    pub fn publish(&self, subject: &str, messages: impl IntoIterator<Item = String>) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone());
            for message in messages {
                let sent = stream.publish(subject.to_owned(), message.into()).await;
                sent.unwrap().await.unwrap();
            }
        });
    }

    /// The same without a stream, with headers.
    pub fn publish_core(&self, subject: &str, headers: &HeaderMap, messages: &[String]) {
        self.ask(async |client| {
            for message in messages {
                let (subject, payload) = (subject.to_owned(), message.clone().into());
                client.publish_with_headers(subject, headers.clone(), payload).await.unwrap();
            }
        });
    }

    /// All that the stream has: subjects, headers and payloads, in its order.
    pub fn messages(&self, stream: &str) -> Vec<(String, HeaderMap, String)> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            let mut all = Vec::new();
            for number in 1..=stream.cached_info().state.last_sequence {
                let message = stream.get_raw_message(number).await.unwrap();
                let payload = String::from_utf8(message.payload.to_vec()).unwrap();
                all.push((message.subject.to_string(), message.headers, payload));
            }
            all
        })
    }

    /// How many messages it has.
    pub fn count(&self, stream: &str) -> u64 {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.cached_info().state.messages
        })
    }

    /// What the server says of a consumer.
    pub fn consumer(&self, stream: &str, consumer: &str) -> Option<consumer::Info> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.consumer_info(consumer).await.ok()
        })
    }

    /// Makes one.
    pub fn make_consumer(&self, stream: &str, config: consumer::pull::Config) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.create_consumer(config).await.unwrap();
        });
    }

    /// Waits until a consumer has all messages up to this one acknowledged, and holds none.
    pub fn acknowledged(&self, stream: &str, consumer: &str, up_to: u64) {
        eventually(&format!("{consumer} has acknowledged {up_to}"), || {
            let info = self.consumer(stream, consumer)?;
            let is = info.ack_floor.stream_sequence >= up_to && info.num_ack_pending == 0;
            is.then_some(())
        });
    }
}

/// A message: `{"n":1}`.
pub fn record(number: usize) -> String {
    format!("{{\"n\":{number}}}")
}

/// The numbers of such messages.
pub fn numbers(lines: &[String]) -> Vec<usize> {
    let number = |line: &String| line.strip_prefix("{\"n\":")?.strip_suffix('}')?.parse().ok();
    lines.iter().filter_map(number).collect()
}
