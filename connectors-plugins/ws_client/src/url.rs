//! Addresses of WebSockets.

use std::fmt;

use tremor_pdk::{net::Address, prelude::*};
use tungstenite::http::Uri;

/// `ws://HOST:PORT/PATH?QUERY`, or `wss://…`. Shown without the query, which may have a secret.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    pub(crate) is_secure: bool,
    pub(crate) address: Address,
    /// What the peer calls itself, for the handshake.
    pub(crate) host: String,
    /// With the query.
    pub(crate) path: String,
}

impl Url {
    /// # Errors
    /// Kind configuration: it is none.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let wrong = |what: &dyn fmt::Display| {
            Error::configuration(format!(
                "`url` is no address of a WebSocket: {what}; write `ws://HOST:PORT/PATH` or `wss://…`"
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
            return Err(wrong(&"a name and a password belong into `auth`"));
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            // A port that is no number, or too large a one.
            None if authority.as_str().rsplit(']').next().is_some_and(|it| it.contains(':')) => {
                return Err(wrong(&"a port is a number up to 65535"));
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
