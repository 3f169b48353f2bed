//! The configuration key `tls` of connectors.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::unverified::{Fingerprint, fingerprint};
use crate::{Error, Result};

/// TLS settings of a server or a client. A client needs none of these keys; a server needs a certificate. Files are in
/// PEM format. Relative paths are resolved against the folder of the flow file. Files that have changed are read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Trusted certificates: the certificates of CAs that sign the certificates of peers, or the certificates of the
    /// peers themselves. For a client, they replace the CAs of the system. A server needs `client_auth` as well.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// The certificate of this side, followed by the certificates that lead to its CA. Required for servers.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the certificate in `cert_file`.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
    /// For clients: the name that the certificate of the server has to contain, if it is not the host that the client
    /// connects to.
    pub server_name: Option<String>,
    /// For clients: SHA-256 fingerprints of accepted certificates. The server must present one of them, and its CA, its
    /// name and its dates are not checked.
    #[serde(default)]
    pub fingerprints: Vec<String>,
    /// For clients: whether every certificate of the server is accepted. The connection is encrypted, but anybody on
    /// the network can pretend to be the server, read the data and change it.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// The oldest TLS version that a peer may use.
    #[serde(default)]
    pub min_version: MinVersion,
    /// For servers: whether clients must present a certificate that `ca_file` trusts. By default, clients are not asked
    /// for a certificate.
    pub client_auth: Option<ClientAuth>,
}

/// The oldest TLS version that a peer may use. Versions before 1.2 are not secure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
// The configuration key that has this type has a description of its own.
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

/// Requirement for the clients of a server to present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// Clients without a certificate are rejected.
    Required,
    /// Clients may have no certificate, but if they present one, it has to be valid.
    Optional,
}

impl Tls {
    /// Checks that the keys are complete and allowed for a server.
    pub(super) fn check_server(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::configuration(format!("`tls`: {what}")));
        if self.cert_file.is_none() {
            return wrong("a server needs a certificate: set `cert_file` to its file");
        }
        if self.key_file.is_none() {
            return wrong("the certificate needs its private key: set `key_file` to its file");
        }
        if self.server_name.is_some() {
            return wrong(
                "`server_name` is for clients: the names of a server are in its certificate",
            );
        }
        if self.insecure_skip_verify || !self.fingerprints.is_empty() {
            return wrong(
                "`insecure_skip_verify` and `fingerprints` are for clients: a server verifies clients with `ca_file` \
                 and `client_auth`",
            );
        }
        match (&self.ca_file, self.client_auth) {
            (Some(_), None) => wrong(
                "with `ca_file`, a server verifies the certificates of clients: set \
                 `client_auth: required` or `client_auth: optional`",
            ),
            (None, Some(_)) => wrong(
                "`client_auth` needs the CA that signs the certificates of clients: set \
                 `ca_file`",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the fingerprints, which [`check_client`](Self::check_client) has checked.
    pub(super) fn fingerprints(&self) -> Vec<Fingerprint> {
        self.fingerprints.iter().filter_map(|it| fingerprint(it)).collect()
    }

    /// Checks that the keys are complete and allowed for a client.
    pub(super) fn check_client(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::configuration(format!("`tls`: {what}")));
        if self.client_auth.is_some() {
            return wrong(
                "`client_auth` is for servers: a client presents its certificate if `cert_file` is set",
            );
        }
        let has_fingerprints = !self.fingerprints.is_empty();
        if self.insecure_skip_verify && (has_fingerprints || self.ca_file.is_some()) {
            return wrong(
                "`insecure_skip_verify` accepts every certificate: remove it, or remove `ca_file` and `fingerprints`",
            );
        }
        if has_fingerprints && self.ca_file.is_some() {
            return wrong(
                "`fingerprints` replace the check of the CA: remove `ca_file` or `fingerprints`",
            );
        }
        if let Some(wrong) = self.fingerprints.iter().find(|it| fingerprint(it).is_none()) {
            return Err(Error::configuration(format_args!(
                "`tls`: invalid `fingerprints` entry `{wrong}`: expected the SHA-256 hash of a certificate, 64 \
                 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256 -in FILE` shows it"
            )));
        }
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => {
                wrong("the certificate needs its private key: set `key_file` to its file")
            }
            (None, Some(_)) => {
                wrong("the private key needs its certificate: set `cert_file` to its file")
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

/// Reads a version. A number is accepted as well, because people forget the quotes.
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
    fn documented_keys_are_accepted() {
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
            assert!(error.is_some_and(|error| error.contains("'1.2' or '1.3'")));
        }
    }

    #[test]
    fn keys_of_other_side_and_incomplete_pairs_are_rejected() {
        let server = [
            (json!({}), "`cert_file`"),
            (json!({ "cert_file": "c" }), "`key_file`"),
            (json!({ "cert_file": "c", "key_file": "k", "server_name": "s" }), "for clients"),
            (
                json!({ "cert_file": "c", "key_file": "k", "ca_file": "a" }),
                "`client_auth: required`",
            ),
            (json!({ "cert_file": "c", "key_file": "k", "client_auth": "optional" }), "`ca_file`"),
            (
                json!({ "cert_file": "c", "key_file": "k", "insecure_skip_verify": true }),
                "are for clients",
            ),
            (
                json!({ "cert_file": "c", "key_file": "k", "fingerprints": ["ab"] }),
                "are for clients",
            ),
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
            (json!({ "insecure_skip_verify": true, "ca_file": "c" }), "accepts every certificate"),
            (json!({ "fingerprints": ["ab"], "ca_file": "c" }), "replace the check of the CA"),
            (json!({ "fingerprints": ["ab:cd"] }), "invalid `fingerprints` entry `ab:cd`"),
            (json!({ "fingerprints": ["é".repeat(64)] }), "64 hexadecimal digits"),
        ];
        for (keys, what) in client {
            let error = read(keys).check_client().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
            assert!(error.to_string().contains(what), "{error}");
        }
        assert!(Tls::default().check_client().is_ok());
    }
}
