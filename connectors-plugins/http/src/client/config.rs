//! The `config` section of the connector in a flow file.

use std::{collections::BTreeMap, num::NonZeroUsize};

use tremor_pdk::{
    net::tls::Tls,
    template::Template,
    units::{Interval, Size},
};

use crate::exchange::config::{connect_timeout, idle_timeout, max_connections, timeout};
use crate::{Auth, Compression, Escape, Preset};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// URL of the server: `http://logs.example.com:8080/ingest?tenant=7`. For a sink, the path and the query may have
    /// fields: `http://logs.example.com/{tenant}`.
    #[schemars(with = "Template", example = "http://127.0.0.1:9/")]
    pub url: String,
    /// A protocol over HTTP, which determines the paths of requests and the meaning of responses.
    pub preset: Option<Preset>,
    /// The method. Default: `POST` for requests of the sink, `GET` for those of the source.
    pub method: Option<String>,
    /// Headers of each request: `{ x-tenant: seven }`. For a sink, values may have fields: `{ x-tenant: '{tenant}' }`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Template>", extend("x-secret" = "variables"))]
    pub headers: BTreeMap<String, String>,
    /// Credentials of each request.
    pub auth: Option<Auth>,
    /// TLS settings for a URL with `https`. Default: the server's certificate is verified with the
    /// root certificates of the system.
    pub tls: Option<Tls>,
    /// Format of request bodies.
    #[serde(default)]
    pub format: Format,
    /// Texts around the events of request bodies.
    pub body: Option<Body>,
    /// Maximum length of a request body with several events, in bytes before compression.
    #[serde(default = "max_body_bytes")]
    pub max_body_bytes: Size,
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
    /// The events of a delivery become one body without anything between them, except for the texts of `body`.
    Joined,
}

/// Texts around the events of request bodies. The texts are templates. Events for which `prefix` or `suffix` differ are
/// sent in different requests.
#[tremor_pdk::config]
#[derive(Clone, Default)]
pub struct Body {
    /// Text at the start of each body.
    pub prefix: Option<Template>,
    /// Text before each event: `{"index":{"_index":"logs-{:+%F}"}}` with a line feed.
    pub before_event: Option<Template>,
    /// Text between two events, without fields. Only for `format: joined`.
    pub separator: Option<String>,
    /// Text after each event. With `format: ndjson`, it is in the line of the event.
    pub after_event: Option<Template>,
    /// Text at the end of each body.
    pub suffix: Option<Template>,
    /// The way in which values of fields are escaped in these texts.
    #[serde(default)]
    pub escape: Escape,
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(64 << 20)
}

const fn max_response_bytes() -> Size {
    Size::of_bytes(8 << 20)
}
