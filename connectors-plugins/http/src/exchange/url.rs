//! URLs of requests.

use std::{fmt, str::FromStr};

use hyper::{Uri, header::HeaderValue, http::uri::PathAndQuery};
use tremor_pdk::{Error, Result, net::Address};

/// Maximum length of a path in the displayed form of a URL, in bytes.
const SHOWN: usize = 200;

/// A URL with the scheme `http` or `https`. The displayed form omits the query, which may contain a
/// secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_tls: bool,
    /// The host without brackets.
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    pub(crate) target: PathAndQuery,
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Do not show the text of the URL, because it may contain a password.
        let wrong = |what: &str| {
            Error::configuration(format_args!(
                "invalid `url`: {what}; expected `http://HOST:PORT/PATH` or `https://HOST/PATH`"
            ))
        };
        let uri =
            text.parse::<Uri>().map_err(|error| wrong(&format!("it cannot be parsed: {error}")))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it has no scheme `http` or `https`")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a name and a password have to be set with `auth`"));
        }
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(wrong("the port is not a number up to 65535")),
            None if is_tls => 443,
            None => 80,
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let target = uri.path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let url = Self { is_tls, host: host.into(), port, target };
        url.address().map(|_| url)
    }
}

impl Url {
    /// Returns the address to connect to.
    pub(crate) fn address(&self) -> Result<Address> {
        self.authority().parse::<Address>().map_err(|error| error.context("invalid `url`"))
    }

    /// Returns the host as in a URL: an IPv6 address in brackets.
    fn host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() }
    }

    /// Returns the host and the port.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host(), self.port)
    }

    /// Returns the value of the header `Host`, which omits the default port.
    pub(crate) fn host_header(&self) -> HeaderValue {
        let is_usual = self.port == if self.is_tls { 443 } else { 80 };
        let host = if is_usual { self.host() } else { self.authority() };
        HeaderValue::try_from(host).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// Returns this URL with `path` appended to its own path.
    pub(crate) fn below(&self, path: &str) -> Result<Self> {
        let base = self.target.path().trim_end_matches('/');
        let query = self.target.query().map_or_else(String::new, |query| format!("?{query}"));
        let target = format!("{base}{path}{query}");
        let target = PathAndQuery::try_from(target).map_err(Error::configuration)?;
        Ok(Self { target, ..self.clone() })
    }

    /// Returns whether both URLs have the same scheme, host and port.
    pub(crate) fn is_same_origin(&self, other: &Self) -> bool {
        self.is_tls == other.is_tls
            && self.host.eq_ignore_ascii_case(&other.host)
            && self.port == other.port
    }

    /// Returns the URL to which `reference` refers, such as `/x`, `../x`, `?x` or a complete URL, in a
    /// response of this URL. A fragment is dropped.
    ///
    /// # Errors
    /// The result is not a URL with the scheme `http` or `https`.
    pub(crate) fn join(&self, reference: &str) -> Result<Self> {
        let reference = reference.split('#').next().unwrap_or_default();
        let scheme = if self.is_tls { "https" } else { "http" };
        let head = reference.split(['/', '?']).next().unwrap_or_default();
        if head.contains(':') {
            return reference.parse();
        }
        if reference.starts_with("//") {
            return format!("{scheme}:{reference}").parse();
        }
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let base = self.target.path();
        let query = query.or(self.target.query().filter(|_| path.is_empty()));
        let path = match path {
            "" => base.to_owned(),
            _ if path.starts_with('/') => without_dots(path),
            _ => {
                let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
                without_dots(&format!("{folder}/{path}"))
            }
        };
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let target = PathAndQuery::try_from(format!("{path}{query}"));
        Ok(Self { target: target.map_err(Error::configuration)?, ..self.clone() })
    }

    /// Returns the target in the first line of a request: the path and the query, or the complete
    /// URL if the request goes to a proxy and has no TLS.
    pub(crate) fn request_target(&self, is_for_proxy: bool) -> Uri {
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = Some(self.target.clone());
        if is_for_proxy && !self.is_tls {
            parts.scheme = Some(hyper::http::uri::Scheme::HTTP);
            parts.authority = self.authority().parse().ok();
        }
        Uri::from_parts(parts).unwrap_or_default()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.target.path();
        let shown = &path[..path.floor_char_boundary(SHOWN)];
        let end = if shown.len() < path.len() { "…" } else { "" };
        write!(f, "{scheme}://{}{shown}{end}", self.authority())
    }
}

/// Removes the segments `.` and `..` from an absolute path, as RFC 3986, section 5.2.4, says.
fn without_dots(path: &str) -> String {
    let mut segments = Vec::new();
    let count = path.split('/').count();
    for (number, segment) in path.split('/').enumerate().skip(1) {
        let is_last = number + 1 == count;
        match segment {
            "." | ".." => {
                if segment == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn url_has_default_port_and_shows_no_query() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        assert_eq!(url("http://a.example/x?key=secret").to_string(), "http://a.example:80/x");
        assert_eq!(url("https://[::1]").to_string(), "https://[::1]:443/");
        assert_eq!(url("http://a:81").host_header(), "a:81");
        assert_eq!(url("https://a").host_header(), "a");
        assert_eq!(url("http://a:81/x?y").request_target(true), "http://a:81/x?y");
        assert_eq!(url("http://a:81/x?y").request_target(false), "/x?y");
        assert_eq!(url("https://a/x").request_target(true), "/x");
        for (from, to) in
            [("http://a", "/v1"), ("http://a/x/", "/x/v1"), ("http://a/x?y", "/x/v1?y")]
        {
            assert_eq!(url(from).below("/v1").unwrap().request_target(false), to);
        }
    }

    #[test]
    fn reference_is_resolved_against_url() {
        let base = "http://a:81/b/c?d".parse::<Url>().unwrap();
        for (reference, expected, is_same) in [
            ("/x?y#z", "/x?y", true),
            ("x", "/b/x", true),
            ("../x/./y/", "/x/y/", true),
            ("../../..", "/", true),
            ("x/..", "/b/", true),
            ("?y", "/b/c?y", true),
            ("", "/b/c?d", true),
            ("http://A:81/x", "/x", true),
            ("//a:81/x", "/x", true),
            ("//a/x", "/x", false),
            ("https://a:81/x", "/x", false),
            ("http://b:81/x", "/x", false),
            ("http://a:82/", "/", false),
        ] {
            let joined = base.join(reference).unwrap();
            assert_eq!(joined.request_target(false), expected, "{reference}");
            assert_eq!(joined.is_same_origin(&base), is_same, "{reference}");
        }
        for reference in ["ftp://a/", "javascript:1", "http://u:p@a/", "//", "/a b"] {
            assert!(base.join(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn invalid_url_is_rejected_without_showing_it() {
        for text in
            ["", "a", "ftp://a/", "http://", "/x", "http://user:secret@a/", "http://a:99999/"]
        {
            let error = text.parse::<Url>().err().unwrap().to_string();
            assert!(error.starts_with("invalid `url`: ") && !error.contains("secret"), "{error}");
        }
    }
}
