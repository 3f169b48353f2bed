//! A NATS client that tests use to prepare and inspect a server.

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

pub use crate::{
    kafka::unique,
    lines::{line as record, numbers},
};

/// A client of one or several servers. It opens a new connection for each call.
pub struct Nats {
    address: String,
    runtime: Runtime,
}

impl Nats {
    /// Creates a client of the server at this address, or of several servers separated by commas.
    pub fn new(address: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { address: address.to_owned(), runtime }
    }

    /// Returns the address `HOST:PORT`. Joins several addresses with `', '`, so that they form a list in a flow file.
    pub fn address(&self) -> String {
        self.address.replace(',', "', '")
    }

    fn ask<T>(&self, what: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(async {
            let options = ConnectOptions::new().connection_timeout(Duration::from_secs(10));
            // If there are several servers, connect to any server that runs.
            let servers: Vec<&str> = self.address.split(',').collect();
            let client = options.connect(&servers[..]).await.unwrap();
            let answer = what(&client).await;
            client.flush().await.unwrap();
            answer
        })
    }

    /// Creates a stream with the subjects `NAME.>`, and returns its name.
    pub fn stream(&self, name: &str) -> String {
        self.stream_with(name, |_| {})
    }

    /// Creates a stream like [`Self::stream`], with settings that `set` changes.
    pub fn stream_with(&self, name: &str, set: impl FnOnce(&mut stream::Config)) -> String {
        let name = unique(name);
        let subjects = vec![format!("{name}.>")];
        let mut config = stream::Config { name: name.clone(), subjects, ..Default::default() };
        set(&mut config);
        // Retry, because nodes that have just started do not know all other nodes for a while.
        eventually("a stream", || {
            let config = config.clone();
            self.ask(async |client| {
                jetstream::new(client.clone()).create_stream(config).await.ok().map(drop)
            })
        });
        name
    }

    /// Publishes messages, and waits until the stream has stored them.
    pub fn publish(&self, subject: &str, messages: impl IntoIterator<Item = String>) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone());
            for message in messages {
                let sent = stream.publish(subject.to_owned(), message.into()).await;
                sent.unwrap().await.unwrap();
            }
        });
    }

    /// Publishes messages like [`Self::publish`], and retries while the stream has no leader.
    pub fn publish_with_retry(&self, subject: &str, messages: impl IntoIterator<Item = String>) {
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

    /// Publishes messages with headers, without JetStream.
    pub fn publish_core(&self, subject: &str, headers: &HeaderMap, messages: &[String]) {
        self.ask(async |client| {
            for message in messages {
                let (subject, payload) = (subject.to_owned(), message.clone().into());
                client.publish_with_headers(subject, headers.clone(), payload).await.unwrap();
            }
        });
    }

    /// Returns all messages of the stream, in order: subjects, headers and payloads.
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

    /// Returns the payloads of the stream, in order; `None` while the stream has no leader.
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

    /// Returns the last message of the stream: subject, headers and payload.
    pub fn last(&self, stream: &str) -> Option<(String, HeaderMap, String)> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            let number = stream.cached_info().state.last_sequence;
            let message = stream.get_raw_message(number).await.ok()?;
            let payload = String::from_utf8(message.payload.to_vec()).unwrap();
            Some((message.subject.to_string(), message.headers, payload))
        })
    }

    /// Starts a service that answers each message of a subject with `text`, until the test ends.
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

    /// Returns the number of messages in the stream; `None` while the stream has no leader.
    pub fn try_count(&self, stream: &str) -> Option<u64> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            Some(stream.cached_info().state.messages)
        })
    }

    /// Returns the number of messages in the stream.
    pub fn count(&self, stream: &str) -> u64 {
        self.try_count(stream).expect("the stream has a leader")
    }

    /// Returns the server's information about a consumer.
    pub fn consumer(&self, stream: &str, consumer: &str) -> Option<consumer::Info> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            stream.consumer_info(consumer).await.ok()
        })
    }

    /// Creates a consumer.
    pub fn make_consumer(&self, stream: &str, config: consumer::pull::Config) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.create_consumer(config).await.unwrap();
        });
    }

    /// Deletes a consumer, which has to exist.
    pub fn delete_consumer(&self, stream: &str, consumer: &str) {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.unwrap();
            stream.delete_consumer(consumer).await.unwrap();
        });
    }

    /// Deletes a stream and its consumers.
    pub fn delete_stream(&self, stream: &str) {
        self.ask(async |client| {
            jetstream::new(client.clone()).delete_stream(stream).await.unwrap();
        });
    }

    /// Deletes all messages of a stream, and returns their payloads.
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

    /// Returns the number of the node that leads a stream, which is part of the node's name, or `None` while the stream
    /// has no leader.
    pub fn leader(&self, stream: &str) -> Option<u32> {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok()?;
            let leader = stream.cached_info().cluster.as_ref()?.leader.clone()?;
            leader.strip_prefix('n')?.parse().ok()
        })
    }

    /// Returns whether all replicas of a stream have the messages of its leader.
    pub fn is_in_sync(&self, stream: &str) -> bool {
        self.ask(async |client| {
            let stream = jetstream::new(client.clone()).get_stream(stream).await.ok();
            let cluster = stream.and_then(|it| it.cached_info().cluster.clone());
            cluster.is_some_and(|it| it.leader.is_some() && it.replicas.iter().all(|it| it.current))
        })
    }

    /// Publishes a message whose header section is `headers`. Does not use a client library, so that the headers may be
    /// malformed.
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
            assert!(
                answers.read_line(&mut line).unwrap() > 0,
                "the server has closed the connection"
            );
            assert!(!line.starts_with("-ERR"), "{line}");
            if line.starts_with("PONG") {
                return;
            }
        }
    }

    /// Waits until a consumer has acknowledged all messages up to number `up_to` and has no pending messages.
    pub fn acknowledged(&self, stream: &str, consumer: &str, up_to: u64) {
        eventually(format_args!("{consumer} has acknowledged {up_to}"), || {
            let info = self.consumer(stream, consumer)?;
            let is = info.ack_floor.stream_sequence >= up_to && info.num_ack_pending == 0;
            is.then_some(())
        });
    }
}
