//! Why there is no connection, in words that say what to do.

use rustls::{
    AlertDescription as Alert, CertificateError, Error, InvalidMessage, PeerIncompatible,
    pki_types::{ServerName, UnixTime},
};

use super::trust::SelfSigned;

/// Which side this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client {
        /// Whether CAs are those of `ca_file`, and not the system's.
        has_ca_file: bool,
        has_certificate: bool,
    },
    Server,
}

impl Role {
    fn is_client(self) -> bool {
        self != Self::Server
    }

    /// The peer closed the connection before the end of the handshake.
    pub(super) fn has_hung_up_early(self) -> &'static str {
        match self {
            Self::Client { .. } => {
                "it closed the connection during the TLS handshake: see whether it speaks TLS at this \
                 address, and its log"
            }
            Self::Server => "it closed the connection during the TLS handshake: see its log",
        }
    }

    /// The peer did not finish the handshake in time.
    pub(in crate::net) fn is_too_slow(self) -> &'static str {
        match self {
            Self::Client { .. } => {
                "it did not finish the TLS handshake within ten seconds: see whether it speaks TLS at \
                 this address"
            }
            Self::Server => "it did not finish the TLS handshake within ten seconds",
        }
    }
}

/// Why the peer was refused, or why it refuses.
pub(super) fn explain(error: &Error, role: Role) -> String {
    match error {
        Error::InvalidCertificate(error) => {
            format!("its certificate {}", certificate(error, role))
        }
        Error::NoCertificatesPresented if !role.is_client() => {
            "it shows no certificate, and `client_auth: required` asks for one: give it one that \
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
            "it does not speak TLS: see whether the port is the right one, or leave `tls` out"
                .to_owned()
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::MessageTooLarge,
        ) => "it does not speak TLS, as a client of this port has to".to_owned(),
        Error::PeerIncompatible(why) => incompatible(why, role),
        Error::NoApplicationProtocol => {
            "it offers none of the protocols that are spoken here (ALPN)".to_owned()
        }
        error => format!("it does not keep to TLS: {error}"),
    }
}

/// What is wrong with a certificate.
fn certificate(error: &CertificateError, role: Role) -> String {
    use CertificateError as E;
    match error {
        E::ExpiredContext { time, not_after } => {
            format!("expired {} ago: it has to be renewed", between(*not_after, *time))
        }
        E::Expired => "has expired: it has to be renewed".to_owned(),
        E::NotValidYetContext { time, not_before } => format!(
            "is not valid yet, but in {}: see whether the clocks are right",
            between(*time, *not_before)
        ),
        E::NotValidYet => "is not valid yet: see whether the clocks are right".to_owned(),
        E::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let (name, kind) = match expected {
                ServerName::IpAddress(_) => (expected.to_str(), "IP"),
                _ => (expected.to_str(), "DNS"),
            };
            format!(
                "is not for `{name}`, because it has no name in `subjectAltName`, and its common name is not \
                 read: make one that has (`-addext subjectAltName={kind}:{name}` of `openssl req -x509`)"
            )
        }
        E::NotValidForNameContext { expected, presented } => format!(
            "is not for `{}`, but for {}: name one of those as `server_name` if this is the right peer",
            expected.to_str(),
            presented.join(", ")
        ),
        E::NotValidForName => "is not for the name of the peer (`server_name`)".to_owned(),
        E::UnknownIssuer => format!(
            "is signed by a CA that is not trusted: {}",
            match role {
                Role::Client { has_ca_file: false, .. } =>
                    "the system does not know it; name the CA's certificate as `ca_file`",
                Role::Client { has_ca_file: true, .. } | Role::Server =>
                    "`ca_file` does not have it",
            }
        ),
        E::Other(other) if other.0.is::<SelfSigned>() => {
            "is self-signed: if it is the right one, name it as `ca_file`".to_owned()
        }
        // The verifier has no other name for it.
        E::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "is that of a CA, and is used as a peer's: if it is the right one, name it as `ca_file`; \
             otherwise have the peer show one that is not a CA's"
                .to_owned()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => format!(
            "is not meant for that: its `extendedKeyUsage` has no {}",
            if role.is_client() { "`serverAuth`" } else { "`clientAuth`" }
        ),
        E::Revoked => "is revoked".to_owned(),
        E::BadSignature => "is not signed by the CA that it names".to_owned(),
        error => format!("cannot be used: {error}"),
    }
}

/// What the peer says of us.
fn refused(alert: Alert, role: Role) -> String {
    let has_certificate = match role {
        Role::Client { has_certificate, .. } => has_certificate,
        Role::Server => true,
    };
    let what = match alert {
        Alert::CertificateRequired | Alert::NoCertificate | Alert::AccessDenied
            if !has_certificate =>
        {
            "it wants a certificate of its clients: name `cert_file` and `key_file`"
        }
        Alert::BadCertificate | Alert::HandshakeFailure if role.is_client() && !has_certificate => {
            "it refuses the handshake: it may want a certificate of its clients (`cert_file`, \
             `key_file`), or have no cipher in common"
        }
        Alert::UnknownCA => "it does not trust the CA of our certificate",
        Alert::CertificateExpired => "it says that our certificate has expired",
        Alert::CertificateRevoked => "it says that our certificate is revoked",
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            "it refuses our certificate"
        }
        Alert::ProtocolVersion => {
            "it speaks no version of TLS that is spoken here: see `min_version` of both sides"
        }
        Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            "it refuses the handshake: it has no cipher or version in common, or wants a certificate"
        }
        Alert::UnrecognisedName => {
            "it does not know the name that it was asked for (`server_name`)"
        }
        Alert::NoApplicationProtocol => "it speaks none of the offered protocols (ALPN)",
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
        // Every client from 1.2 on names the signatures that it knows.
        | P::SignatureAlgorithmsExtensionRequired
        | P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig => format!(
            "it speaks an older version of TLS than `min_version` allows{}",
            if role.is_client() { "" } else { ", or none that is spoken here" }
        ),
        P::NoCipherSuitesInCommon | P::NoKxGroupsInCommon | P::NoSignatureSchemesInCommon => {
            format!("both sides have no cipher in common ({why:?})")
        }
        why => format!("it does not speak TLS as it is spoken here: {why:?}"),
    }
}

/// The time from one to the other, in its largest unit.
fn between(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) =
        units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "second"));
    let count = seconds / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
