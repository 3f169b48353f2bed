//! One request, from its head to its answer.

use std::{convert::Infallible, future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Bytes, Incoming},
    header::{ALLOW, HOST, HeaderValue, WWW_AUTHENTICATE},
    http::request::Parts,
};

use crate::{
    answer::{Answer, Text},
    encoding::{Encoding, too_long},
    peer::{Peer, Phase},
    room::{self, Closed, Entry, Facts, Outcome, Ticket},
    server::Server,
};

/// What clients are told that come too early, in seconds.
const SOON: u16 = 1;
const LATER: u16 = 5;

/// Answers a request.
pub(crate) async fn answer(
    server: Arc<Server>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> Result<Response<Text>, Infallible> {
    let answer = handle(&server, &peer, request).await.unwrap_or_else(|answer| answer);
    let answer =
        if server.room.closed() == Some(Closed::Draining) { answer.last() } else { answer };
    server.counts.answered(answer.status);
    peer.begin(Phase::Idle, &server.clock);
    Ok(answer.into_response())
}

/// # Errors
/// The answer to a request that does not go into the flow.
async fn handle(
    server: &Server,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    peer.begin(Phase::Body, &server.clock);
    let (head, body) = request.into_parts();
    let has_body = !body.is_end_stream();
    let read = async {
        server.check(&head)?;
        let encoding = Encoding::of(&head.headers)?;
        let mut room = Room { server, peer, taken: 0 };
        let body = room.read(body).await?;
        let body = encoding.decode(body, server.settings.max_body_bytes, &mut room).await?;
        Ok((body, room))
    };
    let (body, room) = match read.await {
        Ok(read) => read,
        Err(answer) => {
            if has_body {
                peer.set_cut_short();
            }
            return Err(answer);
        }
    };
    let facts = server.facts(head);
    let outcome = room.wait(Entry { peer: peer.clone(), body, facts }).await?;
    Ok(match outcome {
        Outcome::Accepted => Answer::good(StatusCode::ACCEPTED),
        Outcome::Delivered => Answer::good(StatusCode::OK),
        Outcome::Failed => Answer::bad(
            StatusCode::INTERNAL_SERVER_ERROR,
            "events of this request were not delivered; the log of the flow says why\n",
        ),
    })
}

impl Server {
    /// # Errors
    /// The answer to a request that is not answered as it should be.
    fn check(&self, head: &Parts) -> Result<(), Answer> {
        let settings = &self.settings;
        if let Err(challenge) = settings.access.check(&head.headers) {
            let text = "the request needs another `Authorization`\n";
            let answer = Answer::bad(StatusCode::UNAUTHORIZED, text);
            return Err(answer.with(WWW_AUTHENTICATE, challenge));
        }
        let hosts = head.headers.get_all(HOST).iter().count();
        if hosts > 1 || (hosts == 0 && head.version == Version::HTTP_11) {
            let text = "a request of HTTP/1.1 has one header `Host`\n";
            return Err(Answer::bad(StatusCode::BAD_REQUEST, text));
        }
        if settings.config.path.as_ref().is_some_and(|path| path != head.uri.path()) {
            return Err(Answer::bad(StatusCode::NOT_FOUND, "there is nothing at this path\n"));
        }
        if !settings.methods.contains(&head.method) {
            let allowed = HeaderValue::try_from(settings.config.methods.join(", "));
            let answer =
                Answer::bad(StatusCode::METHOD_NOT_ALLOWED, "another method is expected\n");
            return Err(allowed.map_or(answer, |allowed| {
                Answer::bad(StatusCode::METHOD_NOT_ALLOWED, "another method is expected\n")
                    .with(ALLOW, allowed)
            }));
        }
        self.is_open()
    }

    /// # Errors
    /// The answer to requests that do not go into the flow now.
    fn is_open(&self) -> Result<(), Answer> {
        let text = match self.room.closed() {
            None => return Ok(()),
            Some(Closed::Paused) => "the connector is paused\n",
            Some(Closed::Draining) => "the flow ends, or starts again\n",
        };
        Err(Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER))
    }

    /// What the events of a request have for metadata.
    fn facts(&self, head: Parts) -> Option<Facts> {
        if self.settings.headers.is_empty() {
            return None;
        }
        let names = self.settings.headers.clone();
        Some(Box::new(move |writer| {
            writer.begin_object();
            writer.key("method");
            writer.str(head.method.as_str());
            writer.key("path");
            writer.str(head.uri.path());
            if let Some(query) = head.uri.query() {
                writer.key("query");
                writer.str(query);
            }
            writer.key("headers");
            writer.begin_object();
            for name in &names {
                if let Some(value) = head.headers.get(name) {
                    writer.key(name.as_str());
                    writer.str(&String::from_utf8_lossy(value.as_bytes()));
                }
            }
            writer.end_object();
            writer.end_object();
        }))
    }
}

