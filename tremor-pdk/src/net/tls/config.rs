//! The key `tls` of a connector's configuration.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use crate::{Error, Result};

/// TLS: the same keys for servers and clients. A client needs none of them; a server needs its certificate.
/// Files are PEM, and a relative path starts at the folder of the flow file. They are looked at again when
/// they have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificates of whoever signs those of the peers, or those of the peers themselves. Of a client, in
    /// place of the roots of the system; of a server, together with `client_auth`.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// The own certificate, and after it those up to the CA's. A server has to have one.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the own certificate.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
    /// The name that the certificate of the server is to be for. Of a client, where that is not the name that
    /// it connects to.
    pub server_name: Option<String>,
    /// The oldest version that a peer may speak.
    #[serde(default)]
    pub min_version: MinVersion,
    /// Of a server: whether clients show a certificate, which `ca_file` has signed. Unless set, they are not
    /// asked for one.
    pub client_auth: Option<ClientAuth>,
}

/// The oldest version of TLS that a peer may speak. Those before 1.2 are not safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
// No description: the key that is of this type has one.
#[schemars(
    inline,
    description = "",
    with = "serde_json::Value",
    extend("enum" = ["1.2", "1.3", 1.2, 1.3])
)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Whether the clients of a server show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// A client without one is refused.
    Required,
    /// A client may have none; one that it shows has to be good.
    Optional,
}

impl Tls {
    /// Whether a server can work with that.
    pub(super) fn check_server(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::configuration(format!("`tls`: {what}")));
        if self.cert_file.is_none() {
            return wrong("a server shows a certificate: name its file as `cert_file`");
        }
        if self.key_file.is_none() {
            return wrong("the certificate needs its private key: name its file as `key_file`");
        }
        if self.server_name.is_some() {
            return wrong(
                "`server_name` is for clients: the names of a server stand in its certificate",
            );
        }
        match (&self.ca_file, self.client_auth) {
            (Some(_), None) => wrong(
                "`ca_file` of a server signs the certificates of clients: say whether they need one, \
                 `client_auth: required` or `client_auth: optional`",
            ),
            (None, Some(_)) => wrong(
                "`client_auth` needs to know who signs the certificates of clients: name the file as \
                 `ca_file`",
            ),
            _ => Ok(()),
        }
    }

    /// Whether a client can work with that.
    pub(super) fn check_client(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::configuration(format!("`tls`: {what}")));
        if self.client_auth.is_some() {
            return wrong(
                "`client_auth` is for servers: a client shows the certificate of `cert_file`",
            );
        }
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => {
                wrong("the certificate needs its private key: name its file as `key_file`")
            }
            (None, Some(_)) => {
                wrong("the private key needs its certificate: name its file as `cert_file`")
            }
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for MinVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Version)
    }
}

/// Reads a version, which is a number for those who forget the quotes.
struct Version;

impl de::Visitor<'_> for Version {
    type Value = MinVersion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a version of TLS, '1.2' or '1.3'")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MinVersion, E> {
        match text {
            "1.2" => Ok(MinVersion::Tls12),
            "1.3" => Ok(MinVersion::Tls13),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<MinVersion, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ClientAuth, MinVersion, Tls};
    use crate::{ErrorKind, config};

    fn read(json: serde_json::Value) -> Tls {
        config::read(json).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn its_keys_are_those_of_the_book() {
        let tls = read(json!({
            "ca_file": "ca.pem", "cert_file": "cert.pem", "key_file": "key.pem", "server_name": "a.example",
            "min_version": "1.3", "client_auth": "required",
        }));
        assert_eq!(tls.min_version, MinVersion::Tls13);
        assert_eq!(tls.client_auth, Some(ClientAuth::Required));
        assert_eq!(read(json!({})), Tls::default());
        assert_eq!(read(json!({ "min_version": 1.3 })).min_version, MinVersion::Tls13);
        for old in [json!({ "min_version": "1.1" }), json!({ "min_version": 1 })] {
            let error = config::read::<Tls>(old).err().map(|error| error.to_string());
            assert!(error.is_some_and(|it| it.contains("'1.2' or '1.3'")));
        }
    }

    #[test]
    fn keys_of_the_other_side_and_halves_of_pairs_are_refused() {
        let server = [
            (json!({}), "`cert_file`"),
            (json!({ "cert_file": "c" }), "`key_file`"),
            (json!({ "cert_file": "c", "key_file": "k", "server_name": "s" }), "for clients"),
            (
                json!({ "cert_file": "c", "key_file": "k", "ca_file": "a" }),
                "`client_auth: required`",
            ),
            (json!({ "cert_file": "c", "key_file": "k", "client_auth": "optional" }), "`ca_file`"),
        ];
        for (keys, what) in server {
            let error = read(keys).check_server().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(error.to_string().contains(what), "{error}");
        }
        let client = [
            (json!({ "cert_file": "c" }), "`key_file`"),
            (json!({ "key_file": "k" }), "`cert_file`"),
            (json!({ "client_auth": "required" }), "for servers"),
        ];
        for (keys, what) in client {
            let error = read(keys).check_client().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(error.to_string().contains(what), "{error}");
        }
        assert!(Tls::default().check_client().is_ok());
    }
}
