//! Proxies between clients and their peers, as configured by environment variables.

mod no_proxy;

use std::{
    fmt,
    future::poll_fn,
    io::{self, Read, Write},
    net::IpAddr,
    time::Duration,
};

use self::no_proxy::Entry;
use super::{Address, TcpStream, connect, stream::StreamSocket, within};
use crate::{Descriptors, Error, Host, Result};

/// Maximum length of a proxy's response to `CONNECT`, in bytes.
const ANSWER: usize = 16 << 10;

/// Maximum number of characters of a response that an error shows.
const SHOWN: usize = 200;

/// Maximum time in which a proxy has to answer `CONNECT`, with [`Proxy::connect`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum length in bytes of a secret that is redacted. Shorter values would match by chance.
const MIN_SECRET: usize = 4;

/// A proxy for HTTP between a client and its peer.
#[derive(Clone)]
pub struct Proxy {
    address: Address,
    credentials: Option<Credentials>,
}

#[derive(Clone)]
struct Credentials {
    user_and_password: String,
    password: String,
    /// Value of the header `Proxy-Authorization`.
    authorization: String,
}

impl Proxy {
    /// Returns the proxy for `peer` according to the environment variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
    /// `NO_PROXY`. `HTTPS_PROXY` applies if the connection to the peer uses TLS. If a variable also exists in lower
    /// case, the lower-case one has precedence. `localhost` and loopback addresses are reached without a proxy.
    ///
    /// Logs a warning for each invalid entry of `NO_PROXY`.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if a variable is invalid. The value is not shown, because it may
    /// contain a password.
    pub fn from_environment(host: &Host, peer: &Address, is_tls: bool) -> Result<Option<Self>> {
        let invalid = |variable: &str, entry: &str| {
            warn!(
                host,
                "invalid entry `{entry}` of `{variable}`: expected a host name, an IP address, a network \
                 such as `10.0.0.0/8`, each with or without a port, or `*`; the entry has no effect"
            );
        };
        Self::of(peer, is_tls, |name: &str| std::env::var(name).ok(), invalid)
    }

