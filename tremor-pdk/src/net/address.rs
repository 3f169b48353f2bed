//! Addresses as people write them.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Host, Result};

/// An address, `HOST:PORT`: of a peer, or to listen on. The host is a name, an IPv4 address, or an IPv6
/// address in brackets. For a key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
// No description: the key that is of this type has one.
#[schemars(
    inline,
    description = "",
    extend("pattern" = "^.+:[0-9]+$", "examples" = ["127.0.0.1:0"])
)]
pub struct Address {
    host: Target,
    port: u16,
}

/// What stands before the port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Ip(IpAddr),
    Name(Box<str>),
}

impl Address {
    /// The name of the host, or its address.
    pub fn host(&self) -> String {
        match &self.host {
            Target::Ip(ip) => ip.to_string(),
            Target::Name(name) => name.to_string(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The addresses that this stands for, one at least. A name is looked up on a thread for blocking work.
    ///
    /// # Errors
    /// Kind connection refused: there is no such name, or nothing that knows it answers. Time may mend that.
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
            Ok(addresses) if addresses.is_empty() => unknown(&"the name has none"),
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
                "`{text}` is no address: {what}; write `HOST:PORT`, such as `127.0.0.1:9000`, \
                 `[::1]:9000` or `logs.example.com:9000`"
            ))
        };
        // What stands before an `@` may be a secret, so nothing of it is shown.
        if text.contains('@') {
            return Err(Error::configuration(
                "an address has no `@`: a user or a token stands elsewhere; write `HOST:PORT` alone",
            ));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let port = port.parse().map_err(|_| wrong("a port is a number up to 65535"))?;
        let host = if let Some(host) = host.strip_prefix('[') {
            let ip = host.strip_suffix(']').and_then(|ip| ip.parse::<Ipv6Addr>().ok());
            Target::Ip(ip.ok_or_else(|| wrong("no IPv6 address stands in the brackets"))?.into())
        } else if host.is_empty() || host.contains(|it: char| it.is_whitespace() || it == '/') {
            return Err(wrong("it has no host"));
        } else if host.contains(':') {
            return Err(wrong("an IPv6 address stands in brackets"));
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
    fn an_address_has_a_host_and_a_port() {
        for text in ["127.0.0.1:9000", "[::1]:0", "logs.example.com:65535", "localhost:514"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let wrong = [
            ("localhost", "no port"),
            ("localhost:", "up to 65535"),
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
    fn what_may_be_a_secret_is_not_shown() {
        for text in ["secret@nats:4222", "user:secret@nats:4222", "secret@"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn a_literal_address_needs_no_look_up() {
        let test = TestHost::new();
        let host = test.host();
        let address: Address = "[::1]:7".parse().unwrap();
        let mut resolved = std::pin::pin!(address.resolve(&host));
        assert!(test.poll_once(resolved.as_mut()).is_ready());
    }

    #[test]
    fn a_name_is_looked_up_on_another_thread() {
        let test = TestHost::new();
        let host = test.host();
        let address: Address = "localhost:7".parse().unwrap();
        let addresses = test.block_on(address.resolve(&host)).unwrap();
        assert!(addresses.iter().all(|it| it.ip().is_loopback() && it.port() == 7));
    }

    #[test]
    fn a_name_that_nobody_knows_may_be_known_later() {
        let test = TestHost::new();
        let host = test.host();
        // Reserved: no resolver answers with an address.
        let address: Address = "nowhere.invalid:7".parse().unwrap();
        let error = test.block_on(address.resolve(&host)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`nowhere.invalid:7`"), "{error}");
    }
}
