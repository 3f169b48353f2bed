//! Validation of the configuration.

use std::sync::Arc;

use hyper::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
    http::uri::PathAndQuery,
};
use tremor_pdk::{ErrorPolicy, RawEvent, prelude::*, without_placeholders};

use super::{
    body::Bodies,
    config::{Config, Format},
    otlp,
    statuses::{self, ByEvent},
};
use crate::{
    Preset, Signal,
    exchange::{
        Caches, Common, Endpoint, Escaping, Item, Items, Keys, Part, Protocol, Response, Target,
        Targets, Url, answer::Remedies, header_value,
    },
};

/// Upper limit of `max_response_bytes`, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Reason why the URL and the headers of requests of a source, or of OTLP requests, cannot depend on events.
const FIXED: &str =
    "only requests of a sink can have fields and times of events, without `interval` and `preset`";

/// Upper limit of `redirects`.
const MOST_REDIRECTS: u8 = 20;

/// The validated configuration.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) common: Common,
    /// The parts of targets that depend on events, if there are any.
    pub(crate) targets: Option<Targets>,
    pub(crate) bodies: Bodies,
    /// URLs of OTLP requests, by signal.
    otlp_urls: Vec<(Signal, Url)>,
    /// Method of requests of the sink.
    pub(crate) method: Method,
    /// Method of requests of the source.
    pub(crate) poll_method: Method,
    /// `true` if the `Content-Type` of a body follows from its contents, as with a `preset`.
    is_type_by_body: bool,
    pub(crate) max_response_bytes: usize,
}

impl Settings {
    /// Validates the configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value. Secrets
    /// are never shown.
    pub(crate) fn new(config: Config, host: &Host) -> Result<Self> {
        let body = config.body.clone().unwrap_or_default();
        let mut targets = Targets::new(
            Escaping::new(body.escape, config.format == Format::Ndjson),
            (config.interval.is_some() || config.preset.is_some()).then_some(FIXED),
        );
        let mut url = targets.add_url(&config.url)?;
        let otlp_urls = otlp_urls(&config, &mut url)?;
        statuses::check(&config)?;
        redirects(&config)?;
        let method = config.method.as_deref().map(method).transpose()?;
        let keys = Keys {
            headers: &config.headers,
            auth: config.auth.as_ref(),
            tls: config.tls.as_ref(),
            compression: config.compression,
            timeout: config.timeout,
            connect_timeout: config.connect_timeout,
            idle_timeout: config.idle_timeout,
            max_connections: config.max_connections,
        };
        let mut fixed = Target::new(url.clone());
        let endpoint = Endpoint::new(url, &keys, &mut targets, host)?;
        let bodies = Bodies::new(&config)?;
        (fixed.prefix, fixed.suffix) = targets.add_ends(body.prefix.as_ref(), body.suffix.as_ref());
        let content_type = match (&config.content_type, config.format) {
            (Some(text), _) => {
                header_value("content_type", &without_placeholders("content_type", text)?)?
            }
            (None, Format::Raw) if config.preset.is_some() => {
                HeaderValue::from_static("application/x-protobuf")
            }
            (None, Format::Raw | Format::Joined) => {
                HeaderValue::from_static("application/octet-stream")
            }
            (None, Format::Ndjson) => HeaderValue::from_static("application/x-ndjson"),
            (None, Format::Array) => HeaderValue::from_static("application/json"),
        };
        let has_type =
            endpoint.headers.contains_key(CONTENT_TYPE) || targets.has_header(&CONTENT_TYPE);
        let found = config.max_response_bytes.get();
        let most = usize::try_from(found).ok().filter(|_| found <= MOST_BYTES);
        let max_response_bytes = most.ok_or_else(|| {
            Error::configuration(format_args!(
                "invalid `max_response_bytes` {found}: expected at most {MOST_BYTES} bytes"
            ))
        })?;
        let content_type = (!has_type || config.content_type.is_some()).then_some(content_type);
        let common = Common {
            endpoint: Arc::new(endpoint),
            target: fixed,
            content_type,
            max_body_bytes: bodies.most,
        };
        Ok(Self {
            common,
            targets: (!targets.is_empty()).then_some(targets),
            bodies,
            otlp_urls,
            method: method.clone().unwrap_or(Method::POST),
            poll_method: method.unwrap_or(Method::GET),
            is_type_by_body: config.preset.is_some() && !has_type && config.content_type.is_none(),
            max_response_bytes,
            config,
        })
    }

    /// Returns the parts of requests that depend on their events.
    fn by_event(&self) -> ByEvent {
        match &self.targets {
            Some(targets) if targets.has_url() => ByEvent::Url,
            Some(targets) if targets.headers().next().is_some() => ByEvent::Headers,
            _ => ByEvent::Nothing,
        }
    }

