//! The `config` section of the connector in a flow file.

use std::{collections::BTreeMap, num::NonZeroUsize};

use tremor_pdk::{
    Error, Host, Result,
    net::{Address, ProxyProtocol, tls::Tls},
    template::Template,
    units::{Interval, Size},
    without_placeholders,
};

use crate::{
    Auth, Compression,
    exchange::{self, Endpoint, Keys, Targets},
    server,
};

/// Default of `max_body_bytes` of a sink, in bytes.
const REQUEST: u64 = 4 << 20;

/// Upper limit of `max_body_bytes` of a sink, in bytes.
const MOST_REQUEST: u64 = 1 << 30;

/// Configuration of the connector: `url` for a sink, or `listen` for a source.
#[tremor_pdk::config]
#[derive(Clone)]
#[schemars(extend("examples" = [{ "url": "http://127.0.0.1:9/api/v1/write" }]))]
pub struct Config {
    /// URL to which a sink sends: `http://prometheus.example.com:9090/api/v1/write`.
    #[schemars(example = "http://127.0.0.1:9/api/v1/write")]
    pub url: Option<String>,
    /// Address on which a source listens: `0.0.0.0:9201`, or `[::]:9201` to include IPv6.
    #[schemars(extend("x-exclusive" = "tcp", "x-shared-by" = "reuse_port"))]
    pub listen: Option<Address>,
    /// Credentials: those that a sink sends, or those that requests to a source need. A source accepts `basic` and
    /// `bearer`.
    pub auth: Option<Auth>,
    /// TLS settings. For a sink, the default for a URL with `https` is to verify the server's certificate with the root
    /// certificates of the system. For a source, with the certificate of the server; the server has no TLS unless this is set.
    pub tls: Option<Tls>,
    /// Maximum length of a request in bytes, before compression. A sink divides a delivery into several requests, and a
    /// source answers 413. Default: `4MiB` for a sink, `8MiB` for a source.
    pub max_body_bytes: Option<Size>,
    /// Maximum number of connections. Default: 64 for a sink, 5000 for a source.
    pub max_connections: Option<NonZeroUsize>,
    /// Time without a request after which a connection is closed. Default: `60s`.
    pub idle_timeout: Option<Interval>,
    /// Sink: labels that each sample gets, unless it has a label of this name:
    /// `{ cluster: eu, instance: '{%http.url}' }`.
    pub labels: Option<BTreeMap<String, Template>>,
    /// Sink: further headers of each request: `{ X-Scope-OrgID: seven }`.
    #[schemars(extend("x-secret" = "variables"))]
    pub headers: Option<BTreeMap<String, String>>,
    /// Sink: maximum time from the first byte of a request to the last byte of its response. Default: `30s`.
    pub timeout: Option<Interval>,
    /// Sink: maximum time to connect. Default: `10s`.
    pub connect_timeout: Option<Interval>,
    /// Sink: statuses after which a request is sent again, in addition to 401, 429 and 5xx: `[408]`.
    pub retry_statuses: Option<Vec<u16>>,
    /// Source: path of requests. Default: `/api/v1/write`.
    pub path: Option<String>,
    /// Source: point at which a request is answered. Default: `accepted`.
    pub respond: Option<server::Respond>,
    /// Source: representation of values that are not finite in events. Default: `float`.
    pub non_finite: Option<NonFinite>,
    /// Source: maximum number of bytes of all requests that are not in the flow yet. Further requests wait when the
    /// limit is reached. Default: `64MiB`.
    pub max_waiting_bytes: Option<Size>,
    /// Source: maximum time that a request waits for capacity and for its pull. After that the request gets the status
    /// 503. Default: `10s`.
    pub max_wait: Option<Interval>,
    /// Source: maximum time to receive the body after the head. After that the request gets the status 503. Default:
    /// `60s`.
    pub body_timeout: Option<Interval>,
    /// Source: PROXY protocol, versions 1 and 2: load balancers whose header names the client. Default: connections
    /// have no header.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Source: `true` to share the address with other listeners that also set this key.
    pub reuse_port: Option<bool>,
}

/// The representation of values that are not finite in events.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// A float, like other values. JSON cannot represent it.
    #[default]
    Float,
    /// Text: `NaN`, `+Inf`, `-Inf`, or `StaleNaN` for the end of a series.
    Text,
}

