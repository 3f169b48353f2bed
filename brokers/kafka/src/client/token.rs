//! Token of the mechanism OAUTHBEARER. Another program renews the token in a file.

use std::{error::Error, fs};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rdkafka::client::OAuthToken;
use serde_json::Value;

/// Reads the current token from `file`. librdkafka calls this before the previous token expires. The read
/// blocks, but the file is small.
///
/// # Errors
/// The file cannot be read or contains no usable token. The error never contains parts of the token.
pub(crate) fn token(file: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
    let file = file.ok_or("cannot read the token: no file is set; set `sasl.token_file`")?;
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read `{file}`, which `sasl.token_file` names: {error}"))?;
    let unusable =
        |what: &str| format!("cannot use `{file}`, which `sasl.token_file` names: {what}");
    let token = text.trim();
    let claims = claims(token).ok_or_else(|| unusable("it contains no JSON web token (JWT)"))?;
    let name =
        claims["sub"].as_str().ok_or_else(|| unusable("the token has no string claim `sub`"))?;
    let expires =
        claims["exp"].as_f64().ok_or_else(|| unusable("the token has no numeric claim `exp`"))?;
    #[allow(clippy::cast_possible_truncation)] // an expiry time of this millennium fits
    let lifetime_ms = (expires * 1e3) as i64;
    Ok(OAuthToken { token: token.to_owned(), principal_name: name.to_owned(), lifetime_ms })
}

/// Decodes the claims of a token. The signature is not verified.
fn claims(token: &str) -> Option<Value> {
    let claims = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::token;

    #[test]
    fn token_yields_name_and_expiry_or_error_names_its_file() {
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
        for (claims, expected) in [
            (r#"{"exp":1}"#, "no string claim `sub`"),
            (r#"{"sub":"alice"}"#, "no numeric claim `exp`"),
            ("hunter2", "no JSON web token"),
        ] {
            let error = with(claims).map(drop).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(file), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("e30"), "{error}");
        }
        let error = token(Some("no-such-file")).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("cannot read `no-such-file`"), "{error}");
    }
}
