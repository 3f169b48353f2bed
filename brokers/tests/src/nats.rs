//! NATS's own view of what it has.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, HeaderMap,
    jetstream::{self, consumer, stream},
};
use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};

use crate::eventually;

pub use crate::kafka::unique;

/// A client of a server. It lives while it is asked something.
pub struct Nats {
    address: String,
    runtime: Runtime,
}

impl Nats {
    /// One of the server at this address, or of several with commas between them.
    pub fn new(address: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { address: address.to_owned(), runtime }
    }

    /// `HOST:PORT`; of several servers, as a list in a flow file has them: in quotes.
    pub fn address(&self) -> String {
        self.address.replace(',', "', '")
    }

    fn ask<T>(&self, what: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(async {
            let options = ConnectOptions::new().connection_timeout(Duration::from_secs(10));
            // Of several servers, any that runs.
            let servers: Vec<&str> = self.address.split(',').collect();
            let client = options.connect(&servers[..]).await.unwrap();
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
        // Nodes that have just started know too few of the others for a while.
        eventually("a stream", || {
            let config = config.clone();
            self.ask(async |client| {
                jetstream::new(client.clone()).create_stream(config).await.ok().map(drop)
            })
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

    /// The same while the stream may have no leader for a while.
    pub fn publish_again(&self, subject: &str, messages: impl IntoIterator<Item = String>) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone());
            for message in messages {
                loop {
                    let sent = stream.publish(subject.to_owned(), message.clone().into()).await;
                    if sent.unwrap().await.is_ok() {
                        break;
                    }
                }
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

    /// The payloads that the stream has, in its order; none while it has no leader.
    pub fn try_messages(&self, stream: &str) -> Option<Vec<String>> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            let mut all = Vec::new();
            for number in 1..=stream.cached_info().state.last_sequence {
                let message = stream.get_raw_message(number).await.ok()?;
                all.push(String::from_utf8(message.payload.to_vec()).unwrap());
            }
            Some(all)
        })
    }

    /// The last message that it has: subject, headers and payload.
    pub fn last(&self, stream: &str) -> Option<(String, HeaderMap, String)> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            let number = stream.cached_info().state.last_sequence;
            let message = stream.get_raw_message(number).await.ok()?;
            let payload = String::from_utf8(message.payload.to_vec()).unwrap();
            Some((message.subject.to_string(), message.headers, payload))
        })
    }

    /// Something that answers each message of a subject with a text, until the test ends.
    pub fn service(&self, subject: &str, text: &'static str) {
        let (address, subject) = (self.address.clone(), subject.to_owned());
        let (is_ready, ready) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = async_nats::connect(address).await.unwrap();
                let mut messages = client.subscribe(subject).await.unwrap();
                client.flush().await.unwrap();
                is_ready.send(()).unwrap();
                while let Some(message) = messages.next().await {
                    let Some(reply) = message.reply else { continue };
                    client.publish(reply, text.into()).await.unwrap();
                }
            });
        });
        ready.recv().unwrap();
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

    /// Deletes one.
    pub fn delete_consumer(&self, stream: &str, consumer: &str) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.delete_consumer(consumer).await.unwrap();
        });
    }

    /// Deletes a stream.
    pub fn delete_stream(&self, stream: &str) {
        self.ask(async |client| {
            jetstream::new(client.clone()).delete_stream(stream).await.unwrap();
        });
    }

    /// Deletes what a stream has, and gives its payloads.
    pub fn take(&self, stream: &str) -> Vec<String> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            let state = &stream.cached_info().state;
            let mut all = Vec::new();
            for number in state.first_sequence..=state.last_sequence {
                let message = stream.get_raw_message(number).await.unwrap();
                all.push(String::from_utf8(message.payload.to_vec()).unwrap());
            }
            stream.purge().sequence(state.last_sequence + 1).await.unwrap();
            all
        })
    }

    /// Which node leads a stream, by the number in its name; none while there is no leader.
    pub fn leader(&self, stream: &str) -> Option<u32> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            let leader = stream.cached_info().cluster.as_ref()?.leader.clone()?;
            leader.strip_prefix('n')?.parse().ok()
        })
    }

    /// Whether all replicas of a stream have what its leader has.
    pub fn is_in_sync(&self, stream: &str) -> bool {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok();
            let cluster = stream.and_then(|it| it.cached_info().cluster.clone());
            cluster.is_some_and(|it| it.leader.is_some() && it.replicas.iter().all(|it| it.current))
        })
    }

    /// Publishes a message with such lines in the place of headers, as no client would.
    pub fn publish_raw(&self, subject: &str, headers: &str, payload: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let (length, all) = (headers.len(), headers.len() + payload.len());
        let connect = r#"CONNECT {"verbose":false,"headers":true}"#;
        write!(
            stream,
            "{connect}\r\nHPUB {subject} {length} {all}\r\n{headers}{payload}\r\nPING\r\n"
        )
        .unwrap();
        loop {
            let mut line = String::new();
            assert!(answers.read_line(&mut line).unwrap() > 0, "the server has closed it");
            assert!(!line.starts_with("-ERR"), "{line}");
            if line.starts_with("PONG") {
                return;
            }
        }
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
