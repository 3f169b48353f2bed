//! Verification of servers without a chain to a CA: by the fingerprint of the certificate, or not at all.

use std::{
    error::Error,
    fmt::{self, Write},
    sync::Arc,
};

use rustls::{
    CertificateError, OtherError,
    client::danger::{ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, ring::cipher_suite},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::signatures::signatures;

/// The SHA-256 hash of a certificate.
pub(super) type Fingerprint = [u8; 32];

/// The error for a certificate with another fingerprint than the expected ones.
#[derive(Clone, Debug)]
pub(super) struct OtherFingerprint(String);

impl fmt::Display for OtherFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(found) = self;
        write!(f, "has the fingerprint {found}, which is not in `fingerprints`")
    }
}

impl Error for OtherFingerprint {}

/// A verifier that checks no chain, name or date of a certificate. The peer still has to prove that it has the private
/// key of its certificate.
#[derive(Debug)]
pub(super) struct Unverified {
    /// Algorithms of signatures that are accepted.
    algorithms: WebPkiSupportedAlgorithms,
    /// Accepted certificates, or `None` if each certificate is accepted.
    fingerprints: Option<Vec<Fingerprint>>,
}

impl Unverified {
    pub(super) fn new(
        algorithms: WebPkiSupportedAlgorithms,
        fingerprints: Option<Vec<Fingerprint>>,
    ) -> Self {
        Self { algorithms, fingerprints }
    }
}

/// Reads a fingerprint, such as `ab:cd:…` or `abcd…`, with 64 hexadecimal digits. Returns `None` if it is invalid.
pub(super) fn fingerprint(text: &str) -> Option<Fingerprint> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|it| *it != ':')
        .map(|it| it.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |all, it| all << 4 | it)).collect();
    let is_whole = text.chars().filter(|it| *it != ':').count() == 64;
    bytes.try_into().ok().filter(|_| is_whole)
}

pub(super) fn sha256(bytes: &[u8]) -> Vec<u8> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    suite.map(|suite| suite.common.hash_provider.hash(bytes).as_ref().to_vec()).unwrap_or_default()
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(expected) = &self.fingerprints else {
            return Ok(ServerCertVerified::assertion());
        };
        let found = sha256(end_entity);
        if expected.iter().any(|it| it[..] == found[..]) {
            return Ok(ServerCertVerified::assertion());
        }
        let found = found.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Err(CertificateError::Other(OtherError(Arc::new(OtherFingerprint(found)))).into())
    }

    signatures!();
}