    /// Returns the proxy for `peer` like [`Self::from_environment`], with other variables. Reports each invalid entry of
    /// `NO_PROXY` to `invalid`, with the name of the variable.
    fn of(
        peer: &Address,
        is_tls: bool,
        variable: impl Fn(&str) -> Option<String>,
        mut invalid: impl FnMut(&str, &str),
    ) -> Result<Option<Self>> {
        let set = |name: &str| {
            // In a CGI script, `HTTP_PROXY` contains the header `Proxy` of the request, which a
            // client could forge. Therefore ignore the variable in a CGI script.
            let is_header = name == "HTTP_PROXY" && variable("REQUEST_METHOD").is_some();
            let small =
                variable(&name.to_ascii_lowercase()).map(|it| (name.to_ascii_lowercase(), it));
            let large = || Some((name.to_owned(), variable(name)?));
            small
                .or_else(|| if is_header { None } else { large() })
                .filter(|(_, it)| !it.is_empty())
        };
        let name = peer.host();
        let is_here = name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
        if is_here || name.eq_ignore_ascii_case("localhost") {
            return Ok(None);
        }
        let name = if is_tls { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let Some((name, text)) = set(name).or_else(|| set("ALL_PROXY")) else { return Ok(None) };
        if let Some((variable, hosts)) = set("NO_PROXY") {
            let mut is_excepted = false;
            for entry in Entry::list(&hosts) {
                match entry {
                    Ok(entry) => is_excepted |= entry.covers(peer),
                    Err(entry) => invalid(&variable, entry),
                }
            }
            if is_excepted {
                return Ok(None);
            }
        }
        Self::parse(&name, &text).map(Some)
    }

    fn parse(variable: &str, text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::configuration(format_args!(
                "invalid variable `{variable}`: expected a proxy such as `http://HOST:PORT`; {what}"
            ))
        };
        let (scheme, text) = text.split_once("://").unwrap_or(("http", text));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(wrong("the value has another scheme"));
        }
        let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let (name, port) = match host.rsplit_once(':').filter(|_| has_port) {
            Some((name, port)) => {
                let is_decimal = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
                let port = port.parse::<u16>().ok().filter(|port| is_decimal && *port > 0);
                (name, port.ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?)
            }
            None => (host, 80),
        };
        if name.is_empty() {
            return Err(wrong("the value has no host"));
        }
        let is_text = name.bytes().all(|byte| byte.is_ascii_graphic());
        let address = format!("{name}:{port}").parse::<Address>().ok().filter(|_| is_text);
        let address = address.ok_or_else(|| wrong("the host is invalid"))?;
        let credentials = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            let parts = percent_decode(user).zip(percent_decode(password));
            let (user, password) = parts
                .ok_or_else(|| wrong("the credentials are not valid percent-encoded UTF-8"))?;
            if user.contains(':') {
                return Err(wrong("the user name contains a colon"));
            }
            let user_and_password = format!("{user}:{password}");
            let authorization = format!("Basic {}", base64(user_and_password.as_bytes()));
            Ok::<_, Error>(Credentials { user_and_password, password, authorization })
        });
        Ok(Self { address, credentials: credentials.transpose()? })
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the value of the header `Proxy-Authorization`, a secret, if the proxy requires credentials.
    pub fn authorization(&self) -> Option<&str> {
        self.credentials.as_ref().map(|credentials| &*credentials.authorization)
    }

    /// Connects to `peer` through the proxy: to the proxy within the time of [`connect`](super::connect()), and then
    /// with [`Self::tunnel`] within ten seconds.
    ///
    /// # Errors
    /// Returns an error of the kind connection refused, after which the runtime retries. The error does not name the
    /// peer or the proxy.
    pub async fn connect(
        &self,
        host: &Host,
        descriptors: &Descriptors,
        peer: &Address,
    ) -> Result<TcpStream> {
        let stream = connect(host, descriptors, &self.address).await?;
        let tunnel = within(host, CONNECT_TIMEOUT, self.tunnel(&stream, peer)).await;
        let late = || {
            let message = format!("the proxy did not answer within {CONNECT_TIMEOUT:?}");
            Err(Error::connection_refused(message))
        };
        tunnel.unwrap_or_else(late)?;
        Ok(stream)
    }

    /// Asks the proxy on a new connection, with `CONNECT`, to connect to `peer`. After that, bytes of the connection are
    /// exchanged with the peer.
    ///
    /// # Errors
    /// Returns an error of the kind connection refused with the answer of the proxy, without the credentials.
    pub async fn tunnel(&self, stream: &TcpStream, peer: &Address) -> Result<()> {
        let mut request = format!("CONNECT {peer} HTTP/1.1\r\nHost: {peer}\r\n");
        if let Some(value) = self.authorization() {
            request.extend(["Proxy-Authorization: ", value, "\r\n"]);
        }
        request.push_str("\r\n");
        let broke = |error: io::Error| {
            Error::connection_refused(format_args!("the connection to the proxy broke: {error}"))
        };
        let mut unsent = request.as_bytes();
        while !unsent.is_empty() {
            let write = |mut socket: &std::net::TcpStream| socket.write(unsent);
            let count = stream.registered().write_with(write).await.map_err(broke)?;
            unsent = &unsent[count..];
        }
        // Read one byte at a time, because the bytes after the response belong to the peer.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = poll_fn(|context| {
                let read = |mut socket: &std::net::TcpStream| socket.read(&mut byte);
                stream.registered().poll_read_with(context, read)
            });
            if read.await.map_err(broke)? == 0 {
                return Err(broke(io::ErrorKind::UnexpectedEof.into()));
            }
            if answer.len() == ANSWER {
                return Err(Error::connection_refused(format_args!(
                    "the proxy answered with more than {ANSWER} bytes"
                )));
            }
            answer.push(byte[0]);
        }
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if line.starts_with(b"HTTP/1.") && status.len() == 3 && status[0] == b'2' {
            return Ok(());
        }
        let remedy = match status {
            b"407" => "; check the name and the password in the URL of the proxy",
            _ => "",
        };
        let line = self.shown(line);
        Err(Error::connection_refused(format_args!("the proxy answered with `{line}`{remedy}")))
    }

    /// Returns the beginning of a line of the proxy as printable text, without the credentials, which a proxy may quote.
    fn shown(&self, line: &[u8]) -> String {
        let mut line = String::from_utf8_lossy(line).into_owned();
        if let Some(Credentials { user_and_password, password, authorization }) = &self.credentials
        {
            let token = authorization.trim_start_matches("Basic ");
            for secret in [token, user_and_password, password] {
                if secret.len() >= MIN_SECRET {
                    line = line.replace(secret, "[redacted]");
                }
            }
        }
        let printable = |it: char| if it.is_control() { char::REPLACEMENT_CHARACTER } else { it };
        line.chars().map(printable).take(SHOWN).collect()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy `{}`", self.address)
    }
}

shows! { Proxy { address } }

/// Decodes percent-encoded text, such as `%41` for `A`. Returns `None` if the text is malformed, or does not encode
/// UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit =
            |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).ok()
}

/// Encodes bytes in Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*chunk.get(at).unwrap_or(&0)));
        for position in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * position) & 63];
            text.push(if position <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(all(test, feature = "testing"))]
mod tests;
