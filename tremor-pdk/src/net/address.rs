//! Network addresses as people write them in configurations.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Host, Result};

/// A network address `HOST:PORT`, of a peer or to listen on, as the type of a configuration key.
///
/// The host is a name, an IPv4 address, or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
// The configuration key that has this type has a description of its own.
#[schemars(
    inline,
    description = "",
    extend("pattern" = "^.+:[0-9]+$", "examples" = ["127.0.0.1:0"])
)]
pub struct Address {
    host: Target,
    port: u16,
}

/// The host of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Ip(IpAddr),
    Name(Box<str>),
}

impl Address {
    /// Returns the host: a name or an IP address.
    pub fn host(&self) -> String {
        match &self.host {
            Target::Ip(ip) => ip.to_string(),
            Target::Name(name) => name.to_string(),
        }
    }

    /// Returns the port number.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the socket addresses of this address, at least one. A name is looked up on a thread for blocking work.
    ///
    /// # Errors
    /// Returns an error of the kind connection refused, after which the runtime retries, if the name does not exist or
    /// no name server answers.
    pub async fn resolve(&self, host: &Host) -> Result<Vec<SocketAddr>> {
        let name = match &self.host {
            Target::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, self.port)]),
            Target::Name(name) => name.clone(),
        };
        let port = self.port;
        let look_up = move || (&*name, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let unknown = |why: &dyn fmt::Display| {
            let message = format!("cannot find the address of `{self}`: {why}");
            Err(Error::connection_refused(message))
        };
        match host.blocking(look_up).await? {
            Ok(addresses) if addresses.is_empty() => unknown(&"the name has no address"),
            Ok(addresses) => Ok(addresses),
            Err(error) => unknown(&error),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::configuration(format!(
                "invalid address `{text}`: {what}; write `HOST:PORT`, such as `127.0.0.1:9000`, \
                 `[::1]:9000` or `logs.example.com:9000`"
            ))
        };
        if text.contains(['{', '}']) {
            return Err(wrong(
                "nothing replaces placeholders such as `{hostname}` in it; write `${env:HOSTNAME}` for a variable of the \
                 environment",
            ));
        }
        // The text before an `@` may be a secret, so the error does not contain it.
        if text.contains('@') {
            return Err(Error::configuration(
                "invalid address: `@` is not allowed, because users and tokens have keys of their own; write only `HOST:PORT`",
            ));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let port = port.parse().map_err(|_| wrong("a port is a number up to 65535"))?;
        let host = if let Some(host) = host.strip_prefix('[') {
            let ip = host.strip_suffix(']').and_then(|ip| ip.parse::<Ipv6Addr>().ok());
            Target::Ip(ip.ok_or_else(|| wrong("expected an IPv6 address in the brackets"))?.into())
        } else if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(wrong("it has no host"));
        } else if host.contains(':') {
            return Err(wrong("an IPv6 address has to be in brackets"));
        } else {
            host.parse().map_or_else(|_| Target::Name(host.into()), Target::Ip)
        };
        Ok(Self { host, port })
    }
}

impl TryFrom<String> for Address {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Target::Ip(ip) => write!(f, "{}", SocketAddr::new(*ip, self.port)),
            Target::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::Address;
    use crate::{ErrorKind, testing::TestHost};

    #[test]
    fn address_has_a_host_and_a_port() {
        for text in ["127.0.0.1:9000", "[::1]:0", "logs.example.com:65535", "localhost:514"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let wrong = [
            ("localhost", "no port"),
            ("localhost:", "up to 65535"),
            ("{hostname}:514", "`${env:HOSTNAME}`"),
            ("localhost:99999", "up to 65535"),
            ("localhost:http", "up to 65535"),
            (":514", "no host"),
            ("a b:514", "no host"),
            ("http://a:80", "no host"),
            ("::1:514", "in brackets"),
            ("[::1:514", "in the brackets"),
            ("[localhost]:514", "in the brackets"),
        ];
        for (text, what) in wrong {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.to_string().contains("127.0.0.1:9000"), "{error}");
        }
    }

    #[test]
    fn error_does_not_contain_possible_secret() {
        for text in ["secret@nats:4222", "user:secret@nats:4222", "secret@"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn ip_address_needs_no_lookup() {
        let test = TestHost::new();
        let host = test.host();
        let address: Address = "[::1]:7".parse().unwrap();
        let mut resolved = std::pin::pin!(address.resolve(&host));
        assert!(test.poll_once(resolved.as_mut()).is_ready());
    }

    #[test]
    fn name_is_looked_up_on_another_thread() {
        let test = TestHost::new();
        let host = test.host();
        let address: Address = "localhost:7".parse().unwrap();
        let addresses = test.block_on(address.resolve(&host)).unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7));
    }

    #[test]
    fn unknown_name_is_a_refused_connection() {
        let test = TestHost::new();
        let host = test.host();
        // `.invalid` is a reserved domain for which no name server returns an address.
        let address: Address = "nowhere.invalid:7".parse().unwrap();
        let error = test.block_on(address.resolve(&host)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`nowhere.invalid:7`"), "{error}");
    }
}
