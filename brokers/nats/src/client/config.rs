//! The keys that both connectors have.

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

/// TLS. A client needs none of the keys: without `ca_file` it trusts the CAs of the system. Files are PEM,
/// and a relative path starts at the folder of the flow file.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The certificates of the authorities that sign those of the servers, or those of the servers themselves.
    #[schemars(extend("x-file" = "read"))]
    pub ca_file: Option<PathBuf>,
    /// The own certificate, and after it those up to the CA's, for servers that ask for one.
    #[schemars(extend("x-file" = "read"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the own certificate.
    #[schemars(extend("x-file" = "read"))]
    pub key_file: Option<PathBuf>,
}

/// Who this client is: `user` and `password`, or `token`, or `nkey`, or `credentials_file`.
#[tremor_pdk::config]
#[derive(Clone, Default)]
pub struct Auth {
    /// The name.
    pub user: Option<String>,
    /// The password of `user`.
    #[schemars(extend("writeOnly" = true))]
    pub password: Option<String>,
    /// A token that the servers know.
    #[schemars(extend("writeOnly" = true))]
    pub token: Option<String>,
    /// The seed of a user's nkey, `SU…`: the servers know its public half.
    #[schemars(extend("writeOnly" = true))]
    pub nkey: Option<String>,
    /// A file with a JWT and the seed of its nkey, as `nsc` makes it. A relative path starts at the folder of the
    /// flow file.
    #[schemars(extend("x-file" = "read"))]
    pub credentials_file: Option<PathBuf>,
}

/// One of the ways to say who a client is.
#[derive(Clone)]
enum Identity {
    Password(String, String),
    Token(String),
    Nkey(String),
    Credentials(PathBuf),
}

/// How servers are reached: a configuration that was checked.
#[derive(Clone)]
pub(crate) struct Peer {
    /// `HOST:PORT`.
    pub(super) servers: Vec<String>,
    identity: Option<Identity>,
    tls: Option<TlsConnector>,
}

impl Peer {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected.
    pub(crate) fn new(
        servers: &[Address],
        auth: Option<&Auth>,
        tls: Option<&Tls>,
        host: &Host,
    ) -> Result<Self> {
        let Some(first) = servers.first() else {
            return Err(Error::configuration(
                "`servers`: expected the address of a server at least, such as `nats-1:4222`",
            ));
        };
        Ok(Self {
            servers: servers.iter().map(Address::to_string).collect(),
            identity: auth.map(|auth| auth.identity(host)).transpose()?,
            tls: tls.map(|tls| tls.connector(host, first)).transpose()?,
        })
    }

    /// The addresses, for messages.
    pub(super) fn servers(&self) -> String {
        self.servers.join("`, `")
    }

    /// The keys that say who this client is.
    pub(super) fn identity(&self) -> &'static str {
        match self.identity {
            Some(Identity::Password(..)) => "`auth.user` and `auth.password`",
            Some(Identity::Token(_)) => "`auth.token`",
            Some(Identity::Nkey(_)) => "`auth.nkey`",
            Some(Identity::Credentials(_)) => "`auth.credentials_file`",
            None => "`auth`, which is not set",
        }
    }

    /// Returns the configuration of TLS; `None` without the key `tls`. Call this outside of tokio, because the host reads
    /// the files.
    ///
    /// # Errors
    /// A file cannot be read, or has something else in it.
    pub(super) async fn tls_config(&self) -> Result<Option<Arc<ClientConfig>>> {
        match &self.tls {
            Some(tls) => tls.client_config().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the options of a client. Call this on tokio, because a file may be read.
    ///
    /// # Errors
    /// A file cannot be read, or has something else in it.
    pub(super) async fn options(&self, tls: Option<Arc<ClientConfig>>) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new();
        if let Some(config) = tls {
            // The client of NATS passes the name of the server that it connects to, one of several.
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
                // What the client says of the text is not shown: it may have a part of it.
                options.credentials(&text).map_err(|_| {
                    Error::configuration(format_args!(
                        "`auth.credentials_file`: {}: expected a JWT and the seed of an nkey, as `nsc` writes them",
                        path.display()
                    ))
                })
            }
        }
    }
}

impl Auth {
    /// # Errors
    /// Kind configuration: not exactly one way to say who this is. No value is shown.
    fn identity(&self, host: &Host) -> Result<Identity> {
        let Self { user, password, token, nkey, credentials_file } = self;
        for (key, text) in
            [("user", user), ("password", password), ("token", token), ("nkey", nkey)]
        {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(Error::configuration(format_args!(
                    "`auth.{key}`: expected a text, found none"
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
                "`auth`: expected either `user` and `password`, or one of `token`, `nkey` and `credentials_file`",
            )),
        }
    }
}

impl Tls {
    /// Returns the TLS of the project's other clients with these keys. Opens no file.
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
        Error::configuration(format_args!("`{key}`: cannot read {}: {error}", path.display()))
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
