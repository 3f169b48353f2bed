//! Metrics of the connector.

use hyper::StatusCode;
use tremor_pdk::{Counter, Gauge, Host};

/// Statuses of responses.
const STATUSES: [StatusCode; 14] = [
    StatusCode::OK,
    StatusCode::ACCEPTED,
    StatusCode::NO_CONTENT,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

pub(crate) struct Counts {
    pub(crate) open: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) idle: Counter,
    pub(crate) broken: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) handshakes_failed: Counter,
    requests: [Counter; STATUSES.len()],
}

impl Counts {
    pub(crate) fn new(host: &Host) -> Self {
        let requests = |status: StatusCode| {
            let name = format!("requests_{}", status.as_u16());
            host.counter(&name, &format!("Requests that were answered with {status}."))
        };
        Self {
            open: host.gauge("connections", "Connections that are open."),
            accepted: host.counter("connections_accepted", "Connections that were accepted."),
            idle: host.counter("connections_idle", "Connections closed because they were idle."),
            broken: host
                .counter("connections_aborted", "Connections that broke or did not use HTTP."),
            accept_errors: host
                .counter("accept_errors", "Attempts to accept a connection that failed."),
            handshakes_failed: host
                .counter("handshakes_failed", "Connections whose TLS handshake failed."),
            requests: STATUSES.map(requests),
        }
    }

    /// Counts a response.
    pub(crate) fn answered(&self, status: StatusCode) {
        if let Some(index) = STATUSES.iter().position(|it| *it == status) {
            self.requests[index].add(1);
        }
    }
}
