//! WebSocket handshake of the client.

use base64::{Engine, engine::general_purpose::STANDARD};
use tremor_pdk::{
    ErrorPolicy, header_without_placeholders,
    net::futures_io::{AsyncRead, AsyncWrite},
    prelude::*,
    without_placeholders,
};
use tungstenite::{
    handshake::{
        client::{Response, generate_key},
        derive_accept_key,
        machine::TryParse,
    },
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
};

use super::{
    config::{Auth, Config},
    url::Url,
};
use crate::session::{has_token, read_head, write_all};

/// Request of the handshake.
pub(crate) struct Handshake {
    url: Url,
    /// The head of the request without the key, because each connection has another key.
    head: Vec<u8>,
}

impl Handshake {
    /// Creates the request.
    ///
    /// # Errors
    /// An error of the kind configuration if a header cannot be sent.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let url = Url::new(&without_placeholders("url", &config.url)?)?;
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\n",
            url.path, url.host
        )
        .into_bytes();
        let mut add = |key: &str, name: &str, value: &str| {
            let wrong = |what: &str| {
                // Do not show the value, because it may be a secret.
                Err(Error::configuration(format!("invalid `{key}`: the header `{name}` {what}")))
            };
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                return wrong("has an invalid name");
            };
            let ours = [header::HOST, header::CONNECTION, header::UPGRADE];
            if ours.contains(&name) || name.as_str().starts_with("sec-websocket-") {
                return wrong("is set by the handshake itself");
            }
            let Ok(value) = HeaderValue::from_str(value) else {
                return wrong("has a value with invalid characters, such as a line feed");
            };
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
            Ok(())
        };
        for (name, value) in &config.headers {
            let value = header_without_placeholders(name, value)?;
            add("headers", name, &value)?;
        }
        match &config.auth {
            None => {}
            Some(Auth::Bearer(token)) => {
                add("auth", "authorization", &format!("Bearer {token}"))?;
            }
            Some(Auth::Basic(basic)) => {
                if basic.user.contains(':') {
                    return Err(Error::configuration(
                        "invalid `auth`: expected a user name without a colon",
                    ));
                }
                let both = STANDARD.encode(format!("{}:{}", basic.user, basic.password));
                add("auth", "authorization", &format!("Basic {both}"))?;
            }
        }
        Ok(Self { url, head })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Performs the handshake. Returns the bytes of the stream that were read after the response.
    ///
    /// # Errors
    /// The peer did not respond, or rejected the handshake.
    pub(crate) async fn perform<S>(&self, stream: &mut S) -> Result<Vec<u8>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let key = generate_key();
        let mut request = self.head.clone();
        request.extend_from_slice(format!("Sec-WebSocket-Key: {key}\r\n\r\n").as_bytes());
        let broke = |error: std::io::Error| {
            Error::connection_refused(format!("the connection broke in the handshake: {error}"))
        };
        write_all(stream, &request).await.map_err(broke)?;
        let (mut bytes, head) = read_head(stream).await.map_err(broke)?;
        let no_http = |error: &dyn std::fmt::Display| {
            Error::connection_refused(format!("the response is not HTTP/1.1: {error}"))
        };
        let parsed = Response::try_parse(&bytes[..head]).map_err(|error| no_http(&error))?;
        let (_, response) = parsed.ok_or_else(|| no_http(&"its head is incomplete"))?;
        check(response.status(), response.headers(), &key)?;
        bytes.drain(..head);
        Ok(bytes)
    }
}

/// Checks the response to the handshake, as RFC 6455, section 4.1 requires.
fn check(status: StatusCode, headers: &HeaderMap, key: &str) -> Result<()> {
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let message = format!("the peer answered with {status}");
        let error = match status {
            // The credentials may be renewed, and the peer may get to know them later.
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Error::authentication(format!("{message}; check `auth` and `headers`"))
                    .with_policy(ErrorPolicy::RECONNECT)
            }
            _ => Error::connection_refused(message),
        };
        let wait = headers.get(header::RETRY_AFTER).and_then(|it| it.to_str().ok());
        return Err(match wait.and_then(|it| it.trim().parse().ok()) {
            Some(seconds) => error.retry_after(std::time::Duration::from_secs(seconds)),
            None => error,
        });
    }
    let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("");
    let wrong = |what: &str| {
        Err(Error::connection_refused(format!("the peer accepted the handshake with {what}")))
    };
    if !has_token(headers, &header::UPGRADE, "websocket") {
        return wrong("an invalid `Upgrade`");
    }
    if !has_token(headers, &header::CONNECTION, "upgrade") {
        return wrong("an invalid `Connection`");
    }
    if text(header::SEC_WEBSOCKET_ACCEPT) != derive_accept_key(key.as_bytes()) {
        return wrong("an invalid `Sec-WebSocket-Accept`");
    }
    let not_asked_for = [header::SEC_WEBSOCKET_EXTENSIONS, header::SEC_WEBSOCKET_PROTOCOL];
    if not_asked_for.iter().any(|it| headers.contains_key(it)) {
        return wrong("an extension or a protocol that was not requested");
    }
    Ok(())
}
