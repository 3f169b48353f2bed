//! The side of a server.

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

/// Makes connections of TLS of those that a server accepts. Cheap to clone; clones share what they have read.
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
    /// Of a configuration. Opens no file.
    ///
    /// # Errors
    /// Kind configuration: a key is missing, or is for clients.
    pub fn new(tls: &Tls, host: &Host) -> Result<Self> {
        tls.check_server()?;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|it| host.resolve(it));
        let settings = Settings {
            certificate: path(&tls.cert_file).unwrap_or_default(),
            key: path(&tls.key_file).unwrap_or_default(),
            authority: path(&tls.ca_file).zip(tls.client_auth),
            min_version: tls.min_version,
            protocols: Vec::new(),
        };
        Ok(Self(Reloading::new(host, settings)))
    }

    /// The same, for these protocols (ALPN), the best first: `http/1.1`. A client that names its own, and none
    /// of them, is refused.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &[&str]) -> Self {
        self.0.loader_mut().protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        self
    }

    /// Reads the files, so that what is wrong with them is known before a client comes.
    ///
    /// # Errors
    /// Kind configuration: a file cannot be read or used. The error names it.
    pub async fn load(&self) -> Result<()> {
        self.0.get().await.map(|_| ())
    }

    /// Waits for the handshake with a peer, ten seconds at most. The future may be dropped: the connection is
    /// closed then. `peer` is what errors call it.
    ///
    /// # Errors
    /// Kind connection lost: the peer was refused, or breaks off; the error says why. Kind configuration: a
    /// file cannot be read or used.
    pub async fn accept<S>(&self, stream: S, peer: &impl std::fmt::Display) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let session = session(self.0.get().await?)?;
        let accepted = TlsStream::shake_hands(self.0.host(), stream, session, Role::Server).await;
        accepted
            .map_err(|why| Error::connection_lost(format!("no TLS connection from {peer}: {why}")))
    }

    /// What a connection starts with, without waiting.
    pub(in crate::net) fn session(&self) -> Result<Session> {
        session(self.0.get_now()?)
    }
}

fn session(config: Arc<ServerConfig>) -> Result<Session> {
    let connection = ServerConnection::new(config)
        .map_err(|error| Error::internal(format!("cannot speak TLS: {error}")))?;
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
                builder.with_client_cert_verifier(Arc::new(Trust { chains, listed }))
            }
        };
        let mut config = builder
            .with_single_cert(chain(&self.certificate)?, key(&self.key)?)
            .map_err(|error| pair(&self.certificate, &self.key, &error))?;
        config.alpn_protocols.clone_from(&self.protocols);
        // A connection lasts, and is not resumed: a peer that only sends would leave tickets unread, and
        // reset the connection with what it had sent last when it closes.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

impl MinVersion {
    /// The versions from this on.
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static FROM_12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        static FROM_13: [&SupportedProtocolVersion; 1] = [&TLS13];
        match self {
            Self::Tls12 => &FROM_12,
            Self::Tls13 => &FROM_13,
        }
    }
}

/// A certificate and a key that do not work together.
pub(super) fn pair(certificate: &Path, key: &Path, error: &rustls::Error) -> Error {
    let why = match error {
        rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
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
