//! Configuration keys that the consumer and the producer have in common.

use std::path::PathBuf;

/// TLS settings. All keys are optional: without `ca_file` the client trusts the CAs of the system. Files are
/// PEM, and a relative path is resolved against the folder of the flow file.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of the CAs that sign the brokers' certificates.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// Certificate of this client, followed by its intermediate certificates, for brokers that require one.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// Private key of the client's certificate.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
    /// Not supported: the certificate of a broker must match the name in the broker's address.
    pub server_name: Option<String>,
    /// Minimum TLS version. Only `'1.2'` is accepted, which is also the default.
    pub min_version: Option<String>,
    /// Not supported: applies to servers only.
    pub client_auth: Option<String>,
}

/// Credentials of this client.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Sasl {
    /// SASL mechanism.
    pub mechanism: Mechanism,
    /// User name.
    pub user: Option<String>,
    /// Password of the user.
    #[schemars(extend("writeOnly" = true))]
    pub password: Option<String>,
    /// File with the token for `OAUTHBEARER`, which another program renews.
    #[schemars(extend("x-file" = "read"))]
    pub token_file: Option<PathBuf>,
}

/// SASL mechanism by which a client authenticates.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Sends user name and password unencrypted; use it only together with `tls`.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Proves knowledge of the password with SHA-256, without sending it.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Proves knowledge of the password with SHA-512, without sending it.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// Sends a token that another server issued; use it only together with `tls`.
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

impl Mechanism {
    /// Returns the name of the mechanism in the Kafka protocol.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl std::fmt::Debug for Sasl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
