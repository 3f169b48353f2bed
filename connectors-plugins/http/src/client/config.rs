//! The `config` section of the connector in a flow file.

use std::{collections::BTreeMap, num::NonZeroUsize};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    Method,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
    },
    http::uri::PathAndQuery,
};
use tremor_pdk::{
    ErrorPolicy, header_without_placeholders,
    net::tls::{Tls, TlsConnector},
    prelude::*,
    units::{Interval, Size},
    without_placeholders,
};

use super::{otlp, secrets::Secrets, url::Url};
use crate::{Basic, Preset, Signal, coding::ACCEPTED};

/// Upper limit of `max_response_bytes`, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Upper limit of `redirects`.
const MOST_REDIRECTS: u8 = 20;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// URL of the server: `http://logs.example.com:8080/ingest?tenant=7`.
    #[schemars(example = "http://127.0.0.1:9/")]
    pub url: String,
    /// A protocol over HTTP, which determines the paths of requests and the meaning of responses.
    pub preset: Option<Preset>,
    /// The method. Default: `POST` for requests of the sink, `GET` for those of the source.
    pub method: Option<String>,
    /// Headers of each request: `{ x-tenant: seven }`.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub headers: BTreeMap<String, String>,
    /// Credentials of each request.
    pub auth: Option<Auth>,
    /// TLS settings for a URL with `https`. Default: the server's certificate is verified with the
    /// root certificates of the system.
    pub tls: Option<Tls>,
    /// Format of request bodies.
    #[serde(default)]
    pub format: Format,
    /// The `Content-Type` of bodies. Default: determined by `format`, or with a `preset` by the
    /// encoding of each body.
    pub content_type: Option<String>,
    /// Compression of request bodies.
    #[serde(default)]
    pub compression: Compression,
    /// Maximum time from the first byte of a request to the last byte of its response.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// Maximum time to connect.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Interval,
    /// Maximum number of connections. The connector uses one connection for each delivery in flight
    /// (`in_flight`).
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// Time without a request after which a connection is closed.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Interval,
    /// Statuses after which a request is sent again, in addition to the usual ones: `[409]`.
    #[serde(default)]
    pub retry_statuses: Vec<u16>,
    /// Statuses after which a request is not sent again, so that its events go to `err`: `[401]`.
    #[serde(default)]
    pub fail_statuses: Vec<u16>,
    /// Time between two requests of a source, such as `30s`. Required for a source.
    pub interval: Option<Interval>,
    /// Maximum number of redirects that a request of a source follows, 0 unless set. Only redirects
    /// to the scheme, the host and the port of `url` are followed.
    #[serde(default)]
    #[schemars(range(max = 20))]
    pub redirects: u8,
    /// Maximum length of a response that a source accepts, in bytes.
    #[serde(default = "max_response_bytes")]
    pub max_response_bytes: Size,
}

/// Format of request bodies.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Each event is the body of a request.
    #[default]
    Raw,
    /// The events of a delivery become one body, each followed by a line feed.
    Ndjson,
    /// The events of a delivery become one body: a JSON array. Each event has to be JSON.
    Array,
}

/// Compression of request bodies.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Credentials of each request.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A user name and a password, as the header `Authorization: Basic`.
    Basic(Basic),
    /// A token, as the header `Authorization: Bearer`.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
    /// A secret in a header of any name.
    Header(Secret),
}

/// A header with a secret.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Secret {
    /// Name of the header: `x-api-key`.
    pub name: String,
    /// Value of the header.
    #[schemars(extend("writeOnly" = true))]
    pub value: String,
}

const fn timeout() -> Interval {
    Interval::of_ms(30_000)
}

const fn connect_timeout() -> Interval {
    Interval::of_ms(10_000)
}

fn max_connections() -> NonZeroUsize {
    NonZeroUsize::new(64).unwrap_or(NonZeroUsize::MIN)
}

const fn idle_timeout() -> Interval {
    Interval::of_ms(60_000)
}

const fn max_response_bytes() -> Size {
    Size::of_bytes(8 << 20)
}

/// The validated configuration.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) url: Url,
    /// URLs of OTLP requests, by signal.
    otlp_urls: Vec<(Signal, Url)>,
    /// `None` for a URL without TLS.
    pub(crate) tls: Option<TlsConnector>,
    /// Method of requests of the sink.
    pub(crate) method: Method,
    /// Method of requests of the source.
    pub(crate) poll_method: Method,
    /// Headers of every request.
    pub(crate) headers: HeaderMap,
    /// Headers that requests with a body have in addition.
    body_headers: HeaderMap,
    /// `true` if the `Content-Type` of a body follows from its contents, as with a `preset`.
    is_type_by_body: bool,
    pub(crate) max_response_bytes: usize,
    /// Values that no error may show, even if the peer quotes them.
    pub(crate) secrets: Secrets,
}

