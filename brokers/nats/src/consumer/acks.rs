//! Answers about messages, on tokio.

use std::{ops::Range, sync::Arc, time::Duration};

use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tremor_pdk::{Counter, prelude::*};

use super::{
    config::Acknowledge,
    shared::{Answer, Shared},
};

/// What the runtime tells about pulls.
pub(super) struct Told(pub(super) Arc<Shared>);

impl Acks for Told {
    /// The server is asked to, and knows how often it did.
    fn brings_again(&self) -> bool {
        false
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.0.ack(pull);
        Ok(())
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.0.failed(pull, events);
        Ok(())
    }
}

/// Sends answers.
pub(super) struct Answers {
    pub(super) client: Client,
    pub(super) host: Host,
    pub(super) said: mpsc::UnboundedReceiver<Answer>,
    pub(super) shared: Arc<Shared>,
    pub(super) ack: Acknowledge,
    pub(super) ack_wait: Duration,
    pub(super) acknowledged: Counter,
    pub(super) unconfirmed: Counter,
}

const ACK: Bytes = Bytes::from_static(b"+ACK");
const PROGRESS: Bytes = Bytes::from_static(b"+WPI");

impl Answers {
    /// Runs until the connection is over.
    pub(super) async fn run(mut self) {
        let mut confirmations = FuturesUnordered::new();
        // Before half of the time has passed, whenever it began.
        let period = self.ack_wait / 4;
        let mut signs = interval(period.max(Duration::from_millis(10)));
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                answer = self.said.recv() => match answer {
                    None => return,
                    Some(Answer::Ack(replies)) if self.ack == Acknowledge::Double => {
                        confirmations.extend(replies.into_iter().map(|it| confirm(self.client.clone(), it)));
                    }
                    Some(Answer::Ack(replies)) => {
                        let count = replies.len() as u64;
                        self.send(replies, &ACK).await;
                        self.acknowledged.add(count);
                    }
                    Some(Answer::Nak(replies, delay)) => self.send(replies, &nak(delay)).await,
                    Some(Answer::Flush(tell)) => {
                        while let Some(confirmed) = confirmations.next().await {
                            self.confirmed(confirmed);
                        }
                        // Without a connection the messages come again.
                        let _ = self.client.flush().await;
                        // Who asked may have gone.
                        let _ = tell.send(());
                    }
                },
                Some(confirmed) = confirmations.next(), if !confirmations.is_empty() => {
                    self.confirmed(confirmed);
                }
                _ = signs.tick() => {
                    let held = self.shared.held(period);
                    self.send(held, &PROGRESS).await;
                }
            }
        }
    }

    async fn send(&self, replies: Vec<Subject>, answer: &Bytes) {
        for reply in replies {
            if let Err(error) = self.client.publish(reply, answer.clone()).await {
                // The connection is over; the runtime hears of that by itself.
                tremor_pdk::debug!(self.host, "an answer about a message is not sent: {error}");
            }
        }
    }

    fn confirmed(&self, confirmed: Result<(), async_nats::RequestError>) {
        match confirmed {
            Ok(()) => self.acknowledged.add(1),
            Err(error) => {
                self.unconfirmed.add(1);
                tremor_pdk::warn!(
                    self.host,
                    "the server does not confirm an acknowledgement: {error}; the message may come again"
                );
            }
        }
    }
}

async fn confirm(client: Client, reply: Subject) -> Result<(), async_nats::RequestError> {
    client.request(reply, ACK).await.map(drop)
}

fn nak(delay: Option<Duration>) -> Bytes {
    match delay.filter(|it| !it.is_zero()) {
        None => Bytes::from_static(b"-NAK"),
        Some(delay) => format!("-NAK {{\"delay\":{}}}", delay.as_nanos()).into(),
    }
}
