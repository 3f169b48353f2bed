//! Whom to trust: as rustls decides, with one more reason for a refusal.

use std::{error::Error, fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use webpki::EndEntityCert;

/// A certificate that nobody but its owner has signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfSigned;

impl fmt::Display for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("self-signed")
    }
}

impl Error for SelfSigned {}

/// Verifies the certificates of peers, and tells self-signed ones from those of an unknown CA.
#[derive(Debug)]
pub(super) struct Trust<V: ?Sized>(pub(super) Arc<V>);

/// The same error, unless the certificate is self-signed.
fn told_apart(error: rustls::Error, certificate: &CertificateDer<'_>) -> rustls::Error {
    let is_unknown =
        matches!(error, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
    let is_self_signed = || {
        let parsed = EndEntityCert::try_from(certificate);
        parsed.is_ok_and(|it| it.issuer() == it.subject())
    };
    if is_unknown && is_self_signed() {
        CertificateError::Other(OtherError(Arc::new(SelfSigned))).into()
    } else {
        error
    }
}

/// What both verifiers have: signatures are verified by the one within.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_verify_schemes()
        }
    };
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
        self.0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| told_apart(error, end_entity))
    }

    signatures!();
}

impl<V: ClientCertVerifier + ?Sized> ClientCertVerifier for Trust<V> {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|error| told_apart(error, end_entity))
    }

    signatures!();
}
