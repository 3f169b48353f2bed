//! How a connection becomes a WebSocket, on the side of the client.

use base64::{Engine, engine::general_purpose::STANDARD};
use tremor_pdk::{
    net::futures_io::{AsyncRead, AsyncWrite},
    prelude::*,
};
use tungstenite::{
    handshake::{
        client::{Response, generate_key},
        derive_accept_key,
        machine::TryParse,
    },
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
};

use crate::{
    config::{Auth, Config},
    session::{read_head, write_all},
    url::Url,
};

/// What the peer is asked with.
pub(crate) struct Handshake {
    url: Url,
    /// Everything but the key, which is another one each time.
    head: Vec<u8>,
}

impl Handshake {
    /// # Errors
    /// Kind configuration: a key that cannot be sent.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let url = Url::new(&config.url)?;
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\n",
            url.path, url.host
        )
        .into_bytes();
        let mut add = |key: &str, name: &str, value: &str| {
            let wrong = |what: &str| {
                // Its value may be a secret.
                Err(Error::configuration(format!("`{key}`: the header `{name}` {what}")))
            };
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                return wrong("has a name that none may have");
            };
            let ours = [header::HOST, header::CONNECTION, header::UPGRADE];
            if ours.contains(&name) || name.as_str().starts_with("sec-websocket-") {
                return wrong("is set by the handshake itself");
            }
            let Ok(value) = HeaderValue::from_str(value) else {
                return wrong("has a value that none may have: control characters, say");
            };
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
            Ok(())
        };
        for (name, value) in &config.headers {
            add("headers", name, value)?;
        }
        match &config.auth {
            None => {}
            Some(Auth::Bearer(token)) => {
                add("auth", "authorization", &format!("Bearer {token}"))?;
            }
            Some(Auth::Basic(basic)) => {
                if basic.user.contains(':') {
                    return Err(Error::configuration("`auth`: the name of a user has no `:`"));
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

    /// Asks the peer for a WebSocket. Gives what was read beyond its answer.
    ///
    /// # Errors
    /// The peer does not answer, or with something else.
    pub(crate) async fn shake<S>(&self, stream: &mut S) -> Result<Vec<u8>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let key = generate_key();
        let mut request = self.head.clone();
        request.extend_from_slice(format!("Sec-WebSocket-Key: {key}\r\n\r\n").as_bytes());
        let broke = |error: std::io::Error| {
            Error::connection_refused(format!("the handshake broke off: {error}"))
        };
        write_all(stream, &request).await.map_err(broke)?;
        let (mut bytes, head) = read_head(stream).await.map_err(broke)?;
        let no_http = |error: &dyn std::fmt::Display| {
            Error::connection_refused(format!("the answer is not of HTTP/1.1: {error}"))
        };
        let parsed = Response::try_parse(&bytes[..head]).map_err(|error| no_http(&error))?;
        let (_, response) = parsed.ok_or_else(|| no_http(&"it has no end"))?;
        check(response.status(), response.headers(), &key)?;
        bytes.drain(..head);
        Ok(bytes)
    }
}

/// Whether the peer agrees: RFC 6455, section 4.1.
fn check(status: StatusCode, headers: &HeaderMap, key: &str) -> Result<()> {
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let message = format!("the peer answers {status}");
        return Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Error::authentication(format!("{message}: see `auth` and `headers`"))
            }
            _ => {
                let error = Error::connection_refused(message);
                let wait = headers.get(header::RETRY_AFTER).and_then(|it| it.to_str().ok());
                match wait.and_then(|it| it.trim().parse().ok()) {
                    Some(seconds) => error.retry_after(std::time::Duration::from_secs(seconds)),
                    None => error,
                }
            }
        });
    }
    let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("");
    let wrong = |what: &str| Err(Error::connection_refused(format!("the peer agrees, but {what}")));
    if !text(header::UPGRADE).eq_ignore_ascii_case("websocket") {
        return wrong("not to a WebSocket (`Upgrade`)");
    }
    let mut tokens = text(header::CONNECTION).split(',');
    if !tokens.any(|it| it.trim().eq_ignore_ascii_case("upgrade")) {
        return wrong("not to change the protocol (`Connection`)");
    }
    if text(header::SEC_WEBSOCKET_ACCEPT) != derive_accept_key(key.as_bytes()) {
        return wrong("not to this request (`Sec-WebSocket-Accept`)");
    }
    let not_asked_for = [header::SEC_WEBSOCKET_EXTENSIONS, header::SEC_WEBSOCKET_PROTOCOL];
    if not_asked_for.iter().any(|it| headers.contains_key(it)) {
        return wrong("to an extension or a protocol that it was not asked for");
    }
    Ok(())
}
