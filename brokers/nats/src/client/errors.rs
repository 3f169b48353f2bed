//! Conversion of async-nats errors to errors of the plugin.

use std::{error::Error as StdError, io};

use async_nats::{ConnectError, ConnectErrorKind, jetstream};
use tremor_pdk::prelude::*;

use super::Peer;

/// Converts the error of a failed connection attempt.
pub(crate) fn refused_connection(error: &ConnectError, peer: &Peer) -> Error {
    let cause = root(error);
    let servers = peer.servers();
    let lower = cause.to_ascii_lowercase();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => refused_identity(peer),
        ConnectErrorKind::Authentication => Error::authentication(format_args!(
            "cannot answer the server's challenge with {}: expected the seed of a user's nkey, `SU…`",
            peer.identity()
        )),
        _ if ["authorization", "authentication"].iter().any(|it| lower.contains(it)) => {
            refused_identity(peer)
        }
        ConnectErrorKind::Tls => Error::authentication(format_args!(
            "cannot establish TLS with `{servers}`: {cause}; check `tls`"
        )),
        ConnectErrorKind::Io if is_tls(error) => Error::authentication(format_args!(
            "cannot establish TLS with `{servers}`: {cause}; check `tls`"
        )),
        ConnectErrorKind::ServerParse => {
            Error::configuration(format_args!("invalid `servers`, `{servers}`: {cause}"))
        }
        _ => Error::connection_refused(format_args!(
            "cannot reach any server of `{servers}`: {cause}"
        )),
    }
}

fn refused_identity(peer: &Peer) -> Error {
    Error::authentication(format_args!(
        "cannot authenticate to the server: authorization violation; check {}",
        peer.identity()
    ))
}

/// Returns whether the TLS handshake failed because of data that the server sent, for example its certificate.
fn is_tls(error: &ConnectError) -> bool {
    let mut cause = error.source();
    while let Some(it) = cause {
        if it.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::InvalidData)
        {
            return true;
        }
        cause = it.source();
    }
    false
}

/// Returns the text of the innermost cause, which is the most specific.
fn root(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// Converts an error of the JetStream API about `object`. The error is final if the same request would fail again.
pub(crate) fn explain_api(error: &jetstream::Error, object: &str) -> Error {
    // The status codes are those of HTTP; 408 is a timeout.
    if (400..500).contains(&error.code()) && error.code() != 408 {
        Error::configuration(format_args!(
            "cannot use {object}: the server rejected the request: {error}"
        ))
    } else {
        Error::connection_refused(format_args!(
            "cannot use {object}: the request failed temporarily: {error}"
        ))
    }
}
