//! The `config` of a flow file.

use std::{collections::BTreeMap, num::NonZeroUsize};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    Method,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
        HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
    },
    http::uri::PathAndQuery,
};
use tremor_pdk::{
    ErrorPolicy,
    net::tls::{Tls, TlsConnector},
    prelude::*,
    units::{Interval, Size},
};

use crate::{otlp::Signal, secrets::Secrets, url::Url};

/// The longest response, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Whom to send requests to, and how.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// Where requests go: `http://logs.example.com:8080/ingest?tenant=7`.
    #[schemars(example = "http://127.0.0.1:9/")]
    pub url: String,
    /// A protocol over HTTP, which says where requests go and what responses mean.
    pub preset: Option<Preset>,
    /// The method: `POST` for what is sent, and `GET` for what is asked for, unless set.
    pub method: Option<String>,
    /// Headers of each request: `{ x-tenant: seven }`.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub headers: BTreeMap<String, String>,
    /// What requests come with.
    pub auth: Option<Auth>,
    /// How the peer of a URL with `https` is known, and we to it. Unless set, by the roots of the system.
    pub tls: Option<Tls>,
    /// How events become bodies.
    #[serde(default)]
    pub format: Format,
    /// The `Content-Type` of bodies. Unless set, it follows from `format`.
    pub content_type: Option<String>,
    /// How bodies are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// How long a request may take, from its first byte to the last of the response.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// How long it may take to connect.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Interval,
    /// How many connections there may be at a time. A flow has as many as deliveries under way
    /// (`in_flight`).
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// After how much time without a request a connection is closed.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Interval,
    /// How often a source asks: `30s`. Without it there is no source.
    pub interval: Option<Interval>,
    /// The longest response that a source takes, in bytes.
    #[serde(default = "max_response_bytes")]
    pub max_response_bytes: Size,
}

/// A protocol over HTTP.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// That of OpenTelemetry, for one of its signals or for any.
    Otlp(Signal),
}

/// How events become bodies.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Each event is the body of a request.
    #[default]
    Raw,
    /// The events of a delivery are a body, each followed by a line feed.
    Ndjson,
    /// The events of a delivery are a body: a JSON array. Each has to be JSON.
    Array,
}

/// How bodies are compressed.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With gzip.
    Gzip,
    /// With zstd.
    Zstd,
}

/// What requests come with.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A name and a password.
    Basic(Basic),
    /// A token.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
    /// A header of another name, with a secret for its value.
    Header(Secret),
}

/// A name and a password.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Basic {
    /// The name, without a colon.
    pub user: String,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: String,
}

/// A header with a secret.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Secret {
    /// The name of the header: `x-api-key`.
    pub name: String,
    /// Its value.
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

/// A configuration that was checked.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) url: Url,
    /// Where requests of OpenTelemetry go, by their signals.
    otlp_urls: Vec<(Signal, Url)>,
    /// None for a URL without TLS.
    pub(crate) tls: Option<TlsConnector>,
    /// Of requests that send.
    pub(crate) method: Method,
    /// Of requests that ask.
    pub(crate) poll_method: Method,
    /// Of each request.
    pub(crate) headers: HeaderMap,
    /// Of requests that send, besides those.
    pub(crate) body_headers: HeaderMap,
    pub(crate) max_response_bytes: usize,
    /// Values that no error may show, even if the peer quotes them.
    pub(crate) secrets: Secrets,
}

