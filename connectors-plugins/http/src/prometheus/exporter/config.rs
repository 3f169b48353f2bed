//! The `config` section of the connector in a flow file.

use std::{collections::BTreeMap, num::NonZeroUsize};

use tremor_pdk::{
    net::{Address, ProxyProtocol, tls::Tls},
    template::Template,
    units::Interval,
};

use crate::server;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// Address to listen on: `0.0.0.0:9200`, or `[::]:9200` to include IPv6.
    #[schemars(extend("x-exclusive" = "tcp", "x-shared-by" = "reuse_port"))]
    pub listen: Address,
    /// Path of the page. Requests with another path get the status 404.
    #[serde(default = "path")]
    pub path: String,
    /// Labels that each series gets, unless its sample has a label of this name: `{ cluster: eu }`.
    #[serde(default)]
    pub labels: BTreeMap<String, Template>,
    /// Time without a sample after which a series is removed from the page.
    #[serde(default = "expire_after")]
    pub expire_after: Interval,
    /// Maximum number of series. Samples of further series go to `err`.
    #[serde(default = "max_series")]
    pub max_series: NonZeroUsize,
    /// `true` to show the times of samples. Default: a scrape has the time of the scrape.
    #[serde(default)]
    pub timestamps: bool,
    /// TLS settings, with the certificate of the server. Default: no TLS.
    pub tls: Option<Tls>,
    /// Credentials that requests need. Requests without them get the status 401.
    pub auth: Option<server::Auth>,
    /// Maximum number of connections. Further connections wait when the limit is reached.
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// PROXY protocol, versions 1 and 2: load balancers whose header names the client. Default: connections have no
    /// header.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// `true` to share the address with other listeners that also set this key.
    #[serde(default)]
    pub reuse_port: bool,
}

fn path() -> String {
    "/metrics".to_owned()
}

const fn expire_after() -> Interval {
    Interval::of_ms(300_000)
}

fn max_series() -> NonZeroUsize {
    NonZeroUsize::new(100_000).unwrap_or(NonZeroUsize::MIN)
}

fn max_connections() -> NonZeroUsize {
    NonZeroUsize::new(64).unwrap_or(NonZeroUsize::MIN)
}

impl Config {
    /// Returns the configuration of the server.
    pub(crate) fn server(&self) -> server::Config {
        let mut config = server::Config::new(self.listen.clone());
        config.path = Some(self.path.clone());
        config.methods = vec!["GET".to_owned(), "HEAD".to_owned()];
        config.tls.clone_from(&self.tls);
        config.auth.clone_from(&self.auth);
        config.max_connections = self.max_connections;
        config.proxy_protocol.clone_from(&self.proxy_protocol);
        config.reuse_port = self.reuse_port;
        config
    }
}
