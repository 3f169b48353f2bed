//! Tests of the client over real sockets, with a scripted peer.

mod codings;
mod otlp;
mod redirects;
mod statuses;
mod targets;
mod texts;

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread::{self, JoinHandle},
};

use tremor_pdk::{
    Batch, Delivery, Error, ErrorKind, ErrorPolicy, EventRef, Pull, Undelivered,
    testing::{Connection, TestHost, batch_of, conformance},
};

use super::HttpClient;
use crate::testing::read_request;

/// Reaction of the peer to a request.
#[derive(Clone)]
enum Reply {
    /// Responds and keeps the connection.
    With(Vec<u8>),
    /// Closes the connection without a response.
    Close,
    /// Closes the connection after a part of a response.
    Part(&'static str),
}

fn ok() -> Reply {
    status(200, "", "")
}

fn status(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    Reply::With([head.as_bytes(), body].concat())
}

/// A peer, and the requests that it received: for each, the number of the connection, the head and
/// the body.
struct Peer {
    address: String,
    requests: JoinHandle<Vec<(usize, String, Vec<u8>)>>,
}

/// Starts a peer that answers requests with `replies` in this order, one connection at a time, and
/// then ends.
fn peer(replies: Vec<Reply>) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = thread::spawn(move || {
        let mut requests = Vec::new();
        let mut replies = replies.into_iter().peekable();
        let mut connections = 0;
        while replies.peek().is_some() {
            let (mut stream, _) = listener.accept().unwrap();
            connections += 1;
            while let Some(reply) = replies.peek().cloned() {
                let Some((head, body)) = read_request(&mut stream) else { break };
                requests.push((connections, head, body));
                replies.next();
                match reply {
                    Reply::With(answer) => stream.write_all(&answer).unwrap(),
                    Reply::Close => break,
                    Reply::Part(answer) => {
                        stream.write_all(answer.as_bytes()).unwrap();
                        break;
                    }
                }
            }
        }
        requests
    });
    Peer { address, requests }
}

fn client(host: &TestHost, address: &str, keys: &str) -> Connection {
    // Let the clock follow real time. Otherwise it would jump to the next timer, and a timeout could expire before the
    // peer answers.
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{address}/in?key=secret" {keys} }}"#);
    host.connect::<HttpClient>(&config).unwrap()
}

/// Returns the error of a delivery of one event.
#[track_caller]
fn error(delivery: Delivery) -> Error {
    delivery.expect_err("the delivery must fail").into_error()
}

#[test]
fn each_event_is_a_request_on_the_same_connection() {
    let peer = peer(vec![ok(), ok(), ok()]);
    let host = TestHost::new();
    let keys =
        r#", "headers": { "x-a": "b" }, "auth": { "basic": { "user": "u", "password": "p" } }"#;
    let mut client = client(&host, &peer.address, keys);
    client.deliver(&batch_of(&["one", ""])).unwrap();
    client.deliver(&batch_of(&["two"])).unwrap();
    client.deliver(&Batch::new()).unwrap();
    client.stop().unwrap();
    let requests = peer.requests.join().unwrap();
    let bodies: Vec<_> = requests.iter().map(|(_, _, body)| &body[..]).collect();
    assert_eq!(bodies, [&b"one"[..], b"", b"two"]);
    for (_, head, body) in &requests {
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    }
    assert!(requests.iter().all(|(connection, ..)| *connection == 1));
    let head = &requests[0].1;
    assert!(head.starts_with("POST /in?key=secret HTTP/1.1\r\n"), "{head}");
    for part in [
        &*format!("host: {}", peer.address),
        "x-a: b",
        "authorization: Basic dTpw",
        "content-type: application/octet-stream",
        "user-agent: tremor/",
    ] {
        assert!(head.contains(part), "`{part}` is not in: {head}");
    }
}

