//! A delivery whose messages wait for their confirmations.

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

/// How often a message is published again that no stream has taken, and after which pause: the stream may be about
/// to have another leader.
const AGAIN: u8 = 2;
const PAUSE: Duration = Duration::from_millis(250);

/// What a delivery came to.
#[derive(Default)]
pub(super) struct Answers {
    /// Positions in the batch, with errors.
    pub(super) refused: Vec<(usize, Error)>,
    /// How many messages their stream had already.
    pub(super) duplicates: u64,
}

/// The messages of a delivery.
pub(super) struct Confirming {
    client: Client,
    settings: Arc<Settings>,
    denied: broadcast::Receiver<Denied>,
    /// Answers to message `n` go to this with `.n` after it.
    inbox: String,
    messages: Vec<Message>,
    states: Vec<State>,
    /// The first that may still be open; those before are not.
    first: usize,
    /// The next that is to be published.
    next: usize,
    /// How many were published and not answered.
    open: usize,
    /// Those that are published again, and when.
    again: VecDeque<(Instant, usize)>,
    /// Why those that were not published yet are not published any more.
    stopped_by: Option<Error>,
    answers: Answers,
}

/// What has become of a message.
#[derive(Clone, Copy)]
enum State {
    /// Nothing yet.
    Waits,
    /// It was published, so often before, and is to be answered in time.
    Open(u8, Instant),
    /// Nobody takes it, and it is published again, so often.
    Again(u8),
    /// It was answered.
    Over,
}

impl Confirming {
    pub(super) fn new(
        client: Client,
        settings: Arc<Settings>,
        messages: Vec<Message>,
        refused: Vec<(usize, Error)>,
    ) -> Self {
        Self {
            // Before the first is sent.
            denied: client.denied.subscribe(),
            inbox: client.nats.new_inbox(),
            states: vec![State::Waits; messages.len()],
            answers: Answers { refused, duplicates: 0 },
            client,
            settings,
            messages,
            first: 0,
            next: 0,
            open: 0,
            again: VecDeque::new(),
            stopped_by: None,
        }
    }

    /// Publishes all in order, and waits for the answers. Where one is refused that may be taken later, those that
    /// were not published by then wait with it: they are not to overtake it.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn publish(mut self) -> Result<Answers> {
        let subscribed = self.client.nats.subscribe(format!("{}.*", self.inbox)).await;
        let mut replies = subscribed.map_err(|error| lost().caused_by(&error))?;
        loop {
            while self.may_publish() {
                let next = self.next;
                self.next += 1;
                self.send(next, 0).await?;
                // Not a task switch for each.
                if next % 64 == 63 {
                    self.hear_all(&mut replies)?;
                }
            }
            if self.open == 0 && self.again.is_empty() {
                break;
            }
            self.wait(&mut replies).await?;
        }
        if let Some(error) = self.stopped_by {
            let left = self.messages[self.next..].iter();
            self.answers.refused.extend(left.map(|it| (it.position, error.clone())));
        }
        Ok(self.answers)
    }

    fn may_publish(&self) -> bool {
        self.next < self.messages.len()
            && self.open < self.settings.window
            && self.again.is_empty()
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
                self.states[number] = State::Open(before, until);
                self.open += 1;
            }
            Err(error) => {
                let error = outcome::unpublished(&error, &message.subject);
                if error.policy() == ErrorPolicy::RECONNECT {
                    return Err(error);
                }
                self.refuse(number, error);
            }
        }
        Ok(())
    }

    /// Waits for something to happen.
    async fn wait(&mut self, replies: &mut Subscriber) -> Result<()> {
        while self.first < self.next && matches!(self.states[self.first], State::Over) {
            self.first += 1;
        }
        let late = self.states[self.first..self.next].iter().find_map(|it| match it {
            State::Open(_, until) => Some(*until),
            _ => None,
        });
        let again = self.again.front().map(|(at, _)| *at);
        let next = late.into_iter().chain(again).min().unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            denied = self.denied.recv() => self.deny(&denied),
            reply = replies.next() => {
                self.hear(&reply.ok_or_else(lost)?);
                self.hear_all(replies)?;
            }
            () = sleep_until(next) => self.look_at_the_clock().await?,
        }
        Ok(())
    }

    /// Hears what is there.
    fn hear_all(&mut self, replies: &mut Subscriber) -> Result<()> {
        while let Some(reply) = replies.next().now_or_never() {
            self.hear(&reply.ok_or_else(lost)?);
        }
        Ok(())
    }

    fn hear(&mut self, reply: &async_nats::Message) {
        let number = reply.subject.rsplit_once('.').and_then(|(_, it)| it.parse::<usize>().ok());
        let Some(number) = number.filter(|it| *it < self.states.len()) else { return };
        // One that was denied or late is answered already.
        let State::Open(before, _) = self.states[number] else { return };
        match Answer::of(reply, &self.messages[number].subject) {
            Answer::Confirmed { duplicate } => {
                self.end(number);
                self.answers.duplicates += u64::from(duplicate);
            }
            Answer::Nobody if before < AGAIN => {
                self.open -= 1;
                self.states[number] = State::Again(before + 1);
                self.again.push_back((Instant::now() + PAUSE, number));
            }
            Answer::Nobody => {
                self.refuse(number, outcome::nobody(&self.messages[number].subject));
            }
            Answer::Refused(error) => self.refuse(number, error),
        }
    }

    fn deny(&mut self, denied: &std::result::Result<Denied, RecvError>) {
        match denied {
            Ok(Denied::Publish(subject)) => {
                for number in self.first..self.next {
                    let is_it = *self.messages[number].subject == **subject;
                    if is_it && !matches!(self.states[number], State::Over) {
                        self.refuse(number, outcome::denied(subject));
                    }
                }
            }
            // Without answers nothing can be confirmed.
            Ok(Denied::Subscribe(inbox)) if inbox.starts_with(&self.inbox) => {
                let error = Denied::Subscribe(inbox.clone()).error();
                for number in self.first..self.next {
                    if !matches!(self.states[number], State::Over) {
                        self.refuse(number, error.clone());
                    }
                }
            }
            // Of those that were missed the messages are late. The other end is the connection's, which outlives this.
            Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => {}
        }
    }

    /// Some are late, or are to be published again.
    async fn look_at_the_clock(&mut self) -> Result<()> {
        let now = Instant::now();
        for number in self.first..self.next {
            match self.states[number] {
                State::Open(_, until) if until <= now => {
                    self.refuse(number, outcome::late(&self.messages[number].subject));
                }
                // Published in this order, but for those that are published again.
                State::Open(0, _) => break,
                _ => {}
            }
        }
        while let Some((at, number)) = self.again.front().copied() {
            if at > now {
                break;
            }
            self.again.pop_front();
            // One that was denied is answered already.
            let State::Again(before) = self.states[number] else { continue };
            self.send(number, before).await?;
        }
        Ok(())
    }

    /// It was answered.
    fn end(&mut self, number: usize) {
        if matches!(self.states[number], State::Open(..)) {
            self.open -= 1;
        }
        self.states[number] = State::Over;
    }

    fn refuse(&mut self, number: usize, error: Error) {
        self.end(number);
        if error.policy() != ErrorPolicy::DEAD_LETTER && self.stopped_by.is_none() {
            self.stopped_by = Some(error.clone());
        }
        self.answers.refused.push((self.messages[number].position, error));
    }
}
