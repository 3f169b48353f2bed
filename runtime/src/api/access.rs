//! Access control: requests need the token, and must not come from a web page of another origin.

use std::{fs, net::IpAddr, os::unix::fs::MetadataExt, path::Path};

use hyper::{
    Request, StatusCode, Uri, Version,
    header::{AUTHORIZATION, HOST, HeaderName, ORIGIN},
    http::uri::Authority,
};
use subtle::ConstantTimeEq;

use super::{Error, problem::Problem};
use crate::redact;

/// Minimum length of a token, in bytes.
const MIN_LENGTH: usize = 16;
/// Mode bits that the file of a token must not have: the group may only read the file, and other users must have no
/// access.
const OTHERS: u32 = 0o027;

/// Secret that requests have to contain.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Reads the token from a file and strips the white space around it.
    ///
    /// # Errors
    /// The file cannot be read, users other than its owner can change it, users outside its group can read it, or its
    /// content is not a valid token.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |problem| Error::Token { path: path.to_owned(), problem };
        let cannot = |error| wrong(format!("cannot be read: {error}"));
        let mode = fs::metadata(path).map_err(cannot)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(wrong(format!(
                "other users can read or change it (mode {mode:03o})\n  help: chmod 600 {}",
                path.display()
            )));
        }
        let text = fs::read_to_string(path).map_err(cannot)?;
        let token = text.trim();
        if token.len() < MIN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(format!(
                "expected one line of at least {MIN_LENGTH} ASCII characters without spaces\n  help: \
                 head -c 32 /dev/urandom | base64 > {}",
                path.display()
            )));
        }
        redact::keep(token);
        Ok(Self(token.to_owned()))
    }

    /// Returns the text of the token, for a client.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(redact::REDACTED)
    }
}

/// Rules that decide which requests are answered.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Token that requests have to contain, if there is one.
    token: Option<Token>,
    /// `true` if the server listens at a loopback address.
    pub(super) is_loopback: bool,
}

impl Access {
    /// Creates the rules for requests that need `token`, if it is set.
    pub fn with(token: Option<Token>) -> Self {
        Self { token, is_loopback: false }
    }

    /// Adjusts the rules to the address at which the server listens.
    pub(super) fn at(self, address: IpAddr) -> Self {
        Self { is_loopback: address.is_loopback(), ..self }
    }

    /// Returns whether requests need a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Checks whether a request may be answered. If `needs_no_token` is set, the token is not checked, but a request
    /// from a web page of another origin is still rejected.
    ///
    /// # Errors
    /// The response that rejects the request.
    pub(super) fn check<B>(
        &self,
        request: &Request<B>,
        needs_no_token: bool,
    ) -> Result<(), Problem> {
        let host = header(request, &HOST);
        // HTTP/1.0 does not require `Host`, and probes of load balancers omit it. A browser always sends it.
        let hosts = request.headers().get_all(HOST).iter().count();
        let may_lack = hosts == 0 && request.version() < Version::HTTP_11;
        // RFC 9112, section 3.2.
        if hosts != 1 && !may_lack {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "the request has no `Host`, or several; send one with `localhost` or the address of the API",
            ));
        }
        if self.is_loopback {
            let own = |host: &str| host.parse().is_ok_and(|host| is_loopback(&host));
            let target = request.uri().authority().is_none_or(is_loopback);
            if !(target && (may_lack || host.is_some_and(own))) {
                return Err(Problem::new(
                    StatusCode::MISDIRECTED_REQUEST,
                    "the request has a foreign `Host`; send `localhost` or the loopback address \
                     itself",
                ));
            }
        }
        let is_own = |origin: &str| {
            let origin = origin.parse::<Uri>();
            host.is_some() && origin.is_ok_and(|it| it.authority().map(Authority::as_str) == host)
        };
        if request.headers().contains_key(ORIGIN) && !header(request, &ORIGIN).is_some_and(is_own) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the request comes from a web page of another origin; such requests are rejected",
            ));
        }
        match &self.token {
            Some(token) if !needs_no_token && !token.is_in(request) => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; send `Authorization: Bearer TOKEN` with the text of \
                 the file that `--api-token-file` names",
            )),
            _ => Ok(()),
        }
    }
}

impl Token {
    fn is_in<B>(&self, request: &Request<B>) -> bool {
        let Some((scheme, token)) =
            header(request, &AUTHORIZATION).and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        let is_same = token.trim().as_bytes().ct_eq(self.0.as_bytes());
        scheme.eq_ignore_ascii_case("bearer") && is_same.into()
    }
}

/// Returns the value of a header as text, if the header occurs exactly once.
fn header<'r, B>(request: &'r Request<B>, name: &HeaderName) -> Option<&'r str> {
    let mut values = request.headers().get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

