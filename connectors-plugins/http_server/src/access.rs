//! Which requests are answered: those that come with a password or a token.

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderValue},
};
use subtle::ConstantTimeEq;
use tremor_pdk::{Error, Result};

/// What requests have to come with.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A name and a password.
    Basic(Basic),
    /// A token.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
}

/// A name and a password.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Basic {
    /// The name, without a colon.
    pub user: String,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: String,
}

/// What requests have to come with.
pub(crate) struct Access(Option<Credentials>);

struct Credentials {
    /// As in the header, in small letters.
    scheme: &'static str,
    /// What stands after that.
    secret: Box<[u8]>,
    /// What a request is told that does not have it.
    challenge: HeaderValue,
}

impl Access {
    /// # Errors
    /// Kind configuration: there is a secret that no request can have.
    pub(crate) fn new(auth: Option<&Auth>) -> Result<Self> {
        let wrong = |what: &str| Err(Error::configuration(format_args!("`auth`: {what}")));
        let credentials = match auth {
            None => return Ok(Self(None)),
            Some(Auth::Basic(basic)) => {
                if basic.user.is_empty() || basic.user.contains(':') {
                    return wrong("expected a `user` without a colon");
                }
                let secret = STANDARD.encode(format!("{}:{}", basic.user, basic.password));
                ("basic", secret, "Basic realm=\"tremor\", charset=\"UTF-8\"")
            }
            Some(Auth::Bearer(token)) => {
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return wrong(
                        "expected a `bearer` of ASCII characters without spaces, one at least",
                    );
                }
                ("bearer", token.clone(), "Bearer realm=\"tremor\"")
            }
        };
        let (scheme, secret, challenge) = credentials;
        let challenge = HeaderValue::from_static(challenge);
        Ok(Self(Some(Credentials { scheme, secret: secret.into_bytes().into(), challenge })))
    }

    /// # Errors
    /// What a request is told that may not come in.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), HeaderValue> {
        let Some(Credentials { scheme, secret, challenge }) = &self.0 else { return Ok(()) };
        let is_right = |value: &HeaderValue| {
            let mut parts = value.as_bytes().splitn(2, |byte| *byte == b' ');
            let is_scheme =
                parts.next().is_some_and(|it| it.eq_ignore_ascii_case(scheme.as_bytes()));
            let found = parts.next().unwrap_or_default().trim_ascii();
            // How long it takes says nothing of the secret but its length.
            bool::from(found.ct_eq(secret)) && is_scheme
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        // One of two may be that of somebody else.
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
    fn without_the_password_or_the_token_nothing_comes_in() {
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
        assert!(!may(&access, &["Bearer a-token", "Bearer a-token"]), "one of them may be added");
        assert!(may(&Access::new(None).unwrap(), &[]));
        assert!(basic("us:er").is_err() && basic("").is_err());
        assert!(Access::new(Some(&Auth::Bearer("a token".to_owned()))).is_err());
    }
}
