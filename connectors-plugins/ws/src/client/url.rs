//! URLs of WebSockets.

use std::fmt;

use tremor_pdk::{net::Address, prelude::*};
use tungstenite::http::Uri;

/// A URL `ws://HOST:PORT/PATH?QUERY` or `wss://…`. The displayed form omits the query, which may
/// contain a secret.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    pub(crate) is_secure: bool,
    pub(crate) address: Address,
    /// Host and port as in the URL, for the header `Host`.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) path: String,
}

impl Url {
    /// Parses the URL.
    ///
    /// # Errors
    /// An error of the kind configuration if the URL is invalid.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let wrong = |what: &dyn fmt::Display| {
            Error::configuration(format!(
                "invalid `url`: {what}; expected `ws://HOST:PORT/PATH` or `wss://…`"
            ))
        };
        let uri: Uri = text.parse().map_err(|error| wrong(&error))?;
        let is_secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(wrong(&"it starts with neither `ws://` nor `wss://`")),
        };
        let authority = uri.authority().ok_or_else(|| wrong(&"it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong(&"a name and a password have to be set with `auth`"));
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            // The port is not a number, or is too large.
            None if authority.as_str().rsplit(']').next().is_some_and(|it| it.contains(':')) => {
                return Err(wrong(&"the port is not a number up to 65535"));
            }
            None if is_secure => 443,
            None => 80,
        };
        let address = format!("{}:{port}", authority.host()).parse()?;
        let path = uri.path_and_query().map_or("/", |it| it.as_str()).to_owned();
        Ok(Self { is_secure, address, host: authority.as_str().to_owned(), path })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.host)
    }
}