impl Settings {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected. A secret is in no error.
    pub(crate) fn new(config: Config, host: &Host) -> Result<Self> {
        let mut url = config.url.parse::<Url>()?;
        let mut otlp_urls = Vec::new();
        if let Some(Preset::Otlp(signal)) = config.preset {
            if config.format != Format::Raw {
                return Err(Error::configuration(
                    "`format`: with `preset: { otlp: … }` each event is a request, so `raw` is expected",
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
                    "`tls`: a `url` with `http` has no TLS; write `https`",
                ));
            }
            (None, false) => None,
            (tls, true) => {
                let tls = tls.clone().unwrap_or_default();
                let tls = TlsConnector::new(&tls, host, &url.address()?)?;
                Some(tls.with_protocols(&["http/1.1"]))
            }
        };
        let method = config.method.as_deref().map(method).transpose()?;
        let mut headers = HeaderMap::new();
        let agent = concat!("tremor/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(HOST, url.host_header());
        for (name, text) in &config.headers {
            let name = header_name("headers", name)?;
            headers.insert(name.clone(), value(&format!("headers.{name}"), text)?);
        }
        if let Some(auth) = &config.auth {
            let (name, value) = credentials(auth)?;
            headers.insert(name, value);
        }
        let is_public = |name: &HeaderName| [USER_AGENT, HOST].contains(name);
        let secret = headers.iter().filter(|(name, _)| !is_public(name)).map(|(_, value)| value);
        let secrets = Secrets::new(&url, secret);
        let mut body_headers = HeaderMap::new();
        let content_type = match (&config.content_type, config.format) {
            (Some(text), _) => value("content_type", text)?,
            (None, Format::Raw) if config.preset.is_some() => {
                HeaderValue::from_static("application/x-protobuf")
            }
            (None, Format::Raw) => HeaderValue::from_static("application/octet-stream"),
            (None, Format::Ndjson) => HeaderValue::from_static("application/x-ndjson"),
            (None, Format::Array) => HeaderValue::from_static("application/json"),
        };
        if !headers.contains_key(CONTENT_TYPE) || config.content_type.is_some() {
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
                "`max_response_bytes`: expected {MOST_BYTES} bytes at most, found {found}"
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
            max_response_bytes,
            secrets,
            config,
        })
    }
}

impl Settings {
    /// Where a message goes that is a request, and the body of that.
    ///
    /// # Errors
    /// A dead letter: it is a request of OpenTelemetry of another signal, or none says of which.
    pub(crate) fn request<'m>(&self, message: &'m [u8]) -> Result<(&Url, &'m [u8])> {
        let wrong = |text: String| Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER);
        let (said, body) = match self.config.preset {
            None => return Ok((&self.url, message)),
            Some(Preset::Otlp(_)) => Signal::split(message),
        };
        match (&self.otlp_urls[..], said) {
            ([(_, url)], None) => Ok((url, body)),
            (urls, Some(said)) => {
                let found = urls.iter().find(|(signal, _)| *signal == said);
                found.map(|(_, url)| (url, body)).ok_or_else(|| {
                    let path = said.path().unwrap_or_default();
                    wrong(format!(
                        "the message is for `{path}`, and `{}` for another signal; with `preset: {{ otlp: any }}` \
                         each goes to its own path",
                        self.url
                    ))
                })
            }
            (_, None) => Err(wrong(
                "the message does not say which signal it has, as the codec `otlp` with `signal: any` has it say"
                    .to_owned(),
            )),
        }
    }
}

fn method(name: &str) -> Result<Method> {
    let method = Method::from_bytes(name.as_bytes()).ok();
    let is_good = |it: &Method| {
        ![Method::CONNECT, Method::HEAD].contains(it)
            && !name.bytes().any(|it| it.is_ascii_lowercase())
    };
    method.filter(is_good).ok_or_else(|| {
        Error::configuration(format_args!(
            "`method`: expected a method in capitals, such as `POST`, and neither `CONNECT` nor `HEAD`, \
             found `{name}`"
        ))
    })
}

fn header_name(key: &str, name: &str) -> Result<HeaderName> {
    let ours = [CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING];
    let parsed = name.parse::<HeaderName>().ok().filter(|name| !ours.contains(name));
    parsed.ok_or_else(|| {
        Error::configuration(format_args!(
            "`{key}`: expected the name of a header that the connector does not set itself, found `{name}`"
        ))
    })
}

fn value(key: &str, text: &str) -> Result<HeaderValue> {
    // It may be a secret: it is not shown.
    HeaderValue::from_str(text).map_err(|_| {
        Error::configuration(format_args!(
            "`{key}`: a header has no line feed or other control character"
        ))
    })
}

fn credentials(auth: &Auth) -> Result<(HeaderName, HeaderValue)> {
    let (name, mut value) = match auth {
        Auth::Basic(Basic { user, password }) => {
            if user.contains(':') {
                return Err(Error::configuration(
                    "`auth.basic.user`: expected a name without a colon",
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

/// The header of a name and a password.
pub(crate) fn basic(user: &str, password: &str) -> Result<HeaderValue> {
    value("auth.basic", &format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}
