//! TLS of hostile peers, which can send half of a record.

use std::{
    io::{self, Write},
    net::TcpStream,
    ops::DerefMut,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig,
    ServerConnection, SideData, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

/// Maximum number of bytes of a bomb in a record of which half is sent. About the maximum length of a record.
pub(super) const RECORD: usize = 16_000;

/// Client side of a TLS connection.
pub(super) type Client = StreamOwned<ClientConnection, TcpStream>;

/// Performs the TLS handshake with a server that has this certificate, in PEM.
pub(super) fn connect(mut stream: TcpStream, certificate: &str) -> io::Result<Client> {
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    roots.add(trusted).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// Returns the configuration of a server with this certificate and key, both in PEM.
pub(super) fn server(certificate: &str, key: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// Performs the TLS handshake with a client.
pub(super) fn accept(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// Sends the first half of the record that contains these bytes.
pub(super) fn send_half<C, S>(
    stream: &mut StreamOwned<C, TcpStream>,
    bytes: &[u8],
) -> io::Result<()>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    stream.conn.writer().write_all(bytes)?;
    let mut record = Vec::new();
    stream.conn.write_tls(&mut record)?;
    stream.sock.write_all(&record[..record.len() / 2])
}
