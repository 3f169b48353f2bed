//! The `config` section of the connector in a flow file.

use std::num::NonZeroUsize;

use hyper::{Method, header::HeaderName};
use tremor_pdk::{
    net::{
        Address, ProxyProtocol,
        tls::{Tls, TlsAcceptor},
    },
    prelude::*,
    units::{Interval, Size},
    without_placeholders,
};

use super::{
    access::{Access, Auth},
    protocol::Service,
};
use crate::{Preset, Signal};

/// Minimum of `max_header_bytes`, in bytes: hyper's smallest buffer.
const LEAST_HEADER_BYTES: u64 = 8 << 10;

/// Maximum of all sizes, in bytes. A batch has less than 4 GiB.
const MOST_BYTES: u64 = 1 << 30;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// Address to listen on: `0.0.0.0:8080`, or `[::]:8080` to include IPv6.
    #[schemars(extend("x-exclusive" = "tcp", "x-shared-by" = "reuse_port"))]
    pub listen: Address,
    /// A protocol over HTTP, which determines the contents of requests and responses.
    pub preset: Option<Preset>,
    /// Path of requests, such as `/logs`. Requests with another path get the status 404. Default:
    /// any path, or the paths of the `preset`.
    pub path: Option<String>,
    /// Accepted methods. Requests with another method get the status 405.
    #[serde(default = "methods")]
    pub methods: Vec<String>,
    /// Point at which a request is answered.
    #[serde(default)]
    pub respond: Respond,
    /// TLS settings, with the certificate of the server. Default: no TLS.
    pub tls: Option<Tls>,
    /// Credentials that requests need. Requests without them get the status 401.
    pub auth: Option<Auth>,
    /// Request headers that become metadata of the events: with `[user-agent]`, the value is in
    /// `%http.headers.user-agent`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Maximum length of a body in bytes, both compressed and decompressed. Requests with a longer
    /// body get the status 413.
    #[serde(default = "max_body_bytes")]
    pub max_body_bytes: Size,
    /// Maximum number of bytes of all requests that are not in the flow yet: their bodies and their
    /// metadata. Further requests wait when the limit is reached.
    #[serde(default = "max_waiting_bytes")]
    pub max_waiting_bytes: Size,
    /// Maximum time that a request waits for capacity and for its pull. After that the request gets
    /// the status 429, or 503 if a sink is down.
    #[serde(default = "max_wait")]
    pub max_wait: Interval,
    /// Maximum length of a request's head in bytes, at least `8KiB`. Requests with a longer head
    /// get the status 431.
    #[serde(default = "max_header_bytes")]
    pub max_header_bytes: Size,
    /// Maximum number of connections. Further connections wait when the limit is reached.
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// Time without a request after which a connection is closed.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Interval,
    /// Maximum time to receive the head of a request. After that the request gets the status 408.
    #[serde(default = "header_timeout")]
    pub header_timeout: Interval,
    /// Maximum time to receive the body after the head. After that the request gets the status 408.
    #[serde(default = "body_timeout")]
    pub body_timeout: Interval,
    /// PROXY protocol, versions 1 and 2: load balancers whose header names the client.
    /// Default: connections have no header, and the client is the peer of the connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// `true` to share the address with other listeners that also set this key.
    #[serde(default)]
    pub reuse_port: bool,
}

impl Config {
    /// Creates a configuration with the defaults of all keys.
    pub(crate) fn new(listen: Address) -> Self {
        Self {
            listen,
            preset: None,
            path: None,
            methods: methods(),
            respond: Respond::default(),
            tls: None,
            auth: None,
            headers: Vec::new(),
            max_body_bytes: max_body_bytes(),
            max_waiting_bytes: max_waiting_bytes(),
            max_wait: max_wait(),
            max_header_bytes: max_header_bytes(),
            max_connections: max_connections(),
            idle_timeout: idle_timeout(),
            header_timeout: header_timeout(),
            body_timeout: body_timeout(),
            proxy_protocol: None,
            reuse_port: false,
        }
    }
}

/// Point at which a request is answered.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Respond {
    /// Once the event is in the flow, with the status 202.
    #[default]
    Accepted,
    /// Once the events are delivered, with the status 200.
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

/// Default of `max_connections`: half as many as other servers of the runtime accept, because hyper
/// buffers 16 KiB for each connection.
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
    pub(crate) service: Service,
    pub(crate) methods: Vec<Method>,
    pub(crate) access: Access,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_waiting_bytes: usize,
    pub(crate) max_header_bytes: usize,
}

impl Settings {
    /// Validates the configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value.
    pub(crate) fn new(mut config: Config, service: Service, host: &Host) -> Result<Self> {
        if let Some(Preset::Otlp(signal)) = config.preset {
            if signal == Signal::Any && config.path.is_some() {
                return Err(Error::configuration(
                    "invalid `path`: with `preset: { otlp: any }` the path of a request names the signal, as \
                     `/v1/logs`, `/v1/metrics` or `/v1/traces`; remove `path`, or set one signal",
                ));
            }
            config.path = config.path.or_else(|| signal.path().map(str::to_owned));
        }
        let max_body_bytes = size("max_body_bytes", config.max_body_bytes, 1)?;
        let max_waiting_bytes = size("max_waiting_bytes", config.max_waiting_bytes, 1)?;
        if max_waiting_bytes < max_body_bytes {
            return Err(Error::configuration(format_args!(
                "invalid `max_waiting_bytes` {max_waiting_bytes}: expected at least `max_body_bytes`, \
                 {max_body_bytes}, because a body of that length would wait forever"
            )));
        }
        let path = config.path.map(|path| without_placeholders("path", &path));
        config.path = path.transpose()?;
        if let Some(path) = config.path.as_ref().filter(|path| !is_path(path)) {
            return Err(Error::configuration(format_args!(
                "invalid `path` `{path}`: expected a path that begins with `/`, without spaces and `?`, such \
                 as `/logs`"
            )));
        }
        if config.methods.is_empty() {
            return Err(Error::configuration(
                "invalid `methods`: expected at least one method, such as `POST`",
            ));
        }
        config.proxy_protocol.as_ref().map_or(Ok(()), ProxyProtocol::check)?;
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
            service,
        })
    }
}

fn size(key: &str, size: Size, least: u64) -> Result<usize> {
    let found = size.get();
    let size = usize::try_from(found).ok().filter(|_| (least..=MOST_BYTES).contains(&found));
    size.ok_or_else(|| {
        Error::configuration(format_args!(
            "invalid `{key}` {found}: expected {least} to {MOST_BYTES} bytes"
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
            "invalid `methods` entry `{name}`: expected a method in capitals, such as `POST`, other than `CONNECT`"
        ))
    })
}

fn header(name: &str) -> Result<HeaderName> {
    name.parse().map_err(|_| {
        Error::configuration(format_args!(
            "invalid `headers` entry `{name}`: expected the name of a header, such as `user-agent`"
        ))
    })
}