fn is_loopback(host: &Authority) -> bool {
    let host = host.host();
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use hyper::{Request, Version};

    use super::{Access, Token};

    const TOKEN: &str = "a-token-of-24-characters";

    fn status(access: &Access, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri("/v1/flows");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let checked = access.check(&request.body(()).unwrap(), false);
        checked.map_or_else(|problem| problem.status().as_u16(), |()| 200)
    }

    #[test]
    fn foreign_host_is_rejected_at_loopback_address() {
        let access = Access { token: None, is_loopback: true };
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:9898", "127.1.2.3", "[::1]:80"] {
            assert_eq!(status(&access, &[("host", host)]), 200, "{host}");
        }
        for host in ["example.org", "localhost.example.org", "10.0.0.1", "[::2]", "", "a b"] {
            assert_eq!(status(&access, &[("host", host)]), 421, "{host}");
        }
        assert_eq!(status(&Access::default(), &[("host", "example.org")]), 200);
        for access in [access, Access::default()] {
            assert_eq!(status(&access, &[]), 400);
            assert_eq!(status(&access, &[("host", "localhost"), ("host", "example.org")]), 400);
        }
    }

    /// Load balancers send such requests as probes.
    #[test]
    fn request_of_http_1_0_may_lack_a_host() {
        let status = |version, uri: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri(uri).version(version);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let access = Access { token: None, is_loopback: true };
            let checked = access.check(&request.body(()).unwrap(), true);
            checked.map_or_else(|problem| problem.status().as_u16(), |()| 200)
        };
        let old = Version::HTTP_10;
        assert_eq!(status(old, "/healthz", &[]), 200);
        assert_eq!(status(Version::HTTP_11, "/healthz", &[]), 400);
        assert_eq!(status(old, "http://example.org/healthz", &[]), 421);
        for host in ["example.org", "", "a b"] {
            assert_eq!(status(old, "/healthz", &[("host", host)]), 421, "{host}");
        }
        let twice = [("host", "localhost"), ("host", "example.org")];
        assert_eq!(status(old, "/healthz", &twice), 400);
        for origin in ["http://example.org", "null", "/", ""] {
            assert_eq!(status(old, "/healthz", &[("origin", origin)]), 403, "{origin}");
        }
    }

    #[test]
    fn request_target_with_foreign_host_is_rejected() {
        let access = Access { token: None, is_loopback: true };
        let request = Request::builder().uri("http://example.org/").header("host", "localhost");
        let problem = access.check(&request.body(()).unwrap(), true).unwrap_err();
        assert_eq!(problem.status().as_u16(), 421);
    }

    #[test]
    fn request_of_foreign_origin_is_rejected() {
        let access = Access { token: None, is_loopback: true };
        let from = |origin| status(&access, &[("host", "localhost:9898"), ("origin", origin)]);
        assert_eq!(from("http://localhost:9898"), 200);
        for origin in ["http://example.org", "http://localhost:1", "null", "file://"] {
            assert_eq!(from(origin), 403, "{origin}");
        }
        let own = ("origin", "http://localhost:9898");
        for other in [own, ("origin", "http://example.org")] {
            let headers = [("host", "localhost:9898"), own, other];
            assert_eq!(status(&access, &headers), 403, "a browser sends a single `Origin`");
        }
    }

    #[test]
    fn request_without_token_is_rejected() {
        let access = Access { token: Some(Token(TOKEN.to_owned())), is_loopback: false };
        let host = ("host", "example.org");
        let with = |value: &str| status(&access, &[host, ("authorization", value)]);
        assert_eq!(with(&format!("Bearer {TOKEN}")), 200);
        assert_eq!(with(&format!("bearer {TOKEN}")), 200);
        for value in ["", "Bearer", "Bearer ", "Bearer a-token-of-24-characterS", "Basic a", TOKEN]
        {
            assert_eq!(with(value), 401, "{value}");
        }
        let twice = [host, ("authorization", "Bearer x"), ("authorization", "Bearer y")];
        assert_eq!(status(&access, &twice), 401);
    }

    #[test]
    fn readable_or_short_token_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!(" {TOKEN}\n"), 0o600).unwrap().as_str(), TOKEN);
        assert!(read(TOKEN, 0o440).is_ok());
        for mode in [0o644, 0o620, 0o604] {
            let error = read(TOKEN, mode).unwrap_err();
            assert!(error.contains("chmod 600"), "{error}");
        }
        for text in ["", "short", "two tokens of 24 characters"] {
            let error = read(text, 0o600).unwrap_err();
            assert!(error.contains("at least 16"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
