//! Errors of async-nats, as those of the plugin.

use std::{error::Error as StdError, io};

use async_nats::{ConnectError, ConnectErrorKind, jetstream};
use tremor_pdk::prelude::*;

use super::Peer;

/// Why a connection was not made.
pub(crate) fn refused_connection(error: &ConnectError, peer: &Peer) -> Error {
    let said = root(error);
    let servers = peer.servers();
    let lower = said.to_ascii_lowercase();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => refused_identity(peer),
        ConnectErrorKind::Authentication => Error::authentication(format_args!(
            "{} cannot answer the server's challenge: expected the seed of a user's nkey, `SU…`",
            peer.identity()
        )),
        _ if ["authorization", "authentication"].iter().any(|it| lower.contains(it)) => {
            refused_identity(peer)
        }
        ConnectErrorKind::Tls => {
            Error::authentication(format_args!("TLS with `{servers}` fails: {said}; see `tls`"))
        }
        ConnectErrorKind::Io if is_tls(error) => {
            Error::authentication(format_args!("TLS with `{servers}` fails: {said}; see `tls`"))
        }
        ConnectErrorKind::ServerParse => {
            Error::configuration(format_args!("`servers`: `{servers}`: {said}"))
        }
        _ => Error::connection_refused(format_args!("no server of `{servers}` answers: {said}")),
    }
}

fn refused_identity(peer: &Peer) -> Error {
    Error::authentication(format_args!(
        "the server does not accept this client: authorization violation; see {}",
        peer.identity()
    ))
}

/// Whether the bytes that came were not what TLS expects, a certificate included.
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

/// The last cause, which says the most.
fn root(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// What an answer of JetStream's own asks for: what is refused as it is, is refused again; the rest passes.
pub(crate) fn explain_api(error: &jetstream::Error, doing: &str) -> Error {
    // Status codes as those of HTTP.
    if (400..500).contains(&error.code()) && error.code() != 408 {
        Error::configuration(format_args!("{doing}: the server refuses that: {error}"))
    } else {
        Error::connection_refused(format_args!("{doing}: the server cannot do that now: {error}"))
    }
}