/// The side that a configuration describes.
pub(crate) enum Target<'c> {
    /// A sink that sends to this URL.
    Send(&'c str),
    /// A source that listens on this address.
    Receive(&'c Address),
}

impl Config {
    /// Returns the side that the configuration describes.
    ///
    /// # Errors
    /// The configuration has neither `url` nor `listen`, or both, or a key of the other side.
    pub(crate) fn target(&self) -> Result<Target<'_>> {
        let of_sinks = [
            ("labels", self.labels.is_some()),
            ("headers", self.headers.is_some()),
            ("timeout", self.timeout.is_some()),
            ("connect_timeout", self.connect_timeout.is_some()),
            ("retry_statuses", self.retry_statuses.is_some()),
        ];
        let of_sources = [
            ("path", self.path.is_some()),
            ("respond", self.respond.is_some()),
            ("non_finite", self.non_finite.is_some()),
            ("max_waiting_bytes", self.max_waiting_bytes.is_some()),
            ("max_wait", self.max_wait.is_some()),
            ("body_timeout", self.body_timeout.is_some()),
            ("proxy_protocol", self.proxy_protocol.is_some()),
            ("reuse_port", self.reuse_port.is_some()),
        ];
        let (target, others, own) = match (&self.url, &self.listen) {
            (Some(url), None) => (Target::Send(url), &of_sources[..], "a sink, which has `url`,"),
            (None, Some(listen)) => {
                (Target::Receive(listen), &of_sinks[..], "a source, which has `listen`,")
            }
            _ => {
                return Err(Error::configuration(
                    "invalid `config`: expected either `url` for a sink, or `listen` for a source",
                ));
            }
        };
        match others.iter().find(|(_, is_set)| *is_set) {
            None => Ok(target),
            Some((key, _)) => Err(Error::configuration(format_args!(
                "invalid `{key}`: {own} does not have this key; remove it"
            ))),
        }
    }

    /// Returns the maximum length of a request of a sink, in bytes.
    ///
    /// # Errors
    /// The length is not possible.
    pub(crate) fn request_bytes(&self) -> Result<usize> {
        let found = self.max_body_bytes.map_or(REQUEST, Size::get);
        let most = usize::try_from(found).ok().filter(|_| (1..=MOST_REQUEST).contains(&found));
        most.ok_or_else(|| {
            Error::configuration(format_args!(
                "invalid `max_body_bytes` {found}: expected 1 to {MOST_REQUEST} bytes"
            ))
        })
    }

    /// Returns the receiver to which a sink sends.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value.
    pub(crate) fn endpoint(&self, url: &str, host: &Host) -> Result<Endpoint> {
        use exchange::config::{connect_timeout, idle_timeout, max_connections, timeout};
        let url = without_placeholders("url", url)?.parse()?;
        let headers = self.headers.clone().unwrap_or_default();
        let keys = Keys {
            headers: &headers,
            auth: self.auth.as_ref(),
            tls: self.tls.as_ref(),
            compression: Compression::SnappyBlock,
            timeout: self.timeout.unwrap_or(timeout()),
            connect_timeout: self.connect_timeout.unwrap_or(connect_timeout()),
            idle_timeout: self.idle_timeout.unwrap_or(idle_timeout()),
            max_connections: self.max_connections.unwrap_or(max_connections()),
        };
        Endpoint::new(url, &keys, &mut Targets::fixed(), host)
    }

    /// Returns the statuses after which a request is sent again, in addition to those of the protocol.
    ///
    /// # Errors
    /// A number is not the status of a failure.
    pub(crate) fn retry_statuses(&self) -> Result<Vec<u16>> {
        let statuses = self.retry_statuses.clone().unwrap_or_default();
        match statuses.iter().find(|status| !(300..600).contains(*status)) {
            None => Ok(statuses),
            Some(found) => Err(Error::configuration(format_args!(
                "invalid `retry_statuses` entry {found}: expected a status from 300 to 599, such as 408"
            ))),
        }
    }

    /// Returns the configuration of the server of a source.
    ///
    /// # Errors
    /// A key has a value that a source does not support.
    pub(crate) fn server(&self, listen: &Address) -> Result<server::Config> {
        let mut config = server::Config::new(listen.clone());
        config.path = Some(self.path.clone().unwrap_or_else(|| "/api/v1/write".to_owned()));
        config.methods = vec!["POST".to_owned()];
        config.tls.clone_from(&self.tls);
        config.auth = self.auth.as_ref().map(server_auth).transpose()?;
        config.proxy_protocol.clone_from(&self.proxy_protocol);
        config.max_body_bytes = self.max_body_bytes.unwrap_or(config.max_body_bytes);
        let set =
            |target: &mut Interval, value: Option<Interval>| *target = value.unwrap_or(*target);
        set(&mut config.idle_timeout, self.idle_timeout);
        set(&mut config.max_wait, self.max_wait);
        set(&mut config.body_timeout, self.body_timeout);
        config.respond = self.respond.unwrap_or_default();
        config.max_waiting_bytes = self.max_waiting_bytes.unwrap_or(config.max_waiting_bytes);
        config.max_connections = self.max_connections.unwrap_or(config.max_connections);
        config.reuse_port = self.reuse_port.unwrap_or_default();
        Ok(config)
    }
}

fn server_auth(auth: &Auth) -> Result<server::Auth> {
    match auth {
        Auth::Basic(basic) => Ok(server::Auth::Basic(basic.clone())),
        Auth::Bearer(token) => Ok(server::Auth::Bearer(token.clone())),
        Auth::Header(_) => Err(Error::configuration(
            "invalid `auth.header`: a source checks `basic` or `bearer`; set one of these",
        )),
    }
}
