//! TLS for clients.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_io::{AsyncRead, AsyncWrite};
use rustls::{
    ClientConfig, ClientConnection,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
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
    unverified::{Fingerprint, Unverified},
};
use crate::{Error, ErrorPolicy, Host, LogLevel, Result, net::Address};

/// A connector that establishes TLS on connections of a client. Clones are cheap, and share the loaded certificates.
#[derive(Clone)]
pub struct TlsConnector {
    config: Reloading<Settings>,
    address: Arc<Address>,
    name: ServerName<'static>,
    role: Role,
    /// `true` once the log contains the warning that the server is not verified.
    is_warned: Arc<AtomicBool>,
}

/// Verification of the server.
#[derive(Clone)]
enum Verification {
    /// By a chain to a CA, which is in the file or is one of the CAs of the system.
    Authority(Option<PathBuf>),
    Fingerprints(Vec<Fingerprint>),
    /// Every certificate is accepted.
    Nothing,
}

#[derive(Clone)]
struct Settings {
    verification: Verification,
    /// Files of the certificate and its key.
    certificate: Option<(PathBuf, PathBuf)>,
    min_version: MinVersion,
    protocols: Vec<Vec<u8>>,
}

impl TlsConnector {
    /// Creates a connector for the peer at `address` from a configuration, without opening a file.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if a configuration key is missing, a key for servers is set, or the
    /// name of the server is invalid.
    pub fn new(tls: &Tls, host: &Host, address: &Address) -> Result<Self> {
        tls.check_client()?;
        let name = tls.server_name.clone().unwrap_or_else(|| address.host());
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            Error::configuration(format!(
                "`tls`: `{name}` is not a valid name of a server: set `server_name` to the name in its certificate"
            ))
        })?;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|file| host.resolve(file));
        let verification = match tls.fingerprints() {
            _ if tls.insecure_skip_verify => Verification::Nothing,
            fingerprints if !fingerprints.is_empty() => Verification::Fingerprints(fingerprints),
            _ => Verification::Authority(path(&tls.ca_file)),
        };
        let settings = Settings {
            verification,
            certificate: path(&tls.cert_file).zip(path(&tls.key_file)),
            min_version: tls.min_version,
            protocols: Vec::new(),
        };
        let role = Role::Client {
            has_ca_file: tls.ca_file.is_some(),
            has_certificate: settings.certificate.is_some(),
        };
        let address = Arc::new(address.clone());
        let is_warned = Arc::default();
        Ok(Self { config: Reloading::new(host, settings), address, name, role, is_warned })
    }

    /// Sets the protocols that the client offers with ALPN, such as `http/1.1`, the preferred protocol first.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self.config.loader_mut().protocols = protocols;
        self
    }

    /// Returns the rustls configuration for a new connection, for a client library that implements TLS itself.
    ///
    /// Files that have changed are read again. The certificate is checked against the server name that the library
    /// passes to rustls; the key `server_name` has no effect.
    ///
    /// # Errors
    /// Returns an error of the kind configuration if a file cannot be read or used.
    pub async fn client_config(&self) -> Result<Arc<ClientConfig>> {
        self.warn();
        self.config.get().await
    }

    /// Logs a warning before the first connection if the server is not verified.
    fn warn(&self) {
        let is_unverified = matches!(self.config.loader().verification, Verification::Nothing);
        if is_unverified && !self.is_warned.swap(true, Ordering::Relaxed) {
            let message = format!(
                "the certificate of `{}` is not verified because of `insecure_skip_verify`: anybody on the network can \
                 pretend to be this server, read the data and change it; set `ca_file` or `fingerprints` instead",
                self.address
            );
            self.config.host().log(LogLevel::WARN, &message);
        }
    }

    /// Performs the handshake with the peer, within ten seconds. Dropping the future closes the connection.
    ///
    /// # Errors
    /// Returns an error of the kind authentication, with the policy to reconnect and the reason, if the peer was
    /// rejected or rejects the connection, and of the kind configuration if a file cannot be read or used.
    pub async fn connect<S>(&self, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.warn();
        let config = self.config.get().await?;
        let connection = ClientConnection::new(config, self.name.clone())
            .map_err(|error| Error::internal(format!("cannot begin the TLS handshake: {error}")))?;
        let session = Session::new(connection.into(), self.role);
        let connected = TlsStream::handshake(self.config.host(), stream, session, self.role).await;
        connected.map_err(|why| {
            let message = format!("cannot establish TLS with `{}`: {why}", self.address);
            // A later attempt may succeed after a certificate was renewed, so the runtime reconnects.
            Error::authentication(message).with_policy(ErrorPolicy::RECONNECT)
        })
    }
}

impl Load for Settings {
    type Output = ClientConfig;

    fn files(&self) -> Vec<&Path> {
        let pair = self.certificate.as_ref();
        let pair = pair.into_iter().flat_map(|(certificate, key)| [certificate, key]);
        let authority = match &self.verification {
            Verification::Authority(path) => path.as_ref(),
            Verification::Fingerprints(_) | Verification::Nothing => None,
        };
        authority.into_iter().chain(pair).map(PathBuf::as_path).collect()
    }

    fn load(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.verification {
            Verification::Authority(path) => {
                let (listed, roots) = match path {
                    Some(path) => authorities(path)?,
                    None => (Vec::new(), system_authorities()?),
                };
                let provider = provider.clone();
                let builder = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
                let chains = builder.build().map_err(Error::configuration)?;
                // Calls the verifier of rustls, and also accepts a peer whose own certificate is in `ca_file`.
                Arc::new(Trust { chains, listed, algorithms })
            }
            Verification::Fingerprints(all) => {
                Arc::new(Unverified::new(algorithms, Some(all.clone())))
            }
            Verification::Nothing => Arc::new(Unverified::new(algorithms, None)),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.min_version.versions())
            .map_err(Error::internal)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, private)) => builder
                .with_client_auth_cert(chain(certificate)?, key(private)?)
                .map_err(|error| pair(certificate, private, &error))?,
        };
        config.alpn_protocols.clone_from(&self.protocols);
        // Without resumption, the server presents its certificate on each connection, so that an expired certificate is
        // detected.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

shows! { TlsConnector { name } }
