//! The task on tokio that sends answers to messages: acknowledgements, negative acknowledgements and progress reports.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tremor_pdk::{Counter, TicketProgress, prelude::*};

use super::{
    config::Acknowledge,
    record::Ticket,
    shared::{Close, Shared},
};

/// State of the task that sends answers.
pub(super) struct Answers {
    pub(super) client: Client,
    pub(super) host: Host,
    pub(super) closes: mpsc::UnboundedReceiver<Close>,
    pub(super) shared: Arc<Shared>,
    pub(super) ack: Acknowledge,
    pub(super) ack_wait: Duration,
    /// Time after which the server redelivers a message that has failed.
    pub(super) retry_delay: Duration,
    pub(super) acknowledged: Counter,
    pub(super) failed: Counter,
    pub(super) unconfirmed: Counter,
}

const ACK: Bytes = Bytes::from_static(b"+ACK");
const PROGRESS: Bytes = Bytes::from_static(b"+WPI");

impl Answers {
    /// Runs until the source closes or the task is dropped.
    pub(super) async fn run(mut self) {
        let mut confirmations = FuturesUnordered::new();
        // Report progress well before `ack_wait` has passed: at each tick, progress is reported for
        // messages that are older than `period`. The first report is therefore sent after at most
        // half of `ack_wait`.
        let period = self.ack_wait / 4;
        let mut ticks = interval(period.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                close = self.closes.recv() => {
                    let Some(Close { unread, sent }) = close else { return };
                    confirmations.extend(self.answer(self.shared.tickets.take()).await);
                    self.send(unread, &nak(Duration::ZERO)).await;
                    while let Some(confirmed) = confirmations.next().await {
                        self.confirmed(confirmed);
                    }
                    // Ignore the error: if the connection is lost, the messages are redelivered.
                    let _ = self.client.flush().await;
                    // Ignore the error, which means that the source no longer waits.
                    let _ = sent.send(());
                }
                progress = self.shared.tickets.progress() => {
                    confirmations.extend(self.answer(progress).await);
                }
                Some(confirmed) = confirmations.next(), if !confirmations.is_empty() => {
                    self.confirmed(confirmed);
                }
                _ = ticks.tick() => {
                    let waiting = self.shared.waiting_for(period);
                    self.send(waiting, &PROGRESS).await;
                }
            }
        }
    }

    /// Sends the answers for messages that have ended. With `ack: double`, returns the acknowledgements that the server
    /// has to confirm instead of sending them.
    async fn answer(
        &self,
        TicketProgress { acknowledged, failed }: TicketProgress<Ticket>,
    ) -> Vec<impl Future<Output = Result<(), async_nats::RequestError>> + use<>> {
        let good: Vec<_> = acknowledged.into_iter().map(|(_, reply)| reply).collect();
        let bad: Vec<_> = failed.into_iter().map(|failed| failed.ticket.1).collect();
        self.failed.add(bad.len() as u64);
        let confirmations = if self.ack == Acknowledge::Double {
            good.into_iter().map(|reply| confirm(self.client.clone(), reply)).collect()
        } else {
            let count = good.len() as u64;
            self.send(good, &ACK).await;
            self.acknowledged.add(count);
            Vec::new()
        };
        self.send(bad, &nak(self.retry_delay)).await;
        confirmations
    }

    async fn send(&self, replies: Vec<Subject>, answer: &Bytes) {
        for reply in replies {
            if let Err(error) = self.client.publish(reply, answer.clone()).await {
                // The connection is lost. The runtime is notified of that by other code.
                tremor_pdk::debug!(self.host, "cannot answer a message: {error}");
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
                    "the server did not confirm an acknowledgement: {error}; the message may be redelivered"
                );
            }
        }
    }
}

async fn confirm(client: Client, reply: Subject) -> Result<(), async_nats::RequestError> {
    client.request(reply, ACK).await.map(drop)
}

fn nak(delay: Duration) -> Bytes {
    if delay.is_zero() {
        return Bytes::from_static(b"-NAK");
    }
    format!("-NAK {{\"delay\":{}}}", delay.as_nanos()).into()
}