    /// Returns the URL of the request that a message becomes, and the message without its signal, or `None` for an OTLP
    /// request without data, which need not be sent. Requests without a preset have the URL `url`.
    ///
    /// # Errors
    /// The message has another signal than the configured one, or does not name its signal. The
    /// policy of the error makes the event a dead letter.
    fn request<'u, 'm>(
        &'u self,
        url: &'u Url,
        message: &'m [u8],
    ) -> Result<Option<(&'u Url, &'m [u8])>> {
        let wrong = |text: String| Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER);
        let (named, body) = match self.config.preset {
            None => return Ok(Some((url, message))),
            Some(Preset::Otlp(_)) => Signal::split(message),
        };
        match (&self.otlp_urls[..], named) {
            _ if Signal::has_no_data(body) => Ok(None),
            ([(_, url)], None) => Ok(Some((url, body))),
            (urls, Some(named)) => {
                let found = urls.iter().find(|(signal, _)| *signal == named);
                found.map(|(_, url)| Some((url, body))).ok_or_else(|| {
                    let path = named.path().unwrap_or_default();
                    wrong(format!(
                        "the message is for `{path}`, but `{}` is for another signal; set `preset: {{ otlp: any }}` \
                         to send each signal to its own path",
                        self.common.endpoint.url
                    ))
                })
            }
            (_, None) => Err(wrong(
                "the message does not name its signal; use the codec `otlp` with `signal: any`"
                    .to_owned(),
            )),
        }
    }
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    fn remedies(&self) -> Remedies<'static> {
        Remedies { method: "`method` and `url`", ..Remedies::default() }
    }

    fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    fn method(&self) -> Method {
        self.method.clone()
    }

    fn content_type(&self, body: &[u8]) -> Option<HeaderValue> {
        if self.is_type_by_body && otlp::is_json(body) {
            return Some(HeaderValue::from_static("application/json"));
        }
        self.common.content_type.clone()
    }

    fn ends(&self, target: &Target) -> usize {
        Bodies::ends(target)
    }

    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        self.bodies.item(event, caches, texts)
    }

    fn body(&self, target: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        self.bodies.body(target, items, part)
    }

    fn is_single(&self) -> bool {
        self.config.format == Format::Raw
    }

    fn single<'m>(
        &'m self,
        target: &'m Target,
        event: RawEvent<'_>,
        caches: &mut Caches,
    ) -> Result<Option<(&'m Url, Vec<u8>)>> {
        let Some((url, message)) = self.request(&target.url, event.raw())? else { return Ok(None) };
        Ok(Some((url, self.bodies.single(target, event, message, caches)?)))
    }

    fn is_retried(&self, status: StatusCode, has_accepted: bool) -> bool {
        statuses::is_retried(&self.config, self.by_event(), status, has_accepted)
    }

    fn rejected(&self, response: &Response<'_>, _: &Part<'_, '_>) -> Result<Vec<(usize, Error)>> {
        if self.config.preset.is_some() {
            otlp::check_items(response)?;
        }
        Ok(Vec::new())
    }
}

/// Returns the URLs of OTLP requests, by signal, and sets the path of `url` if it has none and there is one signal. The
/// result is empty without `preset`.
fn otlp_urls(config: &Config, url: &mut Url) -> Result<Vec<(Signal, Url)>> {
    let mut otlp_urls = Vec::new();
    if let Some(Preset::Otlp(signal)) = config.preset {
        if config.format != Format::Raw {
            return Err(Error::configuration(
                "invalid `format`: expected `raw`, because each event is a request with `preset: { otlp: … }`",
            ));
        }
        match signal.path() {
            Some(path) if url.target.as_str() == "/" => {
                url.target = PathAndQuery::from_static(path);
            }
            Some(_) => {}
            None => {
                for signal in [Signal::Logs, Signal::Metrics, Signal::Traces] {
                    otlp_urls.push((signal, url.below(signal.path().unwrap_or_default())?));
                }
            }
        }
        if otlp_urls.is_empty() {
            otlp_urls.push((signal, url.clone()));
        }
    }
    Ok(otlp_urls)
}

/// Validates `redirects`.
fn redirects(config: &Config) -> Result<()> {
    let Config { redirects, interval, method, .. } = config;
    let wrong = match redirects {
        0 => return Ok(()),
        1..=MOST_REDIRECTS if interval.is_none() => {
            "requests of a sink are not redirected; set `interval` for a source"
        }
        1..=MOST_REDIRECTS if method.as_deref().is_some_and(|it| it != "GET") => {
            "only requests with the method `GET` are redirected; remove `method`"
        }
        1..=MOST_REDIRECTS => return Ok(()),
        _ => "expected a number from 0 to 20",
    };
    Err(Error::configuration(format_args!("invalid `redirects` {redirects}: {wrong}")))
}

fn method(name: &str) -> Result<Method> {
    let method = Method::from_bytes(name.as_bytes()).ok();
    let is_good = |it: &Method| {
        ![Method::CONNECT, Method::HEAD].contains(it)
            && !name.bytes().any(|it| it.is_ascii_lowercase())
    };
    method.filter(is_good).ok_or_else(|| {
        Error::configuration(format_args!(
            "invalid `method` `{name}`: expected a method in capitals, such as `POST`, other than `CONNECT` and \
             `HEAD`"
        ))
    })
}
