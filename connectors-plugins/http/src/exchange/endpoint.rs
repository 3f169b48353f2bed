//! The server to which requests go, with what all requests have in common.

use std::{collections::BTreeMap, num::NonZeroUsize};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap,
    HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
};
use tremor_pdk::{
    Error, Host, Result,
    net::tls::{Tls, TlsConnector},
    units::Interval,
};

use super::{secrets::Secrets, target::Targets, url::Url};
use crate::{Auth, Basic, Compression, Secret, coding::ACCEPTED};

/// Keys of a configuration that an [`Endpoint`] needs.
pub(crate) struct Keys<'c> {
    pub(crate) headers: &'c BTreeMap<String, String>,
    pub(crate) auth: Option<&'c Auth>,
    pub(crate) tls: Option<&'c Tls>,
    pub(crate) compression: Compression,
    pub(crate) timeout: Interval,
    pub(crate) connect_timeout: Interval,
    pub(crate) idle_timeout: Interval,
    pub(crate) max_connections: NonZeroUsize,
}

/// The server to which requests go, with what all requests have in common.
pub(crate) struct Endpoint {
    /// The URL, without the part from its first field on.
    pub(crate) url: Url,
    /// `None` for a URL without TLS.
    pub(crate) tls: Option<TlsConnector>,
    /// Headers of every request.
    pub(crate) headers: HeaderMap,
    /// Values that no error may show, even if the peer quotes them.
    pub(crate) secrets: Secrets,
    pub(crate) compression: Compression,
    /// Maximum time from the first byte of a request to the last byte of its response.
    pub(crate) timeout: Interval,
    pub(crate) connect_timeout: Interval,
    /// Time without a request after which a connection is closed.
    pub(crate) idle_timeout: Interval,
    pub(crate) max_connections: NonZeroUsize,
}

impl Endpoint {
    /// Validates the keys. Headers that depend on events are added to `targets`.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value. Secrets
    /// are never shown.
    pub(crate) fn new(
        url: Url,
        keys: &Keys<'_>,
        targets: &mut Targets,
        host: &Host,
    ) -> Result<Self> {
        let tls = match (keys.tls, url.is_tls) {
            (Some(_), false) => {
                return Err(Error::configuration(
                    "invalid `tls`: a `url` with `http` has no TLS; use a `url` with `https`",
                ));
            }
            (None, false) => None,
            (tls, true) => {
                let tls = tls.cloned().unwrap_or_default();
                let tls = TlsConnector::new(&tls, host, &url.address()?)?;
                Some(tls.with_protocols(&["http/1.1"]))
            }
        };
        let mut headers = HeaderMap::new();
        let agent = concat!("tremor/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(HOST, url.host_header());
        headers.insert(ACCEPT_ENCODING, ACCEPTED);
        for (name, text) in keys.headers {
            let key = format!("headers.{name}");
            let name = header_name("headers", name)?;
            match targets.add_header(&key, &name, text)? {
                Some(text) => headers.insert(name, header_value(&key, &text)?),
                None => headers.remove(name),
            };
        }
        if let Some(auth) = keys.auth {
            let (name, value) = credentials(auth)?;
            if targets.has_header(&name) {
                return Err(Error::configuration(format_args!(
                    "invalid `headers.{name}`: `auth` sets this header; remove one of the two"
                )));
            }
            headers.insert(name, value);
        }
        let is_public = |name: &HeaderName| [USER_AGENT, HOST, ACCEPT_ENCODING].contains(name);
        let secret = headers.iter().filter(|(name, _)| !is_public(name)).map(|(_, value)| value);
        let secrets = Secrets::new(&url, secret);
        Ok(Self {
            url,
            tls,
            headers,
            secrets,
            compression: keys.compression,
            timeout: keys.timeout,
            connect_timeout: keys.connect_timeout,
            idle_timeout: keys.idle_timeout,
            max_connections: keys.max_connections,
        })
    }
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

/// Returns the value of a header for the text of a key.
pub(crate) fn header_value(key: &str, text: &str) -> Result<HeaderValue> {
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
        Auth::Bearer(token) => {
            (AUTHORIZATION, header_value("auth.bearer", &format!("Bearer {token}"))?)
        }
        Auth::Header(Secret { name, value: text }) => {
            (header_name("auth.header.name", name)?, header_value("auth.header.value", text)?)
        }
    };
    value.set_sensitive(true);
    Ok((name, value))
}

/// Returns the value of the header for a user name and a password.
fn basic(user: &str, password: &str) -> Result<HeaderValue> {
    header_value("auth.basic", &format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}
