//! Proxies, as configured by environment variables.

use std::{fmt, net::IpAddr};

use hyper::{Uri, header::HeaderValue};
use tremor_pdk::{Error, Result, net::Address};

use super::{
    no_proxy::Entry,
    settings,
    url::{Url, decoded},
};

/// A proxy between the client and the peer.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: Address,
    /// Value of the header `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Returns the proxy for `url` according to the environment variables `HTTP_PROXY`,
    /// `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. If a variable also exists in lower case, the
    /// lower-case one has precedence. `localhost` and loopback addresses are reached without a
    /// proxy.
    ///
    /// Reports each invalid entry of `NO_PROXY` to `invalid`, with the name of the variable.
    ///
    /// # Errors
    /// An error of the kind configuration if a variable is invalid. The value is not shown, because
    /// it may contain a password.
    pub(crate) fn of(
        url: &Url,
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
        let is_here = url.host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
        if is_here || url.host.eq_ignore_ascii_case("localhost") {
            return Ok(None);
        }
        let name = if url.is_tls { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let Some((name, text)) = set(name).or_else(|| set("ALL_PROXY")) else { return Ok(None) };
        if let Some((variable, hosts)) = set("NO_PROXY") {
            let mut is_excepted = false;
            for entry in Entry::list(&hosts) {
                match entry {
                    Ok(entry) => is_excepted |= entry.covers(url),
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
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri = text.parse::<Uri>().map_err(|_| wrong("the value is not a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("the value has another scheme"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("the value has no host"))?;
        let with_port = authority.as_str().rsplit('@').next().unwrap_or_default();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if with_port.len() > authority.host().len() => {
                return Err(wrong("the port is not a number up to 65535"));
            }
            None => 80,
        };
        let address = format!("{}:{port}", authority.host());
        let address = address.parse::<Address>().map_err(|_| wrong("the host is invalid"))?;
        let userinfo = authority.as_str().rsplit_once('@').map(|(userinfo, _)| userinfo);
        let authorization = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            let parts = decoded(user).zip(decoded(password));
            let (user, password) = parts
                .ok_or_else(|| wrong("the credentials are not valid percent-encoded UTF-8"))?;
            let mut value = settings::basic(&user, &password)?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        });
        Ok(Self { address, authorization: authorization.transpose()? })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy `{}`", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::Proxy;
    use crate::client::url::Url;

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = Proxy::of(&url.parse::<Url>().unwrap(), variable, |_, _| {}).unwrap()?;
        let secret = proxy.authorization.as_ref().map_or("", |it| it.to_str().unwrap());
        Some(format!("{}{secret}", proxy.address))
    }

    #[test]
    fn proxy_is_read_from_environment_variables() {
        let both = [("http_proxy", "http://one:3128"), ("HTTPS_PROXY", "two:3128")];
        assert_eq!(proxy("http://a", &both).as_deref(), Some("one:3128"));
        assert_eq!(proxy("https://a", &both).as_deref(), Some("two:3128"));
        assert_eq!(proxy("http://a", &[("ALL_PROXY", "http://p")]).as_deref(), Some("p:80"));
        assert_eq!(proxy("http://a", &[("HTTP_PROXY", "")]), None);
        let script = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
        assert_eq!(
            proxy("http://a", &script),
            None,
            "in a CGI script a client can set the variable"
        );
        let secret = [("http_proxy", "http://us%65r:p%40ss@one:1")];
        assert_eq!(proxy("http://a", &secret).as_deref(), Some("one:1Basic dXNlcjpwQHNz"));
    }

    #[test]
    fn hosts_of_no_proxy_and_this_machine_need_no_proxy() {
        let direct = |url: &str, hosts: &str| {
            proxy(url, &[("http_proxy", "one:1"), ("no_proxy", hosts)]).is_none()
        };
        for (url, hosts) in [
            ("http://a.example.com", "example.com"),
            ("http://10.7.8.9", "example.com,10.0.0.0/8"),
            ("http://10.7.8.9", "10.0.0.0/99,10.7.8.9"),
            ("http://[::1]:81", ""),
            ("http://127.1.2.3", ""),
            ("http://LocalHost:80", ""),
        ] {
            assert!(direct(url, hosts), "{url} {hosts}");
        }
        for (url, hosts) in [("http://notexample.com", "example.com"), ("http://a", " ,")] {
            assert!(!direct(url, hosts), "{url} {hosts}");
        }
    }

    #[test]
    fn invalid_entries_of_no_proxy_are_reported() {
        let url = "http://a".parse::<Url>().unwrap();
        let variables = |proxy: Option<&'static str>| {
            move |name: &str| match name {
                "NO_PROXY" => Some("10.0.0.0/33, b, c:99999".to_owned()),
                "http_proxy" => proxy.map(str::to_owned),
                _ => None,
            }
        };
        let mut invalid = Vec::new();
        let mut report = |name: &str, entry: &str| invalid.push(format!("{name} {entry}"));
        Proxy::of(&url, variables(None), &mut report).unwrap();
        let proxy = Proxy::of(&url, variables(Some("one:1")), &mut report).unwrap();
        assert!(proxy.is_some());
        assert_eq!(invalid, ["NO_PROXY 10.0.0.0/33", "NO_PROXY c:99999"]);
    }

    #[test]
    fn invalid_proxy_is_rejected_without_showing_its_value() {
        let url = "http://a".parse::<Url>().unwrap();
        for text in [
            "socks5://u:secret@a",
            "http://u:secret@",
            "http://u:secr%zzet@a",
            "http://a b",
            "a:99999",
            "http://u:secret@a:port",
        ] {
            let variable = |name: &str| (name == "HTTP_PROXY").then(|| text.to_owned());
            let error = Proxy::of(&url, variable, |_, _| {}).err().unwrap().to_string();
            assert!(error.contains("`HTTP_PROXY`") && !error.contains("secr"), "{error}");
        }
    }
}
