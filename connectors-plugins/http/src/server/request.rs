//! The life of a request, from its head to its response.

use std::{convert::Infallible, future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body as _, Bytes, Incoming},
    header::{ALLOW, HOST, HeaderValue, WWW_AUTHENTICATE},
    http::request::Parts,
};

use super::{
    answer::Answer,
    connections::Server,
    content::Content,
    encoding::{codings, decode, too_long},
    metadata::RequestMetadata,
    otlp,
    peer::{Peer, Phase},
    permit::{Permit, is_open},
    protocol::Service,
    queue::{Body, Closed, Entry},
    request_state::Outcome,
};
use crate::{Preset, Signal, payload::Payload};

/// Answers a request.
pub(crate) async fn answer(
    server: Arc<Server>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> Result<Response<Payload>, Infallible> {
    let is_otlp = matches!(server.settings.config.preset, Some(Preset::Otlp(_)));
    let otlp = if is_otlp { otlp::Encoding::of(request.headers()) } else { None };
    let answer = handle(&server, &peer, request).await.unwrap_or_else(|answer| answer);
    let answer = match (otlp, &server.settings.service) {
        (Some(encoding), _) => answer.in_otlp(encoding),
        (None, Service::Protocol(protocol)) => {
            let status = protocol.status(answer.status);
            answer.with_status(status)
        }
        (None, _) => answer,
    };
    let answer =
        if server.queue.closed() == Some(Closed::Draining) { answer.last() } else { answer };
    server.counts.answered(answer.status);
    peer.begin(Phase::Idle, &server.clock);
    Ok(answer.into_response())
}

/// Receives a request and passes it to the flow.
///
/// # Errors
/// The response to a request that does not enter the flow.
async fn handle(
    server: &Server,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    peer.begin(Phase::Body, &server.clock);
    let (head, body) = request.into_parts();
    let has_body = !body.is_end_stream();
    let reads = async {
        server.check(&head)?;
        let most = server.settings.max_body_bytes;
        let mut permit = Permit::new(server, peer);
        let metadata = RequestMetadata::of(&server.settings.headers, &head);
        let body = match &server.settings.service {
            Service::Protocol(protocol) => {
                protocol.check(&head)?;
                let body = read(&mut permit, body, metadata.bytes()).await?;
                permit.grow(protocol.decoded_len(&body, most)?).await?;
                protocol.decode(body)?.map(Body::Events)
            }
            Service::Messages | Service::Page(_) => {
                let codings = codings(&head.headers)?;
                let body = read(&mut permit, body, metadata.bytes()).await?;
                Some(Body::Message(decode(codings, body, most, &mut permit).await?))
            }
        };
        Ok((body, metadata, permit))
    };
    let (body, metadata, permit) = match reads.await {
        Ok(read) => read,
        Err(answer) => {
            if has_body {
                peer.set_cut_short();
            }
            return Err(answer);
        }
    };
    if let Service::Page(page) = &server.settings.service {
        let (content_type, page) = (page.content_type(), page.clone());
        let body = server.host.blocking(move || page.body()).await;
        return body.map(|body| Answer::page(content_type, body)).map_err(|error| {
            Answer::bad(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot create the page: {error}\n"),
            )
        });
    }
    let body = match body {
        // OTLP and remote write require success, and nothing could be delivered.
        Some(Body::Message(body))
            if server.settings.config.preset.is_some() && Signal::has_no_data(&body) =>
        {
            return Ok(Answer::good(StatusCode::OK));
        }
        None => return Ok(Answer::good(StatusCode::OK)),
        Some(Body::Message(body)) => Body::Message(server.marked(&head, body)),
        Some(body) => body,
    };
    // Drop the head, because any part of the head keeps hyper's whole buffer in memory.
    drop(head);
    let outcome = permit.wait(Entry { body, metadata }).await?;
    Ok(match outcome {
        Outcome::Accepted => Answer::good(StatusCode::ACCEPTED),
        Outcome::Delivered => Answer::good(StatusCode::OK),
        Outcome::Failed => Answer::bad(
            StatusCode::INTERNAL_SERVER_ERROR,
            "events of this request were not delivered; the log of the flow says why\n",
        ),
        Outcome::Undecodable(why) => Answer::bad(
            StatusCode::BAD_REQUEST,
            format!("the body, or a part of it, cannot be decoded: {why}\n"),
        ),
    })
}

impl Server {
    /// Checks the head of a request.
    ///
    /// # Errors
    /// The response to a request that is not acceptable.
    fn check(&self, head: &Parts) -> Result<(), Answer> {
        let settings = &self.settings;
        if let Err(challenge) = settings.access.check(&head.headers) {
            let text = "the request needs a valid `Authorization`\n";
            let answer = Answer::bad(StatusCode::UNAUTHORIZED, text);
            return Err(answer.with(WWW_AUTHENTICATE, challenge));
        }
        let hosts = head.headers.get_all(HOST).iter().count();
        if hosts > 1 || (hosts == 0 && head.version == Version::HTTP_11) {
            let text = "a request of HTTP/1.1 needs exactly one header `Host`\n";
            return Err(Answer::bad(StatusCode::BAD_REQUEST, text));
        }
        let path = head.uri.path();
        let is_no_signal =
            settings.config.preset.is_some_and(Preset::is_by_path) && Signal::mark(path).is_none();
        if is_no_signal || settings.config.path.as_ref().is_some_and(|it| it != path) {
            return Err(Answer::bad(StatusCode::NOT_FOUND, "there is nothing at this path\n"));
        }
        if !settings.methods.contains(&head.method) {
            let allowed = HeaderValue::try_from(settings.config.methods.join(", "));
            let answer = Answer::bad(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not accept the method of the request\n",
            );
            return Err(match allowed {
                Ok(allowed) => answer.with(ALLOW, allowed),
                Err(_) => answer,
            });
        }
        if settings.config.preset.is_some() && otlp::Encoding::of(&head.headers).is_none() {
            let text =
                "the `Content-Type` is neither application/x-protobuf nor application/json\n";
            return Err(Answer::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        is_open(self)
    }

    /// Returns the body for the codec. With the preset for any signal of OTLP, a protobuf body gets
    /// a mark that names the signal of the request's path.
    fn marked(&self, head: &Parts, body: Content) -> Content {
        let is_by_path = self.settings.config.preset.is_some_and(Preset::is_by_path);
        if !is_by_path || otlp::Encoding::of(&head.headers) != Some(otlp::Encoding::Protobuf) {
            return body;
        }
        match Signal::mark(head.uri.path()) {
            Some(mark) => Content::Whole([&mark[..], &body].concat()),
            None => body,
        }
    }
}

/// Maximum length of a body that is copied out of hyper's buffer, in bytes. A longer body keeps the
/// buffer, so hyper allocates a new buffer for the next request.
const COPIED: usize = 16 << 10;

/// Reads a body. Reserves `metadata` bytes in addition to those of the body.
async fn read(
    permit: &mut Permit<'_>,
    mut body: Incoming,
    metadata: usize,
) -> Result<Content, Answer> {
    let most = permit.server.settings.max_body_bytes;
    let length = body.size_hint().exact();
    let known = match length {
        Some(length) => {
            let length = usize::try_from(length).ok().filter(|length| *length <= most);
            length.ok_or_else(|| too_long(most))?
        }
        None => 0,
    };
    permit.grow(known + metadata).await?;
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while !body.is_end_stream() {
        let frame = poll_fn(|context| match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => permit.poll_rejection(),
        });
        let Some(frame) = frame.await? else { break };
        let frame = frame.map_err(|error| {
            let text = format!("the body does not match its head: {error}\n");
            Answer::bad(StatusCode::BAD_REQUEST, text).last()
        })?;
        // Ignore trailers, which are not part of the event.
        let Ok(data) = frame.into_data() else { continue };
        let so_far = first.len() + all.len();
        if data.len() > most - so_far {
            return Err(too_long(most));
        }
        if length.is_none() {
            permit.grow(data.len()).await?;
        }
        if so_far == 0 {
            // Usually the first part is the whole body.
            first = if data.len() <= COPIED { Bytes::copy_from_slice(&data) } else { data };
            continue;
        }
        if all.is_empty() {
            let whole = length.and_then(|length| usize::try_from(length).ok());
            all = permit.server.queue.spare.take(whole.unwrap_or(0));
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    // Each time a part of a body is taken, hyper wakes the task so that it reads the next part. The
    // body is complete, so the additional poll would do nothing.
    permit.ignore_wakes();
    Ok(if all.is_empty() { Content::Part(first) } else { Content::Whole(all) })
}
