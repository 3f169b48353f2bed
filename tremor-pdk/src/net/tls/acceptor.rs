//! TLS for servers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_io::{AsyncRead, AsyncWrite};
use rustls::{
    ServerConfig, ServerConnection, SupportedProtocolVersion,
    crypto::ring,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};

use super::{
    certificates::{authorities, chain, key, unusable},
    config::{ClientAuth, MinVersion, Tls},
    refusal::Role,
    reload::{Load, Reloading},
    session::Session,
    stream::TlsStream,
    trust::Trust,
};
use crate::{Error, Host, Result};

/// An acceptor of TLS on the connections of a server. Clones are cheap, and share the loaded certificates.
#[derive(Clone)]
pub struct TlsAcceptor(Reloading<Settings>);

#[derive(Clone)]
struct Settings {
    certificate: PathBuf,
    key: PathBuf,
    authority: Option<(PathBuf, ClientAuth)>,
    min_version: MinVersion,
    protocols: Vec<Vec<u8>>,
}

impl TlsAcceptor {
    /// Creates an acceptor from a configuration, without opening a file.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if a configuration key is missing, or a key for clients is set.
    pub fn new(tls: &Tls, host: &Host) -> Result<Self> {
        tls.check_server()?;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|file| host.resolve(file));
        let settings = Settings {
            certificate: path(&tls.cert_file).unwrap_or_default(),
            key: path(&tls.key_file).unwrap_or_default(),
            authority: path(&tls.ca_file).zip(tls.client_auth),
            min_version: tls.min_version,
            protocols: Vec::new(),
        };
        Ok(Self(Reloading::new(host, settings)))
    }

    /// Sets the protocols that the server offers with ALPN, such as `http/1.1`, the preferred protocol first. A client
    /// that offers only other protocols is rejected.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &[&str]) -> Self {
        self.0.loader_mut().protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// Reads the files, so that errors in them are detected before the first client connects.
    ///
    /// # Errors
    /// Returns an error of the kind configuration that names the file if a file cannot be read or used.
    pub async fn load(&self) -> Result<()> {
        self.0.get().await.map(|_| ())
    }

    /// Performs the handshake with a peer, within ten seconds.
    ///
    /// Dropping the future closes the connection. `peer` is the name of the peer in errors.
    ///
    /// # Errors
    /// Returns an error of the kind connection lost with the reason if the peer was rejected or closed the
    /// connection, and of the kind configuration if a file cannot be read or used.
    pub async fn accept<S>(&self, stream: S, peer: &impl std::fmt::Display) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let session = session(self.0.get().await?)?;
        let accepted = TlsStream::handshake(self.0.host(), stream, session, Role::Server).await;
        accepted.map_err(|why| {
            Error::connection_lost(format!("cannot establish TLS with {peer}: {why}"))
        })
    }

    /// Creates the TLS state of a new connection, without waiting.
    pub(in crate::net) fn session(&self) -> Result<Session> {
        session(self.0.get_now()?)
    }
}

fn session(config: Arc<ServerConfig>) -> Result<Session> {
    let connection = ServerConnection::new(config)
        .map_err(|error| Error::internal(format!("cannot begin the TLS handshake: {error}")))?;
    Ok(Session::new(connection.into(), Role::Server))
}

impl Load for Settings {
    type Output = ServerConfig;

    fn files(&self) -> Vec<&Path> {
        let mut files = vec![self.certificate.as_path(), self.key.as_path()];
        files.extend(self.authority.as_ref().map(|(path, _)| path.as_path()));
        files
    }

    fn load(&self) -> Result<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(self.min_version.versions())
            .map_err(Error::internal)?;
        let algorithms = provider.signature_verification_algorithms;
        let builder = match &self.authority {
            None => builder.with_no_client_auth(),
            Some((path, auth)) => {
                let (listed, roots) = authorities(path)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = match auth {
                    ClientAuth::Required => verifier,
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                };
                let chains = verifier.build().map_err(|error| unusable(path, &error))?;
                builder.with_client_cert_verifier(Arc::new(Trust { chains, listed, algorithms }))
            }
        };
        let mut config = builder
            .with_single_cert(chain(&self.certificate)?, key(&self.key)?)
            .map_err(|error| pair(&self.certificate, &self.key, &error))?;
        config.alpn_protocols.clone_from(&self.protocols);
        // Sessions are not resumed, because connections are long-lived. Also, a peer that never reads would leave the
        // session tickets unread; when that peer closes its socket, the connection would be reset and its last data
        // lost.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

impl MinVersion {
    /// Returns the supported versions that are not older than this version.
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static FROM_12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        static FROM_13: [&SupportedProtocolVersion; 1] = [&TLS13];
        match self {
            Self::Tls12 => &FROM_12,
            Self::Tls13 => &FROM_13,
        }
    }
}

/// Returns the error for a certificate and a key that do not belong together.
pub(super) fn pair(certificate: &Path, key: &Path, error: &rustls::Error) -> Error {
    let why = match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key does not belong to the certificate".to_owned()
        }
        error => error.to_string(),
    };
    Error::configuration(format!(
        "cannot use the certificate `{}` with the key `{}`, which `tls` names: {why}",
        certificate.display(),
        key.display()
    ))
}

impl std::fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsAcceptor").field("files", &self.0.loader().files()).finish()
    }
}
