//! Secret values of requests. They are removed from error messages, because a peer may quote its
//! request in a response.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;
use memchr::memmem;
use tremor_pdk::net::percent_decode;

use super::{target::Target, url::Url};

/// Replacement for a secret.
const REDACTED: &[u8] = b"[redacted]";

/// Minimum length in bytes of a value that is redacted. Shorter values would match by chance.
const MIN: usize = 4;

/// Secret values of the requests of a connector: the query of its URL, and values of configured headers.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    pub(crate) fn new<'h>(url: &Url, headers: impl Iterator<Item = &'h HeaderValue>) -> Self {
        Self::of(of_url(url).into_iter().chain(headers.flat_map(of_header)).collect())
    }

    /// Returns these secrets and those of a target: the query of its URL and the values of its headers.
    pub(crate) fn and_target(&self, target: &Target) -> Self {
        let headers = target.headers.values().flat_map(of_header);
        Self::of(self.0.iter().cloned().chain(of_url(&target.url)).chain(headers).collect())
    }

    /// Returns these secrets and the secrets of another header, such as the credentials for a
    /// proxy.
    pub(crate) fn and(&self, header: Option<&HeaderValue>) -> Self {
        Self::of(self.0.iter().cloned().chain(header.into_iter().flat_map(of_header)).collect())
    }

    /// Creates secrets from their values.
    pub(crate) fn of(mut secrets: Vec<Vec<u8>>) -> Self {
        secrets.retain(|secret| secret.len() >= MIN);
        // Replace longer secrets first, because the query of the URL contains its values.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Returns the start of `text` with all secrets replaced. The result is long enough for the
    /// `shown` bytes that the caller shows.
    pub(crate) fn redacted(&self, text: &[u8], shown: usize) -> Vec<u8> {
        // Include the longest secret beyond the shown bytes, because a secret may start within them
        // and end after them.
        let longest = self.0.first().map_or(0, Vec::len);
        let mut text = text[..text.len().min(shown + longest + 1)].to_vec();
        for secret in &self.0 {
            let mut without = Vec::with_capacity(text.len());
            let mut end = 0;
            for at in memmem::find_iter(&text, secret) {
                without.extend([&text[end..at], REDACTED].concat());
                end = at + secret.len();
            }
            without.extend_from_slice(&text[end..]);
            text = without;
        }
        text
    }
}

/// Returns the query of a URL, and the forms in which a peer may quote its values.
fn of_url(url: &Url) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    if let Some(query) = url.target.query() {
        secrets.push(query.as_bytes().to_vec());
        for value in query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1)) {
            secrets.push(value.as_bytes().to_vec());
            secrets.extend(percent_decode(value).map(String::into_bytes));
        }
    }
    secrets
}

/// Returns the forms in which a peer may quote the value of a header.
fn of_header(value: &HeaderValue) -> Vec<Vec<u8>> {
    let value = value.as_bytes();
    let mut forms = vec![value.to_vec()];
    // In `Bearer TOKEN`, the peer may also quote the token alone.
    if let Some(space) = value.iter().position(|byte| *byte == b' ') {
        let (scheme, token) = (&value[..space], &value[space + 1..]);
        forms.push(token.to_vec());
        if scheme.eq_ignore_ascii_case(b"basic")
            && let Ok(both) = STANDARD.decode(token)
        {
            let password = both.split(|byte| *byte == b':').next().map_or(0, |user| user.len() + 1);
            forms.extend(both.get(password..).map(<[u8]>::to_vec));
        }
    }
    forms
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::Secrets;

    #[test]
    fn echoed_query_and_headers_are_redacted() {
        let url = "http://a/in?key=s%2Fcret&n=1".parse().unwrap();
        let token = HeaderValue::from_static("Bearer abcdef");
        let secrets = Secrets::new(&url, [&token].into_iter());
        let proxy = HeaderValue::from_static("Basic dXNlcjpwQHNz");
        let secrets = secrets.and(Some(&proxy));
        for (echo, shown) in [
            ("no /in?key=s%2Fcret&n=1!", "no /in?[redacted]!"),
            ("key s/cret, token abcdef", "key [redacted], token [redacted]"),
            ("authorization: Bearer abcdef", "authorization: [redacted]"),
            ("407: user p@ss, dXNlcjpwQHNz", "407: user [redacted], [redacted]"),
            ("n is 1", "n is 1"),
        ] {
            assert_eq!(String::from_utf8_lossy(&secrets.redacted(echo.as_bytes(), 200)), shown);
        }
        let late = [&[b'x'; 198][..], b"abcdef"].concat();
        assert!(!secrets.redacted(&late, 200).ends_with(b"ab"));
    }
}
