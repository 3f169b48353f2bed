//! Configuration keys that the consumer and the producer have in common.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_nats::{ConnectOptions, rustls::ClientConfig};
use tremor_pdk::{
    net::{
        Address,
        tls::{self, TlsConnector},
    },
    prelude::*,
};

/// TLS settings. All keys are optional: without `ca_file` the client trusts the CAs of the system. Files are
/// PEM, and a relative path is resolved against the folder of the flow file.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of the CAs that sign the servers' certificates, or the servers' certificates themselves.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// Certificate of this client, followed by its intermediate certificates, for servers that require one.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// Private key of the client's certificate.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
}

/// Credentials of this client: `user` and `password`, or `token`, or `nkey`, or `credentials_file`.
#[tremor_pdk::config]
#[derive(Clone, Default)]
pub struct Auth {
    /// User name.
    pub user: Option<String>,
    /// Password of `user`.
    #[schemars(extend("writeOnly" = true))]
    pub password: Option<String>,
    /// Token that the servers accept.
    #[schemars(extend("writeOnly" = true))]
    pub token: Option<String>,
    /// Seed of a user's nkey (an Ed25519 key pair of NATS), `SU…`. The servers know the public key.
    #[schemars(extend("writeOnly" = true))]
    pub nkey: Option<String>,
    /// File with a JWT and the seed of its nkey, as written by `nsc`. A relative path is resolved against
    /// the folder of the flow file.
    #[schemars(extend("x-file" = "read"))]
    pub credentials_file: Option<PathBuf>,
}

/// The method of authentication, with its secrets.
#[derive(Clone)]
enum Identity {
    Password(String, String),
    Token(String),
    Nkey(String),
    Credentials(PathBuf),
}

/// The checked configuration of connections to the servers.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Addresses, `HOST:PORT`.
    pub(super) servers: Vec<String>,
    identity: Option<Identity>,
    tls: Option<TlsConnector>,
}

impl Peer {
    /// Checks the configuration of connections.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected.
    pub(crate) fn new(
        servers: &[Address],
        auth: Option<&Auth>,
        tls: Option<&Tls>,
        host: &Host,
    ) -> Result<Self> {
        let Some(first) = servers.first() else {
            return Err(Error::configuration(
                "invalid `servers`: expected at least one address of a server, such as `nats-1:4222`",
            ));
        };
        Ok(Self {
            servers: servers.iter().map(Address::to_string).collect(),
            identity: auth.map(|auth| auth.identity(host)).transpose()?,
            tls: tls.map(|tls| tls.connector(host, first)).transpose()?,
        })
    }

    /// Returns the addresses as text for messages.
    pub(super) fn servers(&self) -> String {
        self.servers.join("`, `")
    }

    /// Returns the names of the keys with the credentials as text for messages.
    pub(super) fn identity(&self) -> &'static str {
        match self.identity {
            Some(Identity::Password(..)) => "`auth.user` and `auth.password`",
            Some(Identity::Token(_)) => "`auth.token`",
            Some(Identity::Nkey(_)) => "`auth.nkey`",
            Some(Identity::Credentials(_)) => "`auth.credentials_file`",
            None => "`auth`, which is not set",
        }
    }

    /// Returns the TLS configuration; `None` without the key `tls`. Call this outside of tokio, because the function
    /// waits for the host, which reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has invalid content.
    pub(super) async fn tls_config(&self) -> Result<Option<Arc<ClientConfig>>> {
        match &self.tls {
            Some(tls) => tls.client_config().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the options of a client. Call this on tokio, because the function may read a file with tokio.
    ///
    /// # Errors
    /// A file cannot be read or has invalid content.
    pub(super) async fn options(&self, tls: Option<Arc<ClientConfig>>) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new();
        if let Some(config) = tls {
            // The NATS client sets the server name of the TLS handshake for the server to which it connects.
            options = options.require_tls(true).tls_client_config(config.as_ref().clone());
        }
        match &self.identity {
            None => Ok(options),
            Some(Identity::Password(user, password)) => {
                Ok(options.user_and_password(user.clone(), password.clone()))
            }
            Some(Identity::Token(token)) => Ok(options.token(token.clone())),
            Some(Identity::Nkey(seed)) => Ok(options.nkey(seed.clone())),
            Some(Identity::Credentials(path)) => {
                let text = read("auth.credentials_file", path).await?;
                let text = String::from_utf8(text).unwrap_or_default();
                // Do not show the client's error, because it may contain a part of the file.
                options.credentials(&text).map_err(|_| {
                    Error::configuration(format_args!(
                        "invalid `auth.credentials_file`: {}: expected a JWT and the seed of an nkey, as `nsc` writes them",
                        path.display()
                    ))
                })
            }
        }
    }
}

impl Auth {
    /// Checks that exactly one method of authentication is configured, and returns it.
    ///
    /// # Errors
    /// An error of the kind configuration, which never contains a value.
    fn identity(&self, host: &Host) -> Result<Identity> {
        let Self { user, password, token, nkey, credentials_file } = self;
        for (key, text) in
            [("user", user), ("password", password), ("token", token), ("nkey", nkey)]
        {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(Error::configuration(format_args!(
                    "invalid `auth.{key}`: expected a text that is not empty"
                )));
            }
        }
        match (user, password, token, nkey, credentials_file) {
            (Some(user), Some(password), None, None, None) => {
                Ok(Identity::Password(user.clone(), password.clone()))
            }
            (None, None, Some(token), None, None) => Ok(Identity::Token(token.clone())),
            (None, None, None, Some(seed), None) => Ok(Identity::Nkey(seed.trim().to_owned())),
            (None, None, None, None, Some(path)) => Ok(Identity::Credentials(host.resolve(path))),
            _ => Err(Error::configuration(
                "invalid `auth`: expected either `user` and `password`, or one of `token`, `nkey` and `credentials_file`",
            )),
        }
    }
}

impl Tls {
    /// Returns the TLS connector of the kit, configured with these keys. Does not open the files.
    fn connector(&self, host: &Host, first: &Address) -> Result<TlsConnector> {
        let Self { ca_file, cert_file, key_file } = self.clone();
        let keys = tls::Tls { ca_file, cert_file, key_file, ..tls::Tls::default() };
        TlsConnector::new(&keys, host, first)
    }
}

async fn read(key: &'static str, path: &Path) -> Result<Vec<u8>> {
    let own = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read(own)).await;
    read.map_err(Error::internal)?.map_err(|error| {
        Error::configuration(format_args!(
            "cannot read `{}`, which `{key}` names: {error}",
            path.display()
        ))
    })
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("user", &self.user)
            .field("credentials_file", &self.credentials_file)
            .finish_non_exhaustive()
    }
}