#[test]
fn requests_have_configured_credentials() {
    for (auth, expected) in [
        (r#"{ "bearer": "a-token" }"#, "authorization: Bearer a-token"),
        (r#"{ "header": { "name": "X-Api-Key", "value": "a key" } }"#, "x-api-key: a key"),
    ] {
        let peer = peer(vec![ok()]);
        let host = TestHost::new();
        let mut client = client(&host, &peer.address, &format!(r#", "auth": {auth}"#));
        client.deliver(&batch_of(&["one"])).unwrap();
        let (_, head, _) = peer.requests.join().unwrap().remove(0);
        assert!(head.lines().any(|line| line == expected), "{head}");
    }
}

#[test]
fn empty_body_has_a_length_if_the_method_has_content() {
    for (method, has_length) in
        [("POST", true), ("PUT", true), ("PATCH", true), ("GET", false), ("DELETE", false)]
    {
        let peer = peer(vec![ok(), ok()]);
        let host = TestHost::new();
        let keys = format!(r#", "interval": "30s", "method": "{method}""#);
        let mut client = client(&host, &peer.address, &keys);
        client.deliver(&batch_of(&[""])).unwrap();
        client.pull().unwrap();
        for (_, head, _) in peer.requests.join().unwrap() {
            assert!(head.starts_with(method), "{head}");
            assert_eq!(
                head.matches("content-length: 0").count(),
                usize::from(has_length),
                "{head}"
            );
            assert!(!head.contains("transfer-encoding"), "{head}");
        }
    }
}

#[test]
fn delivery_is_one_body_that_may_be_compressed() {
    for (keys, encoding, kind, expected) in [
        (
            r#", "format": "ndjson", "compression": "gzip""#,
            "gzip",
            "application/x-ndjson",
            "1\n2\n",
        ),
        (r#", "format": "array", "compression": "zstd""#, "zstd", "application/json", "[1,2]"),
        (r#", "format": "ndjson", "content_type": "text/plain""#, "", "text/plain", "1\n2\n"),
    ] {
        let peer = peer(vec![ok()]);
        let host = TestHost::new();
        let mut client = client(&host, &peer.address, keys);
        client.deliver(&batch_of(&["1", "2"])).unwrap();
        let (_, head, body) = peer.requests.join().unwrap().remove(0);
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        let body = match encoding {
            "gzip" => {
                let mut text = Vec::new();
                flate2::read::GzDecoder::new(&*body).read_to_end(&mut text).unwrap();
                text
            }
            "zstd" => zstd::stream::decode_all(&*body).unwrap(),
            _ => body,
        };
        assert_eq!(head.contains("content-encoding"), !encoding.is_empty());
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
}

#[test]
fn rejected_event_is_an_exception_and_busy_peer_stops_delivery() {
    let peer =
        peer(vec![ok(), status(422, "", "no `id`"), ok(), status(503, "Retry-After: 7\r\n", "")]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, "");
    let Err(Undelivered::Some { exceptions, .. }) =
        client.deliver(&batch_of(&["1", "2", "3", "4", "5"]))
    else {
        panic!("expected a delivery with exceptions");
    };
    let [refused, later] = &exceptions[..] else { panic!("{exceptions:?}") };
    assert_eq!((refused.events.clone(), later.events.clone()), (1..2, 3..5));
    assert_eq!(refused.error.policy(), ErrorPolicy::DEAD_LETTER);
    let text = refused.error.to_string();
    assert!(text.contains("422 Unprocessable") && text.ends_with(": no `id`"), "{text}");
    assert_eq!(later.error.policy(), ErrorPolicy::RETRY);
    assert_eq!(later.error.delay().as_secs(), 7);
    assert!(!later.error.to_string().contains("secret"), "{}", later.error);
    assert_eq!(peer.requests.join().unwrap().len(), 4);
    // The peer has asked for a delay, so no request is sent before its end.
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["4", "5"])) else {
        panic!("a request was sent");
    };
    let error = &exceptions[0].error;
    assert!(error.delay().as_millis() > 6_900 && error.policy() == ErrorPolicy::RETRY, "{error}");
    assert_eq!(error.kind(), ErrorKind::DEFERRED, "the flow counts no attempt");
}

#[test]
fn answer_that_echoes_request_shows_no_secret() {
    let echo = "/in?key=secret authorization: Bearer hidden";
    let peer = peer(vec![status(422, "", echo)]);
    let keys = r#", "auth": { "bearer": "hidden" }"#;
    let mut client = client(&TestHost::new(), &peer.address, keys);
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("the request was delivered");
    };
    let text = exceptions[0].error.to_string();
    assert!(text.contains("[redacted]"), "{text}");
    assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
}

#[test]
fn wall_clock_set_back_does_not_prolong_retry_after() {
    let peer = peer(vec![status(503, "Retry-After: 7\r\n", "")]);
    let (host, hour_ns) = (TestHost::new(), 3_600_000_000_000);
    host.set_now_ns(500_000 * hour_ns);
    let mut client = client(&host, &peer.address, "");
    client.deliver(&batch_of(&["1"])).unwrap_err();
    host.set_now_ns(host.now_ns() - hour_ns);
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("expected a failed delivery without a request");
    };
    let delay = exceptions[0].error.delay();
    assert!(delay.as_secs() <= 7, "{delay:?}");
}

#[test]
fn closed_idle_connection_is_replaced() {
    // The peer closes the first connection when it receives the second request, without a response.
    let peer = peer(vec![ok(), Reply::Close, ok()]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "format": "ndjson""#);
    client.deliver(&batch_of(&["1"])).unwrap();
    client.deliver(&batch_of(&["2"])).unwrap();
    let requests = peer.requests.join().unwrap();
    let seen: Vec<_> = requests.iter().map(|(number, _, body)| (*number, &body[..])).collect();
    assert_eq!(seen, [(1, &b"1\n"[..]), (1, b"2\n"), (2, b"2\n")]);
}

#[test]
fn incomplete_response_is_retried_by_the_flow() {
    for part in [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "SSH-2.0\r\n\r\n",
    ] {
        let peer = peer(vec![ok(), Reply::Part(part)]);
        let host = TestHost::new();
        let mut client = client(&host, &peer.address, r#", "format": "ndjson""#);
        client.deliver(&batch_of(&["1"])).unwrap();
        let error = error(client.deliver(&batch_of(&["2"])));
        assert_eq!(error.policy(), ErrorPolicy::RETRY, "{error}");
        assert!(error.to_string().contains("before the end of its response"), "{error}");
        assert_eq!(peer.requests.join().unwrap().len(), 2, "{part}");
    }
}

#[test]
fn new_connection_that_breaks_is_an_error() {
    let peer = peer(vec![Reply::Close]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "format": "ndjson""#);
    let error = error(client.deliver(&batch_of(&["1"])));
    assert_eq!(error.policy(), ErrorPolicy::RETRY, "{error}");
    assert_eq!(peer.requests.join().unwrap().len(), 1);
}

#[test]
fn silent_or_absent_peer_is_retried() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = TestHost::new();
    let config =
        format!(r#"{{ "url": "http://{}", "timeout": "3s" }}"#, silent.local_addr().unwrap());
    // This host does not follow real time: after one second without an answer, its clock jumps to the timeout.
    let mut client = host.connect::<HttpClient>(&config).unwrap();
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("expected a timeout")
    };
    let error = &exceptions[0].error;
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    assert!(error.to_string().contains("did not answer within 3s"), "{error}");
    drop(silent);
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("expected a refused connection")
    };
    let error = &exceptions[0].error;
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    assert!(error.to_string().contains("cannot connect to"), "{error}");
}

#[test]
fn source_polls_at_interval_and_returns_changed_responses() {
    let peer = peer(vec![
        status(200, "ETag: \"v1\"\r\n", "one"),
        status(304, "", ""),
        status(500, "", ""),
        status(404, "", "gone"),
        status(200, "", "two"),
    ]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "interval": "30s""#);
    let interval = std::time::Duration::from_secs(30);
    let (_, batch) = client.pull().unwrap();
    assert_eq!(batch.first().and_then(EventRef::raw), Some(&b"one"[..]));
    let origin = batch.first().and_then(EventRef::origin).map(str::to_owned);
    assert_eq!(origin, Some(format!("http://{}/in", peer.address)));
    // The request took some real time, so less than the interval is left.
    let Pull::Idle(left) = client.pull().unwrap().0 else { panic!("expected an idle pull") };
    assert!(left <= interval && left > interval / 2, "{left:?}");
    host.advance(interval);
    let (unchanged, batch) = client.pull().unwrap();
    assert!(unchanged == Pull::Idle(interval) && batch.is_empty());
    host.advance(interval);
    assert_eq!(client.pull().unwrap_err().policy(), ErrorPolicy::RETRY);
    host.advance(interval);
    assert_eq!(client.pull().unwrap_err().policy(), ErrorPolicy::DEAD_LETTER);
    host.advance(interval);
    let (_, batch) = client.pull().unwrap();
    assert_eq!(batch.first().and_then(EventRef::raw), Some(&b"two"[..]));
    let requests = peer.requests.join().unwrap();
    let asked = |at: usize| requests[at].1.contains("if-none-match: \"v1\"");
    assert!(!asked(0) && asked(1));
    assert!(requests[0].1.starts_with("GET /in?key=secret HTTP/1.1\r\n"));
}

#[test]
fn too_long_response_is_an_error() {
    let peer = peer(vec![status(200, "", "0123456789x"), status(200, "", "0123456789")]);
    let host = TestHost::new();
    let keys = r#", "interval": "30s", "max_response_bytes": 10"#;
    let mut client = client(&host, &peer.address, keys);
    let error = client.pull().unwrap_err();
    assert!(error.to_string().contains("10 bytes; raise `max_response_bytes`"), "{error}");
    host.advance(std::time::Duration::from_secs(30));
    assert_eq!(client.pull().unwrap().1.first().and_then(EventRef::raw), Some(&b"0123456789"[..]));
    peer.requests.join().unwrap();
}

#[test]
fn invalid_configuration_is_rejected_without_secrets() {
    for (config, part) in [
        (r#"{ "url": "http://u:secret@a/" }"#, "`auth`"),
        (r#"{ "url": "http://a", "method": "post" }"#, "invalid `method` `post`"),
        (r#"{ "url": "http://a", "headers": { "content-length": "1" } }"#, "does not set itself"),
        (r#"{ "url": "http://a", "headers": { "x": "secret\n" } }"#, "`headers.x`"),
        (r#"{ "url": "http://a", "auth": { "bearer": "secret\n" } }"#, "`auth.bearer`"),
        (r#"{ "url": "http://a", "max_response_bytes": "2GiB" }"#, "at most"),
        (r#"{ "url": "http://a", "tls": {} }"#, "use a `url` with `https`"),
        (r#"{ "url": "http://a", "retry_statuses": [200] }"#, "invalid `retry_statuses` entry 200"),
        (r#"{ "url": "http://a", "fail_statuses": [600] }"#, "a status from 300 to 599"),
        (
            r#"{ "url": "http://a", "retry_statuses": [409, 500], "fail_statuses": [500] }"#,
            "invalid `fail_statuses` entry 500",
        ),
        (r#"{ "url": "http://a{b}/" }"#, "the host and the port cannot depend on events"),
        (r#"{ "url": "{b}" }"#, "the host and the port cannot depend on events"),
        (r#"{ "url": "http://u:secret@a/{b}" }"#, "`auth`"),
        (r#"{ "url": "http://a/../{b}" }"#, "no segment `.` or `..`"),
        (r#"{ "url": "http://a/{b?x=secret" }"#, "invalid `url`: invalid template"),
        (r#"{ "url": "http://a/{b}", "interval": "1s" }"#, "`url`: nothing replaces `{b}`"),
        (
            r#"{ "url": "http://a/{:+%F}", "interval": "1s" }"#,
            "invalid `url`: only requests of a sink",
        ),
        (
            r#"{ "url": "http://a/{b}", "preset": { "otlp": "logs" } }"#,
            "`url`: nothing replaces `{b}`",
        ),
        (
            r#"{ "url": "http://a", "headers": { "X-A": "{:+%F}" }, "interval": "1s" }"#,
            "invalid `headers.X-A`: only requests of a sink",
        ),
        (
            r#"{ "url": "http://a", "headers": { "x": "secret{" } }"#,
            "invalid `headers.x`: invalid template",
        ),
        (r#"{ "url": "http://a", "headers": { "Host": "{b}" } }"#, "`headers.host`: the host of"),
        (
            r#"{ "url": "http://a", "headers": { "x": "{b}" }, "auth": { "header": { "name": "X", "value": "secret" } } }"#,
            "`auth` sets this header",
        ),
        (r#"{ "url": "http://a", "body": { "separator": "," } }"#, "`format: joined`"),
        (r#"{ "url": "http://a", "body": {}, "preset": { "otlp": "logs" } }"#, "invalid `body`"),
        (r#"{ "url": "http://a", "body": { "prefix": "{" } }"#, "`body.prefix`"),
    ] {
        let error = TestHost::new().component::<HttpClient>(config).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}

/// Starts a server that answers every request with `answer`, on any number of connections. Returns
/// its address.
fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                while read_request(&mut stream).is_some()
                    && stream.write_all(answer.as_bytes()).is_ok()
                {}
            });
        }
    });
    address
}

#[test]
fn client_of_a_real_server_passes_all_checks() {
    let address = server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevent");
    let config = format!(r#"{{ "url": "http://{address}", "interval": "10s" }}"#);
    conformance::connector::<HttpClient>(&config).expect_all_but(&[
        "stays_inside",
        "leaves_nothing",
        "stays_finished",
        "accepts_acknowledgements",
        "flushes",
        "reads_again",
    ]);
}

#[test]
fn connector_passes_conformance_checks() {
    for keys in ["", r#", "format": "ndjson""#, r#", "interval": "10s""#] {
        let config = format!(r#"{{ "url": "http://127.0.0.1:1" {keys} }}"#);
        conformance::connector::<HttpClient>(&config).expect_no_faults();
    }
}