impl Settings {
    /// Validates the configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value. Secrets
    /// are never shown.
    pub(crate) fn new(config: Config, host: &Host) -> Result<Self> {
        let mut url = without_placeholders("url", &config.url)?.parse::<Url>()?;
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
        let tls = match (&config.tls, url.is_tls) {
            (Some(_), false) => {
                return Err(Error::configuration(
                    "invalid `tls`: a `url` with `http` has no TLS; use a `url` with `https`",
                ));
            }
            (None, false) => None,
            (tls, true) => {
                let tls = tls.clone().unwrap_or_default();
                let tls = TlsConnector::new(&tls, host, &url.address()?)?;
                Some(tls.with_protocols(&["http/1.1"]))
            }
        };
        statuses(&config)?;
        redirects(&config)?;
        let method = config.method.as_deref().map(method).transpose()?;
        let mut headers = HeaderMap::new();
        let agent = concat!("tremor/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(HOST, url.host_header());
        headers.insert(ACCEPT_ENCODING, ACCEPTED);
        for (name, text) in &config.headers {
            let key = format!("headers.{name}");
            let text = header_without_placeholders(name, text)?;
            headers.insert(header_name("headers", name)?, value(&key, &text)?);
        }
        if let Some(auth) = &config.auth {
            let (name, value) = credentials(auth)?;
            headers.insert(name, value);
        }
        let is_public = |name: &HeaderName| [USER_AGENT, HOST, ACCEPT_ENCODING].contains(name);
        let secret = headers.iter().filter(|(name, _)| !is_public(name)).map(|(_, value)| value);
        let secrets = Secrets::new(&url, secret);
        let mut body_headers = HeaderMap::new();
        let content_type = match (&config.content_type, config.format) {
            (Some(text), _) => value("content_type", &without_placeholders("content_type", text)?)?,
            (None, Format::Raw) if config.preset.is_some() => {
                HeaderValue::from_static("application/x-protobuf")
            }
            (None, Format::Raw) => HeaderValue::from_static("application/octet-stream"),
            (None, Format::Ndjson) => HeaderValue::from_static("application/x-ndjson"),
            (None, Format::Array) => HeaderValue::from_static("application/json"),
        };
        let has_type = headers.contains_key(CONTENT_TYPE);
        if !has_type || config.content_type.is_some() {
            body_headers.insert(CONTENT_TYPE, content_type);
        }
        let encoding = match config.compression {
            Compression::None => None,
            Compression::Gzip => Some(HeaderValue::from_static("gzip")),
            Compression::Zstd => Some(HeaderValue::from_static("zstd")),
        };
        body_headers.extend(encoding.map(|encoding| (CONTENT_ENCODING, encoding)));
        let found = config.max_response_bytes.get();
        let most = usize::try_from(found).ok().filter(|_| found <= MOST_BYTES);
        let max_response_bytes = most.ok_or_else(|| {
            Error::configuration(format_args!(
                "invalid `max_response_bytes` {found}: expected at most {MOST_BYTES} bytes"
            ))
        })?;
        Ok(Self {
            url,
            otlp_urls,
            tls,
            method: method.clone().unwrap_or(Method::POST),
            poll_method: method.unwrap_or(Method::GET),
            headers,
            body_headers,
            is_type_by_body: config.preset.is_some() && !has_type && config.content_type.is_none(),
            max_response_bytes,
            secrets,
            config,
        })
    }
}

impl Settings {
    /// Returns the headers that a request with this body, before compression, has in addition.
    pub(crate) fn body_headers(&self, body: &[u8]) -> HeaderMap {
        let mut headers = self.body_headers.clone();
        if self.is_type_by_body && otlp::is_json(body) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers
    }

    /// Returns the URL and the body of the request that a message becomes, or `None` for an OTLP
    /// request without data, which need not be sent.
    ///
    /// # Errors
    /// The message has another signal than the configured one, or does not name its signal. The
    /// policy of the error makes the event a dead letter.
    pub(crate) fn request<'m>(&self, message: &'m [u8]) -> Result<Option<(&Url, &'m [u8])>> {
        let wrong = |text: String| Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER);
        let (named, body) = match self.config.preset {
            None => return Ok(Some((&self.url, message))),
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
                        self.url
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

/// Validates `retry_statuses` and `fail_statuses`.
fn statuses(config: &Config) -> Result<()> {
    let Config { retry_statuses, fail_statuses, .. } = config;
    for (key, all) in [("retry_statuses", retry_statuses), ("fail_statuses", fail_statuses)] {
        if let Some(found) = all.iter().find(|it| !(300..600).contains(*it)) {
            return Err(Error::configuration(format_args!(
                "invalid `{key}` entry {found}: expected a status from 300 to 599, such as 409"
            )));
        }
    }
    match fail_statuses.iter().find(|it| retry_statuses.contains(it)) {
        None => Ok(()),
        Some(both) => Err(Error::configuration(format_args!(
            "invalid `fail_statuses` entry {both}: `retry_statuses` contains it too; remove it from one of the two keys"
        ))),
    }
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

fn header_name(key: &str, name: &str) -> Result<HeaderName> {
    let ours = [CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING];
    let parsed = name.parse::<HeaderName>().ok().filter(|name| !ours.contains(name));
    parsed.ok_or_else(|| {
        Error::configuration(format_args!(
            "invalid `{key}` entry `{name}`: expected the name of a header that the connector does not set itself"
        ))
    })
}

fn value(key: &str, text: &str) -> Result<HeaderValue> {
    // Do not show the value, because it may be a secret.
    HeaderValue::from_str(text).map_err(|_| {
        Error::configuration(format_args!(
            "invalid `{key}`: a header must not contain a line feed or another control character"
        ))
    })
}

fn credentials(auth: &Auth) -> Result<(HeaderName, HeaderValue)> {
    let (name, mut value) = match auth {
        Auth::Basic(Basic { user, password }) => {
            if user.contains(':') {
                return Err(Error::configuration(
                    "invalid `auth.basic.user`: expected a name without a colon",
                ));
            }
            (AUTHORIZATION, basic(user, password)?)
        }
        Auth::Bearer(token) => (AUTHORIZATION, value("auth.bearer", &format!("Bearer {token}"))?),
        Auth::Header(Secret { name, value: text }) => {
            (header_name("auth.header.name", name)?, value("auth.header.value", text)?)
        }
    };
    value.set_sensitive(true);
    Ok((name, value))
}

/// Returns the value of the header for a user name and a password.
pub(crate) fn basic(user: &str, password: &str) -> Result<HeaderValue> {
    value("auth.basic", &format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}
