//! Verification of the certificates of peers. Differs from the verifiers of rustls in two ways: the certificate of a
//! peer that is in `ca_file` is accepted without a chain to a CA, and errors distinguish self-signed certificates from
//! certificates of an unknown CA.

use std::{error::Error, fmt, sync::Arc};

use rustls::{
    CertificateError, DistinguishedName, OtherError,
    client::{
        danger::{ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use webpki::{EndEntityCert, KeyUsage};

use super::signatures::signatures;

/// The error for a self-signed certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfSigned;

impl fmt::Display for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("self-signed")
    }
}

impl Error for SelfSigned {}

/// A verifier of the certificates of peers.
#[derive(Debug)]
pub(super) struct Trust<V: ?Sized> {
    /// The verifier of rustls, which requires a chain to a trusted CA.
    pub(super) chains: Arc<V>,
    /// The certificates in `ca_file`. A peer that presents one of these certificates as its own is trusted without a
    /// chain.
    pub(super) listed: Vec<CertificateDer<'static>>,
    /// Algorithms of signatures that are accepted.
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl<V: ?Sized> Trust<V> {
    /// Returns whether a certificate is in `ca_file` and has valid dates. The issuer of the certificate and the name of
    /// the peer are not checked, and the certificate may be that of a CA.
    fn is_listed(&self, certificate: &CertificateDer<'_>, now: UnixTime, usage: KeyUsage) -> bool {
        if !self.listed.contains(certificate) {
            return false;
        }
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { return false };
        // Without a CA, no chain is found. webpki checks the dates first, then whether the certificate is that of a
        // CA, and then searches chains, so these two errors show that the dates are valid.
        let error = parsed.verify_for_usage(&[], &[], &[], now, usage, None, None).err();
        matches!(error, Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer))
    }
}

/// Replaces the error for an unknown issuer if the certificate is self-signed.
fn distinguish_self_signed(
    error: rustls::Error,
    certificate: &CertificateDer<'_>,
) -> rustls::Error {
    let is_unknown =
        matches!(error, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
    let is_self_signed = || {
        let parsed = EndEntityCert::try_from(certificate);
        parsed.is_ok_and(|parsed| parsed.issuer() == parsed.subject())
    };
    if is_unknown && is_self_signed() {
        CertificateError::Other(OtherError(Arc::new(SelfSigned))).into()
    } else {
        error
    }
}

impl<V: ServerCertVerifier + ?Sized> ServerCertVerifier for Trust<V> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if verified.is_err() && self.is_listed(end_entity, now, KeyUsage::server_auth()) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verified.map_err(|error| distinguish_self_signed(error, end_entity))
    }

    signatures!();
}

impl<V: ClientCertVerifier + ?Sized> ClientCertVerifier for Trust<V> {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chains.verify_client_cert(end_entity, intermediates, now);
        if verified.is_err() && self.is_listed(end_entity, now, KeyUsage::client_auth()) {
            return Ok(ClientCertVerified::assertion());
        }
        verified.map_err(|error| distinguish_self_signed(error, end_entity))
    }

    signatures!();
}
