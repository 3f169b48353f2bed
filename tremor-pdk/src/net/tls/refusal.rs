//! Messages for failed TLS handshakes, with the remedy.

use rustls::{
    AlertDescription as Alert, CertificateError, Error, InvalidMessage, PeerIncompatible,
    pki_types::{ServerName, UnixTime},
};

use super::{trust::SelfSigned, unverified::OtherFingerprint};

/// The role of this side of the connection on which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client {
        /// `true` if `ca_file` is set, which replaces the trusted CAs of the system.
        has_ca_file: bool,
        has_certificate: bool,
    },
    Server,
}

impl Role {
    fn is_client(self) -> bool {
        self != Self::Server
    }

    /// Returns the message for a peer that closed the connection before the end of the handshake.
    pub(super) fn early_close_message(self) -> &'static str {
        match self {
            Self::Client { .. } => {
                "it closed the connection during the TLS handshake: check its log, and whether it speaks \
                 TLS at this address"
            }
            Self::Server => "it closed the connection during the TLS handshake: check its log",
        }
    }

    /// Returns the message for a peer that did not finish the handshake in time.
    pub(in crate::net) fn timeout_message(self) -> &'static str {
        match self {
            Self::Client { .. } => {
                "it did not finish the TLS handshake within ten seconds: check whether it speaks TLS at \
                 this address"
            }
            Self::Server => "it did not finish the TLS handshake within ten seconds",
        }
    }
}

/// Explains why the peer was rejected, or why the peer rejects the connection.
pub(super) fn explain(error: &Error, role: Role) -> String {
    match error {
        Error::InvalidCertificate(error) => {
            format!("its certificate {}", certificate(error, role))
        }
        Error::NoCertificatesPresented if !role.is_client() => {
            "it presented no certificate, but `client_auth: required` is set: give it one that \
             `ca_file` has signed"
                .to_owned()
        }
        Error::AlertReceived(alert) => refused(*alert, role),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::MessageTooLarge,
        ) if role.is_client() => {
            "it does not speak TLS: check the port, or remove `tls`".to_owned()
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::MessageTooLarge,
        ) => "it does not speak TLS, which this port requires".to_owned(),
        Error::PeerIncompatible(why) => incompatible(why, role),
        Error::NoApplicationProtocol => {
            "it offers none of the supported protocols (ALPN)".to_owned()
        }
        error => format!("it violates the TLS protocol: {error}"),
    }
}

/// Explains why a certificate was rejected.
fn certificate(error: &CertificateError, role: Role) -> String {
    use CertificateError as E;
    match error {
        E::ExpiredContext { time, not_after } => {
            format!("expired {} ago: renew it", between(*not_after, *time))
        }
        E::Expired => "has expired: renew it".to_owned(),
        E::NotValidYetContext { time, not_before } => format!(
            "is only valid in {}: check the clocks of both sides",
            between(*time, *not_before)
        ),
        E::NotValidYet => "is not valid yet: check the clocks of both sides".to_owned(),
        E::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let (name, kind) = match expected {
                ServerName::IpAddress(_) => (expected.to_str(), "IP"),
                _ => (expected.to_str(), "DNS"),
            };
            format!(
                "is not for `{name}`, because it has no name in `subjectAltName`, and its common name is \
                 ignored: create one with such a name (`-addext subjectAltName={kind}:{name}` of `openssl req -x509`)"
            )
        }
        E::NotValidForNameContext { expected, presented } => format!(
            "is not for `{}`, but for {}: set `server_name` to one of these if this is the right peer",
            expected.to_str(),
            presented.join(", ")
        ),
        E::NotValidForName => "is not for the name of the peer (`server_name`)".to_owned(),
        E::UnknownIssuer => format!(
            "is signed by a CA that is not trusted: {}",
            match role {
                Role::Client { has_ca_file: false, .. } =>
                    "the system does not trust it; set `ca_file` to the certificate of the CA",
                Role::Client { has_ca_file: true, .. } | Role::Server =>
                    "`ca_file` does not contain it",
            }
        ),
        E::Other(other) if other.0.is::<SelfSigned>() => {
            "is self-signed: to trust it, set `ca_file` to its file".to_owned()
        }
        E::Other(other) if other.0.is::<OtherFingerprint>() => {
            format!("{}: add it if this is the right peer", other.0)
        }
        // The verifier has no specific error for this case.
        E::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "is a CA certificate, which cannot identify a peer: to trust it nevertheless, set `ca_file` to its \
             file; otherwise give the peer a certificate that is not the certificate of a CA"
                .to_owned()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => format!(
            "is not meant for this use: its `extendedKeyUsage` does not contain {}",
            if role.is_client() { "`serverAuth`" } else { "`clientAuth`" }
        ),
        E::Revoked => "is revoked".to_owned(),
        E::BadSignature => "does not have a valid signature of the CA that it names".to_owned(),
        error => format!("cannot be used: {error}"),
    }
}

/// Explains an alert that the peer has sent.
fn refused(alert: Alert, role: Role) -> String {
    let has_certificate = match role {
        Role::Client { has_certificate, .. } => has_certificate,
        Role::Server => true,
    };
    let what = match alert {
        Alert::CertificateRequired | Alert::NoCertificate | Alert::AccessDenied
            if !has_certificate =>
        {
            "it requires a certificate from its clients: set `cert_file` and `key_file`"
        }
        Alert::BadCertificate | Alert::HandshakeFailure if role.is_client() && !has_certificate => {
            "it rejects the handshake: it may require a certificate from its clients (`cert_file`, \
             `key_file`), or both sides have no cipher in common"
        }
        Alert::UnknownCA => "it does not trust the CA of the certificate in `cert_file`",
        Alert::CertificateExpired => "it reports that the certificate in `cert_file` has expired",
        Alert::CertificateRevoked => "it reports that the certificate in `cert_file` is revoked",
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            "it rejects the certificate in `cert_file`"
        }
        Alert::ProtocolVersion => {
            "both sides have no TLS version in common: check `min_version` of both sides"
        }
        Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            "it rejects the handshake: there is no common cipher or version, or it requires a certificate"
        }
        Alert::UnrecognisedName => "it does not have the requested name (`server_name`)",
        Alert::NoApplicationProtocol => "it supports none of the offered protocols (ALPN)",
        _ => "it ends the connection",
    };
    format!("{what} (alert {alert:?})")
}

fn incompatible(why: &PeerIncompatible, role: Role) -> String {
    use PeerIncompatible as P;
    match why {
        P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled
        | P::SupportedVersionsExtensionRequired
        // Every client that supports TLS 1.2 sends its signature algorithms.
        | P::SignatureAlgorithmsExtensionRequired
        | P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig => format!(
            "it uses an older version of TLS than `min_version` allows{}",
            if role.is_client() { "" } else { ", or an unsupported one" }
        ),
        P::NoCipherSuitesInCommon | P::NoKxGroupsInCommon | P::NoSignatureSchemesInCommon => {
            format!("both sides have no cipher in common ({why:?})")
        }
        why => format!("its TLS is incompatible: {why:?}"),
    }
}

/// Formats the time between `from` and `to` in its largest unit.
fn between(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) =
        units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "second"));
    let count = seconds / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