/// The room of one request, until it is in the flow.
pub(crate) struct Room<'s> {
    server: &'s Server,
    peer: &'s Arc<Peer>,
    taken: usize,
}

impl Room<'_> {
    /// Takes more room, and waits for it.
    ///
    /// # Errors
    /// The answer, where there is none for too long.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Answer> {
        let Self { server, peer, .. } = self;
        let mut is_first = true;
        poll_fn(|context| {
            if server.room.poll_take_room(context, bytes).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if std::mem::take(&mut is_first) {
                peer.begin(Phase::Room, &server.clock);
            }
            self::goes_on(server, peer)
        })
        .await?;
        if !is_first {
            peer.begin(Phase::Body, &server.clock);
        }
        self.taken += bytes;
        Ok(())
    }

    /// Reads a body.
    async fn read(&mut self, mut body: Incoming) -> Result<Bytes, Answer> {
        let most = self.server.settings.max_body_bytes;
        let length = body.size_hint().exact();
        if let Some(length) = length {
            let length = usize::try_from(length).ok().filter(|length| *length <= most);
            self.grow(length.ok_or_else(|| too_long(most))?).await?;
        }
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while !body.is_end_stream() {
            let (server, peer) = (self.server, self.peer);
            let frame = poll_fn(|context| match Pin::new(&mut body).poll_frame(context) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => self::goes_on(server, peer),
            });
            let Some(frame) = frame.await? else { break };
            let frame = frame.map_err(|error| {
                let text = format!("the body is not what its head says: {error}\n");
                Answer::bad(StatusCode::BAD_REQUEST, text).last()
            })?;
            // What comes after a body are no events.
            let Ok(data) = frame.into_data() else { continue };
            let so_far = first.len() + all.len();
            if data.len() > most - so_far {
                return Err(too_long(most));
            }
            if length.is_none() {
                self.grow(data.len()).await?;
            }
            if so_far == 0 {
                // Usually it is all.
                first = data;
                continue;
            }
            if all.is_empty() {
                let whole = length.and_then(|length| usize::try_from(length).ok());
                all.reserve_exact(whole.unwrap_or(0).min(EXPECTED));
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
        Ok(if all.is_empty() { first } else { all.into() })
    }

    /// Goes into the flow, and waits for what becomes of it.
    async fn wait(mut self, entry: Entry) -> Result<Outcome, Answer> {
        let (server, peer) = (self.server, self.peer);
        peer.begin(Phase::Room, &server.clock);
        let ticket = server.room.enter(entry, std::mem::take(&mut self.taken));
        let waits = Waits { room: &server.room, ticket };
        poll_fn(|context| {
            if let Poll::Ready(outcome) = waits.ticket.poll(context) {
                return Poll::Ready(Ok(outcome));
            }
            if peer.phase() == Phase::Flow {
                return Poll::Pending;
            }
            match self::goes_on::<Outcome>(server, peer) {
                Poll::Ready(Err(answer)) if server.room.leave(&waits.ticket) => {
                    Poll::Ready(Err(answer))
                }
                // It is in the flow: what becomes of it is known later.
                Poll::Ready(_) => {
                    peer.begin(Phase::Flow, &server.clock);
                    waits.ticket.poll(context).map(Ok)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// How much memory is taken for a body before it has come, in bytes.
const EXPECTED: usize = 1 << 20;

/// Pending, unless a request is not to wait any longer.
fn goes_on<T>(server: &Server, peer: &Peer) -> Poll<Result<T, Answer>> {
    if let Err(answer) = server.is_open() {
        return Poll::Ready(Err(answer));
    }
    if !peer.is_overdue() {
        return Poll::Pending;
    }
    Poll::Ready(Err(match peer.phase() {
        Phase::Body => {
            let text = "the body took too long (`body_timeout`)\n";
            Answer::bad(StatusCode::REQUEST_TIMEOUT, text).last()
        }
        _ if server.room.is_sink_down() => {
            let text = "a sink of the flow is down\n";
            Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER)
        }
        _ => {
            let text = "the flow is full\n";
            Answer::bad(StatusCode::TOO_MANY_REQUESTS, text).retry_after(SOON)
        }
    }))
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.server.room.give_room(self.taken);
    }
}

/// A request that waits. If its connection breaks, it leaves, unless it is in the flow.
struct Waits<'s> {
    room: &'s room::Room,
    ticket: Arc<Ticket>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.ticket.is_settled() {
            self.room.leave(&self.ticket);
        }
    }
}
