//! Creation of a CA and a certificate, and the TLS configuration of clients and servers.

use std::{fs, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    version::TLS13,
};
use tremor_pdk::testing::certificates::Authority;

use crate::Result;

#[derive(Debug, clap::Args)]
pub(crate) struct Certificates {
    /// Folder for ca.pem, cert.pem and key.pem
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn run(&self) -> Result {
        let authority = Authority::new();
        let identity = authority.issue(&["localhost", "127.0.0.1"]);
        fs::write(self.folder.join("ca.pem"), authority.pem())?;
        fs::write(self.folder.join("cert.pem"), identity.certificate)?;
        Ok(fs::write(self.folder.join("key.pem"), identity.key)?)
    }
}

/// TLS options of a server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerTls {
    /// Use TLS 1.3, with cert.pem and key.pem of this folder
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
}

impl ServerTls {
    /// Creates a session, if TLS is used.
    pub(crate) fn session(&self) -> Result<Option<ServerConnection>> {
        let Some(folder) = &self.tls else { return Ok(None) };
        let chain = vec![CertificateDer::from_pem_file(folder.join("cert.pem"))?];
        let key = PrivateKeyDer::from_pem_file(folder.join("key.pem"))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.send_tls13_tickets = 0;
        Ok(Some(ServerConnection::new(Arc::new(config))?))
    }
}

/// TLS options of a client.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientTls {
    /// Use TLS 1.3, and trust ca.pem of this folder
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
}

impl ClientTls {
    /// Creates the factory of sessions, if TLS is used.
    pub(crate) fn sessions(&self) -> Result<Option<Sessions>> {
        let Some(folder) = &self.tls else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("ca.pem"))?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Some(Sessions(Arc::new(config))))
    }
}

/// Creates client sessions.
pub(crate) struct Sessions(Arc<ClientConfig>);

impl Sessions {
    pub(crate) fn session(&self) -> Result<ClientConnection> {
        Ok(ClientConnection::new(self.0.clone(), ServerName::try_from("localhost")?)?)
    }
}
