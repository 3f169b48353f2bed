//! Validation of the configuration.

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    Method,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
    },
    http::uri::PathAndQuery,
};
use tremor_pdk::{ErrorPolicy, net::tls::TlsConnector, prelude::*, without_placeholders};

use super::{
    body::Bodies,
    config::{Auth, Compression, Config, Format, Secret},
    otlp,
    secrets::Secrets,
    target::{Target, Targets},
    text::Escaping,
    url::Url,
};
use crate::{Basic, Preset, Signal, coding::ACCEPTED};

/// Upper limit of `max_response_bytes`, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Upper limit of `redirects`.
const MOST_REDIRECTS: u8 = 20;

/// The validated configuration.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The URL, without the part from its first field on.
    pub(crate) url: Url,
    /// The parts of targets that do not depend on events.
    pub(crate) fixed: Target,
    /// The parts of targets that depend on events, if there are any.
    pub(crate) targets: Option<Targets>,
    pub(crate) bodies: Bodies,
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
        let body = config.body.clone().unwrap_or_default();
        let mut targets = Targets::new(
            Escaping::new(body.escape, config.format),
            config.interval.is_some() || config.preset.is_some(),
        );
        let mut url = targets.add_url(&config.url)?;
        let otlp_urls = otlp_urls(&config, &mut url)?;
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
            let name = header_name("headers", name)?;
            match targets.add_header(&key, &name, text)? {
                Some(text) => headers.insert(name, value(&key, &text)?),
                None => headers.remove(name),
            };
        }
        if let Some(auth) = &config.auth {
            let (name, value) = credentials(auth)?;
            if targets.has_header(&name) {
                return Err(Error::configuration(format_args!(
                    "invalid `headers.{name}`: `auth` sets this header; remove one of the two"
                )));
            }
            headers.insert(name, value);
        }
        let bodies = Bodies::new(&config)?;
        let mut fixed = Target::new(url.clone());
        (fixed.prefix, fixed.suffix) = targets.add_ends(body.prefix.as_ref(), body.suffix.as_ref());
        let is_public = |name: &HeaderName| [USER_AGENT, HOST, ACCEPT_ENCODING].contains(name);
        let secret = headers.iter().filter(|(name, _)| !is_public(name)).map(|(_, value)| value);
        let secrets = Secrets::new(&url, secret);
        let mut body_headers = HeaderMap::new();
        let content_type = match (&config.content_type, config.format) {
            (Some(text), _) => value("content_type", &without_placeholders("content_type", text)?)?,
            (None, Format::Raw) if config.preset.is_some() => {
                HeaderValue::from_static("application/x-protobuf")
            }
            (None, Format::Raw | Format::Joined) => {
                HeaderValue::from_static("application/octet-stream")
            }
            (None, Format::Ndjson) => HeaderValue::from_static("application/x-ndjson"),
            (None, Format::Array) => HeaderValue::from_static("application/json"),
        };
        let has_type = headers.contains_key(CONTENT_TYPE) || targets.has_header(&CONTENT_TYPE);
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
            fixed,
            targets: (!targets.is_empty()).then_some(targets),
            bodies,
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

    /// Returns whether the URL of a request depends on its events.
    pub(crate) fn is_url_by_event(&self) -> bool {
        self.targets.as_ref().is_some_and(Targets::has_url)
    }

    /// Returns whether the URL or a header of a request depends on its events.
    pub(crate) fn is_target_by_event(&self) -> bool {
        let has_header = |it: &Targets| it.headers().next().is_some();
        self.is_url_by_event() || self.targets.as_ref().is_some_and(has_header)
    }

    /// Returns the URL of the request that a message becomes, and the message without its signal, or `None` for an OTLP
    /// request without data, which need not be sent. Requests without a preset have the URL `url`.
    ///
    /// # Errors
    /// The message has another signal than the configured one, or does not name its signal. The
    /// policy of the error makes the event a dead letter.
    pub(crate) fn request<'m, 's: 'm>(
        &'s self,
        url: &'m Url,
        message: &'m [u8],
    ) -> Result<Option<(&'m Url, &'m [u8])>> {
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
