//! The source: polls the server, and returns responses as events.

use std::{sync::Arc, time::Duration};

use hyper::{
    Request, StatusCode,
    body::Bytes,
    header::{ETAG, HeaderValue, IF_NONE_MATCH},
};
use tremor_pdk::{Origin, prelude::*, units::Interval};

use super::{redirects, settings::Settings};
use crate::exchange::{
    Pool, Protocol, Url,
    answer::{self, Remedies},
};

/// Polls the server at an interval.
pub struct Polls {
    host: Host,
    pool: Arc<Pool>,
    settings: Arc<Settings>,
    interval: Interval,
    /// Time of the next request, by the monotonic clock.
    next_ns: u64,
    /// `ETag` of the last response, if it had one, with the URL that sent it.
    etag: Option<(Url, HeaderValue)>,
    /// `true` once the server has answered a request with a success.
    has_accepted: bool,
    origin: Origin,
}

impl Polls {
    pub(crate) fn new(
        host: &Host,
        pool: Arc<Pool>,
        settings: Arc<Settings>,
        interval: Interval,
    ) -> Self {
        let url = settings.common.endpoint.url.to_string();
        let origin = Origin::new(&url, |writer| {
            writer.begin_object();
            writer.key("http");
            writer.begin_object();
            writer.key("url");
            writer.str(&url);
            writer.end_object();
            writer.end_object();
        });
        let (next_ns, etag, has_accepted) = (0, None, false);
        Self { host: host.clone(), pool, settings, interval, next_ns, etag, has_accepted, origin }
    }

    /// Returns the time to wait before the next request.
    fn wait(&self) -> Option<Duration> {
        let wait = self.next_ns.saturating_sub(self.host.monotonic_ns());
        (wait > 0).then(|| Duration::from_nanos(wait).min(self.interval.get()))
    }
}

impl Source for Polls {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if let Some(wait) = self.wait() {
            return Ok(Pull::Idle(wait));
        }
        let settings = &self.settings;
        let began_ns = self.host.monotonic_ns();
        let most = settings.max_response_bytes;
        let (mut url, mut followed) = (settings.common.endpoint.url.clone(), 0);
        let answer = loop {
            let head = || {
                let head = Request::builder().method(settings.poll_method.clone());
                match &self.etag {
                    Some((of, etag)) if *of == url => head.header(IF_NONE_MATCH, etag),
                    _ => head,
                }
            };
            let answer = self.pool.send(&url, head, &Bytes::new(), most).await?;
            match redirects::redirected(&url, &answer) {
                Some(target) if followed < settings.config.redirects => url = target,
                _ => break answer,
            }
            followed += 1;
        };
        // The next request is due one interval after the start of this one, for each status of the
        // response.
        self.next_ns = began_ns.saturating_add(self.interval.ns());
        if answer.status == StatusCode::NOT_MODIFIED && self.etag.is_some() {
            return Ok(Pull::Idle(self.interval.get()));
        }
        let status = answer.status;
        if !status.is_success() {
            let is_retried = settings.is_retried(status, self.has_accepted);
            let why = redirects::not_followed(settings, &url, &answer);
            let secrets = &self.pool.secrets;
            let remedies = Remedies { not_followed: &why, ..settings.remedies() };
            return Err(answer::refusal(&self.host, &url, secrets, &answer, is_retried, &remedies));
        }
        self.has_accepted = true;
        if let Some(why) = answer.undecoded {
            return Err(Error::bad_data(format_args!(
                "cannot read the response of `{url}`: {why}"
            )));
        }
        if answer.is_cut {
            return Err(Error::bad_data(format_args!(
                "the response of `{url}` exceeds {most} bytes; raise `max_response_bytes`"
            )));
        }
        batch.push_message(&answer.body);
        batch.apply_origin(0, &self.origin);
        self.etag = answer.headers.get(ETAG).map(|etag| (url, etag.clone()));
        Ok(Pull::Events)
    }
}

impl std::fmt::Debug for Polls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polls").field("interval", &self.interval).finish_non_exhaustive()
    }
}
