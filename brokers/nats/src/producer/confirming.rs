//! Publishes the messages of a delivery, and waits until a stream has confirmed them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_nats::{Subject, Subscriber};
use futures_util::{FutureExt, StreamExt};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{Instant, sleep_until},
};
use tremor_pdk::{ErrorPolicy, prelude::*};

use super::{
    config::Settings,
    message::Message,
    outcome::{self, Answer},
};
use crate::client::{Client, Denied, lost};

/// Maximum number of times that a message is published again if no stream has stored it. A stream that elects a new
/// leader stores no messages for a while.
const MAX_RETRIES: u8 = 2;
/// Pause before a message is published again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Result of a delivery.
#[derive(Default)]
pub(super) struct Answers {
    /// Messages that were not stored: position in the batch, and error.
    pub(super) refused: Vec<(usize, Error)>,
    /// Number of messages that the stream recognized as duplicates.
    pub(super) duplicates: u64,
}

/// A delivery that waits for the confirmations of its messages.
pub(super) struct Confirming {
    client: Client,
    settings: Arc<Settings>,
    denied: broadcast::Receiver<Denied>,
    /// Prefix of the reply subjects. The reply to message `n` goes to `INBOX.n`.
    inbox: String,
    messages: Vec<Message>,
    states: Vec<State>,
    /// Number of messages at the start of `messages` that are known to be done, so that searches can skip them.
    first: usize,
    /// Index of the next message to publish.
    next: usize,
    /// Number of messages that were published and not answered.
    in_flight: usize,
    /// Messages to publish again, with the time to do so.
    retries: VecDeque<(Instant, usize)>,
    /// Error after which no more messages of the delivery are published.
    stopped_by: Option<Error>,
    answers: Answers,
}

/// State of a message.
#[derive(Clone, Copy)]
enum State {
    /// The message was not published yet.
    Unpublished,
    /// The message was published. Contains the number of earlier attempts, and the deadline of the answer.
    Published(u8, Instant),
    /// No stream has stored the message, which will be published again. Contains the number of attempts so far.
    Retrying(u8),
    /// The message was answered or has failed.
    Done,
}

impl Confirming {
    pub(super) fn new(
        client: Client,
        settings: Arc<Settings>,
        messages: Vec<Message>,
        refused: Vec<(usize, Error)>,
    ) -> Self {
        Self {
            // Subscribe to denials before the first message is sent, so that no denial is missed.
            denied: client.denied.subscribe(),
            inbox: client.nats.new_inbox(),
            states: vec![State::Unpublished; messages.len()],
            answers: Answers { refused, duplicates: 0 },
            client,
            settings,
            messages,
            first: 0,
            next: 0,
            in_flight: 0,
            retries: VecDeque::new(),
            stopped_by: None,
        }
    }

    /// Publishes all messages in order, and waits for the answers. If a message fails with an error that may be
    /// temporary, the messages that are not published yet fail with the same error, so that they do not overtake the
    /// failed message.
    ///
    /// # Errors
    /// The connection was lost.
    pub(super) async fn publish(mut self) -> Result<Answers> {
        let subscribed = self.client.nats.subscribe(format!("{}.*", self.inbox)).await;
        let mut replies = subscribed.map_err(|error| lost().caused_by(&error))?;
        loop {
            while self.may_publish() {
                let next = self.next;
                self.next += 1;
                self.send(next, 0).await?;
                // Handle replies only after every 64 messages, so that not every message causes a task switch.
                if next % 64 == 63 {
                    self.handle_replies(&mut replies)?;
                }
            }
            if self.in_flight == 0 && self.retries.is_empty() {
                break;
            }
            self.wait(&mut replies).await?;
        }
        if let Some(error) = self.stopped_by {
            let unpublished = self.messages[self.next..].iter();
            self.answers.refused.extend(unpublished.map(|it| (it.position, error.clone())));
        }
        Ok(self.answers)
    }

    fn may_publish(&self) -> bool {
        self.next < self.messages.len()
            && self.in_flight < self.settings.window
            && self.retries.is_empty()
            && self.stopped_by.is_none()
    }

    async fn send(&mut self, number: usize, before: u8) -> Result<()> {
        let message = &self.messages[number];
        let (subject, payload) = (message.subject.clone(), message.payload.clone());
        let reply = Subject::from(format!("{}.{number}", self.inbox));
        let nats = &self.client.nats;
        let sent = match &message.headers {
            Some(headers) => {
                let headers = headers.clone();
                nats.publish_with_reply_and_headers(subject, reply, headers, payload).await
            }
            None => nats.publish_with_reply(subject, reply, payload).await,
        };
        match sent {
            Ok(()) => {
                let until = Instant::now() + self.settings.timeout;
                self.states[number] = State::Published(before, until);
                self.in_flight += 1;
            }
            Err(error) => {
                let error = outcome::unpublished(&error, &message.subject);
                if error.policy() == ErrorPolicy::RECONNECT {
                    return Err(error);
                }
                self.reject(number, error);
            }
        }
        Ok(())
    }

