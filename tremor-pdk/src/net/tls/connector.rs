//! The side of a client.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_io::{AsyncRead, AsyncWrite};
use rustls::{
    ClientConfig, ClientConnection,
    client::{Resumption, WebPkiServerVerifier},
    crypto::ring,
    pki_types::ServerName,
};

use super::{
    acceptor::pair,
    certificates::{authorities, chain, key, system_authorities},
    config::{MinVersion, Tls},
    refusal::Role,
    reload::{Load, Reloading},
    session::Session,
    stream::TlsStream,
    trust::Trust,
};
use crate::{Error, ErrorPolicy, Host, Result, net::Address};

/// Makes connections of TLS of those that a client has made. Cheap to clone; clones share what they have read.
#[derive(Clone)]
pub struct TlsConnector {
    config: Reloading<Settings>,
    address: Arc<Address>,
    name: ServerName<'static>,
    role: Role,
}

#[derive(Clone)]
struct Settings {
    authority: Option<PathBuf>,
    /// The certificate, and its key.
    certificate: Option<(PathBuf, PathBuf)>,
    min_version: MinVersion,
    protocols: Vec<Vec<u8>>,
}

impl TlsConnector {
    /// Of a configuration, for a peer. Opens no file.
    ///
    /// # Errors
    /// Kind configuration: a key is missing, or is for servers; or the name is none.
    pub fn new(tls: &Tls, host: &Host, address: &Address) -> Result<Self> {
        tls.check_client()?;
        let name = tls.server_name.clone().unwrap_or_else(|| address.host());
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            Error::configuration(format!(
                "`tls`: `{name}` is no name that a certificate may have: say which with `server_name`"
            ))
        })?;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|it| host.resolve(it));
        let settings = Settings {
            authority: path(&tls.ca_file),
            certificate: path(&tls.cert_file).zip(path(&tls.key_file)),
            min_version: tls.min_version,
            protocols: Vec::new(),
        };
        let role = Role::Client {
            has_ca_file: settings.authority.is_some(),
            has_certificate: settings.certificate.is_some(),
        };
        let address = Arc::new(address.clone());
        Ok(Self { config: Reloading::new(host, settings), address, name, role })
    }

    /// The same, for these protocols (ALPN), the best first: `http/1.1`.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        self.config.loader_mut().protocols = protocols;
        self
    }

    /// Returns the configuration of rustls for a connection that is made now: for a client library that speaks TLS
    /// itself. The files are read again if they have changed. The library has to pass the name of the server that it
    /// connects to, which is checked; the key `server_name` has no effect.
    ///
    /// # Errors
    /// Kind configuration: a file cannot be read or used.
    pub async fn client_config(&self) -> Result<Arc<ClientConfig>> {
        self.config.get().await
    }

    /// Waits for the handshake with the peer, ten seconds at most. The future may be dropped: the connection is
    /// closed then.
    ///
    /// # Errors
    /// Kind authentication, with the policy to reconnect: the peer was refused, or refuses; the error says why.
    /// Kind configuration: a file cannot be read or used.
    pub async fn connect<S>(&self, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.config.get().await?;
        let connection = ClientConnection::new(config, self.name.clone())
            .map_err(|error| Error::internal(format!("cannot speak TLS: {error}")))?;
        let session = Session::new(connection.into(), self.role);
        let connected =
            TlsStream::shake_hands(self.config.host(), stream, session, self.role).await;
        connected.map_err(|why| {
            let message = format!("no TLS connection to `{}`: {why}", self.address);
            // Whoever renews a certificate mends it, with time.
            Error::authentication(message).with_policy(ErrorPolicy::RECONNECT)
        })
    }
}

impl Load for Settings {
    type Output = ClientConfig;

    fn files(&self) -> Vec<&Path> {
        let pair = self.certificate.as_ref();
        let pair = pair.into_iter().flat_map(|(certificate, key)| [certificate, key]);
        self.authority.iter().chain(pair).map(PathBuf::as_path).collect()
    }

    fn load(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let (listed, roots) = match &self.authority {
            Some(path) => authorities(path)?,
            None => (Vec::new(), system_authorities()?),
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
        let chains = verifier.build().map_err(Error::configuration)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.min_version.versions())
            .map_err(Error::internal)?
            // `Trust` asks the verifier of rustls, and accepts besides only what `ca_file` lists.
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trust { chains, listed }));
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, private)) => builder
                .with_client_auth_cert(chain(certificate)?, key(private)?)
                .map_err(|error| pair(certificate, private, &error))?,
        };
        config.alpn_protocols.clone_from(&self.protocols);
        // Each connection shows what it has: a certificate that is no longer good is noticed.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

shows! { TlsConnector { name } }
