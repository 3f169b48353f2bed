//! Authorization of requests by a password or a token.

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderValue},
};
use subtle::ConstantTimeEq;
use tremor_pdk::{Error, Result};

use crate::Basic;

/// Credentials that each request has to contain.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A user name and a password, as the header `Authorization: Basic`.
    Basic(Basic),
    /// A token, as the header `Authorization: Bearer`.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
}

/// Checks the credentials of requests. If none are configured, every request passes.
pub(crate) struct Access(Option<Credentials>);

struct Credentials {
    /// Scheme of the header, in lower case.
    scheme: &'static str,
    /// Text after the scheme.
    secret: Box<[u8]>,
    /// Value of `WWW-Authenticate` in the response to a request without these credentials.
    challenge: HeaderValue,
}

impl Access {
    /// Creates the check.
    ///
    /// # Errors
    /// An error of the kind configuration if no request could contain the configured credentials.
    pub(crate) fn new(auth: Option<&Auth>) -> Result<Self> {
        let wrong = |what: &str| Err(Error::configuration(format_args!("invalid `auth`: {what}")));
        let credentials = match auth {
            None => return Ok(Self(None)),
            Some(Auth::Basic(basic)) => {
                if basic.user.is_empty() || basic.user.contains(':') {
                    return wrong("expected a `user` that is not empty and has no colon");
                }
                let secret = STANDARD.encode(format!("{}:{}", basic.user, basic.password));
                ("basic", secret, "Basic realm=\"tremor\", charset=\"UTF-8\"")
            }
            Some(Auth::Bearer(token)) => {
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return wrong(
                        "expected a `bearer` of at least one ASCII character, without spaces",
                    );
                }
                ("bearer", token.clone(), "Bearer realm=\"tremor\"")
            }
        };
        let (scheme, secret, challenge) = credentials;
        let challenge = HeaderValue::from_static(challenge);
        Ok(Self(Some(Credentials { scheme, secret: secret.into_bytes().into(), challenge })))
    }

    /// Returns `Ok` if the headers contain the configured credentials.
    ///
    /// # Errors
    /// The value of `WWW-Authenticate` for the response to a request without the credentials.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), HeaderValue> {
        let Some(Credentials { scheme, secret, challenge }) = &self.0 else { return Ok(()) };
        let is_right = |value: &HeaderValue| {
            let mut parts = value.as_bytes().splitn(2, |byte| *byte == b' ');
            let is_scheme =
                parts.next().is_some_and(|it| it.eq_ignore_ascii_case(scheme.as_bytes()));
            let found = parts.next().unwrap_or_default().trim_ascii();
            // The comparison takes the same time for every value of the right length.
            bool::from(found.ct_eq(secret)) && is_scheme
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        // Reject a request with two headers, because a third party may have added one of them.
        match (values.next(), values.next()) {
            (Some(value), None) if is_right(value) => Ok(()),
            _ => Err(challenge.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, header::AUTHORIZATION};

    use super::{Access, Auth, Basic};

    fn may(access: &Access, values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        access.check(&headers).is_ok()
    }

    #[test]
    fn request_without_the_credentials_is_rejected() {
        let basic = |user: &str| {
            let (user, password) = (user.to_owned(), "secret".to_owned());
            Access::new(Some(&Auth::Basic(Basic { user, password })))
        };
        let access = basic("user").unwrap();
        assert!(
            may(&access, &["Basic dXNlcjpzZWNyZXQ="]) && may(&access, &["basic dXNlcjpzZWNyZXQ="])
        );
        for wrong in ["", "Basic", "Basic ", "Basic dXNlcjpzZWNyZXU=", "Bearer dXNlcjpzZWNyZXQ="] {
            assert!(!may(&access, &[wrong]), "{wrong}");
        }
        let access = Access::new(Some(&Auth::Bearer("a-token".to_owned()))).unwrap();
        assert!(may(&access, &["Bearer a-token"]));
        for wrong in [&[][..], &["Bearer a-tokeN"], &["Basic a-token"], &["a-token"]] {
            assert!(!may(&access, wrong), "{wrong:?}");
        }
        assert!(
            !may(&access, &["Bearer a-token", "Bearer a-token"]),
            "an attacker may have added a header"
        );
        assert!(may(&Access::new(None).unwrap(), &[]));
        assert!(basic("us:er").is_err() && basic("").is_err());
        assert!(Access::new(Some(&Auth::Bearer("a token".to_owned()))).is_err());
    }
}