    /// Waits for a denial, a reply or the next deadline, and handles it.
    async fn wait(&mut self, replies: &mut Subscriber) -> Result<()> {
        while self.first < self.next && matches!(self.states[self.first], State::Done) {
            self.first += 1;
        }
        let deadline = self.states[self.first..self.next].iter().find_map(|it| match it {
            State::Published(_, until) => Some(*until),
            _ => None,
        });
        let retry = self.retries.front().map(|(at, _)| *at);
        let next = deadline.into_iter().chain(retry).min().unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            denied = self.denied.recv() => self.handle_denial(&denied),
            reply = replies.next() => {
                self.handle_reply(&reply.ok_or_else(lost)?);
                self.handle_replies(replies)?;
            }
            () = sleep_until(next) => self.handle_deadlines().await?,
        }
        Ok(())
    }

    /// Handles all replies that are available now.
    fn handle_replies(&mut self, replies: &mut Subscriber) -> Result<()> {
        while let Some(reply) = replies.next().now_or_never() {
            self.handle_reply(&reply.ok_or_else(lost)?);
        }
        Ok(())
    }

    fn handle_reply(&mut self, reply: &async_nats::Message) {
        let number = reply.subject.rsplit_once('.').and_then(|(_, it)| it.parse::<usize>().ok());
        let Some(number) = number.filter(|it| *it < self.states.len()) else { return };
        // Ignore replies to messages that were denied or timed out, which are done already.
        let State::Published(before, _) = self.states[number] else { return };
        match Answer::of(reply, &self.messages[number].subject) {
            Answer::Confirmed { duplicate } => {
                self.finish(number);
                self.answers.duplicates += u64::from(duplicate);
            }
            Answer::NoStream if before < MAX_RETRIES => {
                self.in_flight -= 1;
                self.states[number] = State::Retrying(before + 1);
                self.retries.push_back((Instant::now() + RETRY_DELAY, number));
            }
            Answer::NoStream => {
                self.reject(number, outcome::no_stream(&self.messages[number].subject));
            }
            Answer::Refused(error) => self.reject(number, error),
        }
    }

    fn handle_denial(&mut self, denied: &std::result::Result<Denied, RecvError>) {
        match denied {
            Ok(Denied::Publish(subject)) => {
                for number in self.first..self.next {
                    let is_it = *self.messages[number].subject == **subject;
                    if is_it && !matches!(self.states[number], State::Done) {
                        self.reject(number, outcome::denied(subject));
                    }
                }
            }
            // Without a subscription to the inbox, no message can be confirmed.
            Ok(Denied::Subscribe(inbox)) if inbox.starts_with(&self.inbox) => {
                let error = Denied::Subscribe(inbox.clone()).error();
                for number in self.first..self.next {
                    if !matches!(self.states[number], State::Done) {
                        self.reject(number, error.clone());
                    }
                }
            }
            // If denials were missed, the messages time out. The channel is never closed, because `client` owns the
            // sender.
            Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => {}
        }
    }

    /// Fails the messages that have timed out, and publishes the messages in `retries` that are due.
    async fn handle_deadlines(&mut self) -> Result<()> {
        let now = Instant::now();
        for number in self.first..self.next {
            match self.states[number] {
                State::Published(_, until) if until <= now => {
                    self.reject(number, outcome::unconfirmed(&self.messages[number].subject));
                }
                // First attempts have increasing deadlines, so no later first attempt has timed out.
                State::Published(0, _) => break,
                _ => {}
            }
        }
        while let Some((at, number)) = self.retries.front().copied() {
            if at > now {
                break;
            }
            self.retries.pop_front();
            // Skip a message that was denied meanwhile, which is done already.
            let State::Retrying(before) = self.states[number] else { continue };
            self.send(number, before).await?;
        }
        Ok(())
    }

    /// Marks a message as done.
    fn finish(&mut self, number: usize) {
        if matches!(self.states[number], State::Published(..)) {
            self.in_flight -= 1;
        }
        self.states[number] = State::Done;
    }

    fn reject(&mut self, number: usize, error: Error) {
        self.finish(number);
        if error.policy() != ErrorPolicy::DEAD_LETTER && self.stopped_by.is_none() {
            self.stopped_by = Some(error.clone());
        }
        self.answers.refused.push((self.messages[number].position, error));
    }
}
