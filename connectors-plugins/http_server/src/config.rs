//! The `config` of a flow file.

use std::num::NonZeroUsize;

use hyper::{Method, header::HeaderName};
use tremor_pdk::{
    net::{
        Address,
        tls::{Tls, TlsAcceptor},
    },
    prelude::*,
    units::{Interval, Size},
};

use crate::{
    access::{Access, Auth},
    otlp::Signal,
};

/// The least that a request may have without its body, in bytes: what hyper reads at once.
const LEAST_HEADER_BYTES: u64 = 8 << 10;

/// The most that anything may have, in bytes: a batch holds less than 4 GiB.
const MOST_BYTES: u64 = 1 << 30;

/// Where to listen, for whom, and when to answer.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// The address to listen on: `0.0.0.0:8080`, or `[::]:8080` for IPv6 as well.
    pub listen: Address,
    /// A protocol over HTTP, which says what requests are and how they are answered.
    pub preset: Option<Preset>,
    /// The only path that is answered: `/logs`. Others get the status 404. Unless set, every path is
    /// answered, or those of the `preset`.
    pub path: Option<String>,
    /// The methods that are answered; others get the status 405.
    #[serde(default = "methods")]
    pub methods: Vec<String>,
    /// When a request is answered.
    #[serde(default)]
    pub respond: Respond,
    /// TLS, with a certificate of this server. Unless set, connections are as they are.
    pub tls: Option<Tls>,
    /// What requests have to come with; others get the status 401.
    pub auth: Option<Auth>,
    /// Headers of requests that become metadata of their events: `[user-agent]`. Where there are any, the
    /// metadata has the method, the path and the query as well.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The longest body, in bytes, compressed or not. Longer ones get the status 413.
    #[serde(default = "max_body_bytes")]
    pub max_body_bytes: Size,
    /// How many bytes requests may have together that have not gone into the flow yet: their bodies, and what
    /// `headers` keeps of their heads. At this number further requests wait.
    #[serde(default = "max_waiting_bytes")]
    pub max_waiting_bytes: Size,
    /// How long a request may wait for room and for its turn. After that it gets the status 429, or 503
    /// where a sink is down.
    #[serde(default = "max_wait")]
    pub max_wait: Interval,
    /// The longest request without its body, in bytes, at least `8KiB`. Longer ones get the status 431.
    #[serde(default = "max_header_bytes")]
    pub max_header_bytes: Size,
    /// How many connections there may be at a time. At this number further ones wait.
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// After how much time without a request a connection is closed.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Interval,
    /// How long a request may take to come without its body. After that it gets the status 408.
    #[serde(default = "header_timeout")]
    pub header_timeout: Interval,
    /// How long its body may take after that. After that it gets the status 408.
    #[serde(default = "body_timeout")]
    pub body_timeout: Interval,
    /// Whether several listeners may share the address, if all of them say so.
    #[serde(default)]
    pub reuse_port: bool,
}

/// A protocol over HTTP.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// That of OpenTelemetry, for one of its signals or for any.
    Otlp(Signal),
}

impl Preset {
    /// Whether a request says by its path what it has.
    pub(crate) fn is_by_path(self) -> bool {
        self == Self::Otlp(Signal::Any)
    }
}

/// When a request is answered.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Respond {
    /// Once its event is in the flow, with the status 202.
    #[default]
    Accepted,
    /// Once its events are delivered, with the status 200.
    Delivered,
}

fn methods() -> Vec<String> {
    vec!["POST".to_owned(), "PUT".to_owned()]
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(8 << 20)
}

const fn max_waiting_bytes() -> Size {
    Size::of_bytes(64 << 20)
}

const fn max_wait() -> Interval {
    Interval::of_ms(10_000)
}

const fn max_header_bytes() -> Size {
    Size::of_bytes(64 << 10)
}

