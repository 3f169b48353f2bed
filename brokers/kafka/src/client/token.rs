//! The token of OAUTHBEARER, which another program renews in a file.

use std::{error::Error, fs};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rdkafka::client::OAuthToken;
use serde_json::Value;

/// The token that this file has now, for librdkafka, which asks whenever the last one is about to expire. It is a
/// small file, and read at once.
///
/// # Errors
/// What is wrong with the file. Nothing of the token is shown.
pub(crate) fn token(file: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
    let file = file.ok_or("no file has the token: see `sasl.token_file`")?;
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read `{file}`, which `sasl.token_file` names: {error}"))?;
    let unusable =
        |what: &str| format!("cannot use `{file}`, which `sasl.token_file` names: {what}");
    let token = text.trim();
    let claims = claims(token).ok_or_else(|| unusable("it has no JSON web token (JWT)"))?;
    let name = claims["sub"].as_str().ok_or_else(|| unusable("the token has no text `sub`"))?;
    let expires =
        claims["exp"].as_f64().ok_or_else(|| unusable("the token has no number `exp`"))?;
    #[allow(clippy::cast_possible_truncation)] // a time of this millennium
    let lifetime_ms = (expires * 1e3) as i64;
    Ok(OAuthToken { token: token.to_owned(), principal_name: name.to_owned(), lifetime_ms })
}

/// What a token says. Who has signed it is not looked at.
fn claims(token: &str) -> Option<Value> {
    let claims = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::token;

    #[test]
    fn a_token_has_a_name_and_an_end_and_a_file_without_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let file = file.to_str().unwrap();
        let with = |claims: &str| {
            let token = format!("e30.{}.s\n", URL_SAFE_NO_PAD.encode(claims));
            std::fs::write(file, token).unwrap();
            self::token(Some(file))
        };
        let found = with(r#"{"sub":"alice","exp":1700000000.5}"#).unwrap();
        assert_eq!(
            (found.principal_name.as_str(), found.lifetime_ms),
            ("alice", 1_700_000_000_500)
        );
        assert_eq!(found.token.lines().count(), 1);
        for (claims, said) in [
            (r#"{"exp":1}"#, "no text `sub`"),
            (r#"{"sub":"alice"}"#, "no number `exp`"),
            ("hunter2", "no JSON web token"),
        ] {
            let error = with(claims).map(drop).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(file), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("e30"), "{error}");
        }
        let error = token(Some("no-such-file")).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("cannot read `no-such-file`"), "{error}");
    }
}
