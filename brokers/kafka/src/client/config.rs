//! The keys that both connectors have.

use std::path::PathBuf;

/// TLS. A client needs none of the keys: without `ca_file` it trusts the CAs of the system. Files are PEM,
/// and a relative path starts at the folder of the flow file.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The CA certificates that the brokers' own are checked with.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// The own certificate, and after it those up to the CA's, for brokers that ask for one.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the own certificate.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
    /// Not for Kafka: a broker's certificate has to be for the name in its address.
    pub server_name: Option<String>,
    /// The oldest version that a broker may speak: `'1.2'`, which it is in any case.
    pub min_version: Option<String>,
    /// Not for clients.
    pub client_auth: Option<String>,
}

/// Who this client is.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Sasl {
    /// How it says so.
    pub mechanism: Mechanism,
    /// The name.
    pub user: Option<String>,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: Option<String>,
    /// Of `OAUTHBEARER`: the file with the token, which another program renews.
    #[schemars(extend("x-file" = "read"))]
    pub token_file: Option<PathBuf>,
}

/// How a client says who it is.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Name and password as they are: only together with `tls`.
    #[serde(rename = "PLAIN")]
    Plain,
    /// A proof that it knows the password, with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// The same with SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token that another server has issued: only together with `tls`.
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

impl Mechanism {
    /// As Kafka names it.
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