/// Half as many as other servers accept, because hyper buffers 16 KiB for each connection.
fn max_connections() -> NonZeroUsize {
    NonZeroUsize::new(5_000).unwrap_or(NonZeroUsize::MIN)
}

const fn idle_timeout() -> Interval {
    Interval::of_ms(60_000)
}

const fn header_timeout() -> Interval {
    Interval::of_ms(10_000)
}

const fn body_timeout() -> Interval {
    Interval::of_ms(60_000)
}

/// A configuration that was checked.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) methods: Vec<Method>,
    pub(crate) access: Access,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_waiting_bytes: usize,
    pub(crate) max_header_bytes: usize,
}

impl Settings {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected.
    pub(crate) fn new(mut config: Config, host: &Host) -> Result<Self> {
        if let Some(Preset::Otlp(signal)) = config.preset {
            if signal == Signal::Any && config.path.is_some() {
                return Err(Error::configuration(
                    "`path`: with `preset: { otlp: any }` the path of a request says what it has: `/v1/logs`, \
                     `/v1/metrics` or `/v1/traces`; leave `path` out, or name one signal",
                ));
            }
            config.path = config.path.or_else(|| signal.path().map(str::to_owned));
        }
        let max_body_bytes = size("max_body_bytes", config.max_body_bytes, 1)?;
        let max_waiting_bytes = size("max_waiting_bytes", config.max_waiting_bytes, 1)?;
        if max_waiting_bytes < max_body_bytes {
            return Err(Error::configuration(format_args!(
                "`max_waiting_bytes`: expected at least `max_body_bytes`, {max_body_bytes}, or a body of \
                 that length would wait for ever; found {max_waiting_bytes}"
            )));
        }
        if let Some(path) = config.path.as_ref().filter(|path| !is_path(path)) {
            return Err(Error::configuration(format_args!(
                "`path`: expected a path that begins with `/`, without spaces and `?`, such as `/logs`, \
                 found `{path}`"
            )));
        }
        if config.methods.is_empty() {
            return Err(Error::configuration(
                "`methods`: expected a method at least, such as `POST`",
            ));
        }
        Ok(Self {
            methods: config.methods.iter().map(|it| method(it)).collect::<Result<_>>()?,
            tls: config
                .tls
                .as_ref()
                .map(|tls| TlsAcceptor::new(tls, host).map(|it| it.with_protocols(&["http/1.1"])))
                .transpose()?,
            access: Access::new(config.auth.as_ref())?,
            headers: config.headers.iter().map(|it| header(it)).collect::<Result<_>>()?,
            max_body_bytes,
            max_waiting_bytes,
            max_header_bytes: size(
                "max_header_bytes",
                config.max_header_bytes,
                LEAST_HEADER_BYTES,
            )?,
            config,
        })
    }
}

fn size(key: &str, size: Size, least: u64) -> Result<usize> {
    let found = size.get();
    let size = usize::try_from(found).ok().filter(|_| (least..=MOST_BYTES).contains(&found));
    size.ok_or_else(|| {
        Error::configuration(format_args!(
            "`{key}`: expected from {least} to {MOST_BYTES} bytes, found {found}"
        ))
    })
}

fn is_path(path: &str) -> bool {
    path.starts_with('/')
        && path.bytes().all(|it| it.is_ascii_graphic() && it != b'?' && it != b'#')
}

fn method(name: &str) -> Result<Method> {
    let method = Method::from_bytes(name.as_bytes()).ok();
    let is_good =
        |it: &Method| *it != Method::CONNECT && name.bytes().all(|it| !it.is_ascii_lowercase());
    method.filter(is_good).ok_or_else(|| {
        Error::configuration(format_args!(
            "`methods`: expected methods in capitals, such as `POST`, and not `CONNECT`, found `{name}`"
        ))
    })
}

fn header(name: &str) -> Result<HeaderName> {
    name.parse().map_err(|_| {
        Error::configuration(format_args!(
            "`headers`: expected names of headers, such as `user-agent`, found `{name}`"
        ))
    })
}
