//! Keys that the configurations of all systems have.

use std::num::NonZeroUsize;

use tremor_pdk::units::Interval;

/// Declares the configuration of a system: the given keys, and those of all requests. The method `keys` returns the
/// latter. The key `compression` has the given type, or that of the crate.
macro_rules! sink_config {
    ($(#[$attribute:meta])* pub(crate) struct $name:ident { $($keys:tt)* }) => {
        $crate::exchange::sink_config! {
            compression: $crate::Compression,
            $(#[$attribute])* pub(crate) struct $name { $($keys)* }
        }
    };
    (
        compression: $compression:ty,
        $(#[$attribute:meta])* pub(crate) struct $name:ident { $($keys:tt)* }
    ) => {
        $(#[$attribute])*
        #[tremor_pdk::config]
        #[derive(Clone)]
        pub(crate) struct $name {
            $($keys)*
            /// Headers of each request: `{ x-tenant: seven }`.
            #[serde(default)]
            #[schemars(extend("x-secret" = "variables"))]
            pub headers: std::collections::BTreeMap<String, String>,
            /// Credentials of each request.
            pub auth: Option<crate::Auth>,
            /// TLS settings for a URL with `https`. Default: the server's certificate is verified with the root
            /// certificates of the system.
            pub tls: Option<tremor_pdk::net::tls::Tls>,
            /// Compression of request bodies.
            #[serde(default)]
            pub compression: $compression,
            /// Maximum time from the first byte of a request to the last byte of its response.
            #[serde(default = "crate::exchange::config::timeout")]
            pub timeout: tremor_pdk::units::Interval,
            /// Maximum time to connect.
            #[serde(default = "crate::exchange::config::connect_timeout")]
            pub connect_timeout: tremor_pdk::units::Interval,
            /// Maximum number of connections. The connector uses one connection for each delivery in flight
            /// (`in_flight`).
            #[serde(default = "crate::exchange::config::max_connections")]
            pub max_connections: std::num::NonZeroUsize,
            /// Time without a request after which a connection is closed.
            #[serde(default = "crate::exchange::config::idle_timeout")]
            pub idle_timeout: tremor_pdk::units::Interval,
        }

        impl $name {
            /// Returns the keys of all requests.
            pub(crate) fn keys(&self) -> crate::exchange::Keys<'_> {
                crate::exchange::Keys {
                    headers: &self.headers,
                    auth: self.auth.as_ref(),
                    tls: self.tls.as_ref(),
                    compression: self.compression.into(),
                    timeout: self.timeout,
                    connect_timeout: self.connect_timeout,
                    idle_timeout: self.idle_timeout,
                    max_connections: self.max_connections,
                }
            }
        }
    };
}

pub(crate) use sink_config;

pub(crate) const fn timeout() -> Interval {
    Interval::of_ms(30_000)
}

pub(crate) const fn connect_timeout() -> Interval {
    Interval::of_ms(10_000)
}

pub(crate) fn max_connections() -> NonZeroUsize {
    NonZeroUsize::new(64).unwrap_or(NonZeroUsize::MIN)
}

pub(crate) const fn idle_timeout() -> Interval {
    Interval::of_ms(60_000)
}
