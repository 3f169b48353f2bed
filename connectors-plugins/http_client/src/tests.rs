//! The client at the end of real sockets, with a peer that does what a test says.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

use tremor_pdk::{
    Batch, Delivery, Error, ErrorKind, ErrorPolicy, EventRef, Pull, Undelivered,
    testing::{Connection, TestHost, batch_of, conformance},
};

use super::HttpClient;

/// What a peer does with a request.
#[derive(Clone)]
enum Reply {
    /// Answers, and goes on.
    With(String),
    /// Closes the connection without an answer, before the request or after it.
    Close,
    /// Closes the connection after this part of an answer.
    Part(&'static str),
}

fn ok() -> Reply {
    Reply::With("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned())
}

fn status(status: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::With(format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}"))
}

/// A peer, with the requests that it has had: the number of the connection, the head and the body.
struct Peer {
    address: String,
    requests: JoinHandle<Vec<(usize, String, Vec<u8>)>>,
}

/// A peer with these replies, after which it ends. Nobody connects to it twice at a time.
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
                    Reply::With(answer) => stream.write_all(answer.as_bytes()).unwrap(),
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

fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            return Some((head, body));
        }
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
}

fn client(host: &TestHost, address: &str, keys: &str) -> Connection {
    // What answers has all the time that it needs.
    host.hold_time();
    let config = format!(r#"{{ "url": "http://{address}/in?key=secret" {keys} }}"#);
    host.connect::<HttpClient>(&config).unwrap()
}

/// Why all of a batch was not delivered.
#[track_caller]
fn error(delivery: Delivery) -> Error {
    match delivery {
        Err(Undelivered::All(error)) => error,
        other => panic!("an error about all: {other:?}"),
    }
}

#[test]
fn each_event_is_the_body_of_a_request_and_all_go_through_one_connection() {
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
fn requests_come_with_a_token_or_with_a_header_of_another_name() {
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
fn a_delivery_is_one_body_that_may_be_compressed() {
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
fn what_the_peer_refuses_is_an_exception_and_after_what_it_cannot_do_now_none_is_sent() {
    let peer =
        peer(vec![ok(), status(422, "", "no `id`"), ok(), status(503, "Retry-After: 7\r\n", "")]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, "");
    let Err(Undelivered::Some { exceptions, .. }) =
        client.deliver(&batch_of(&["1", "2", "3", "4", "5"]))
    else {
        panic!("some were delivered");
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
    // The peer wants nothing before that: it is not asked.
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["4", "5"])) else {
        panic!("it was asked");
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
        panic!("it was delivered");
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
        panic!("the peer was asked");
    };
    let delay = exceptions[0].error.delay();
    assert!(delay.as_secs() <= 7, "{delay:?}");
}

#[test]
fn a_connection_that_the_peer_has_closed_meanwhile_is_replaced() {
    // The second connection takes a request and closes it without a word: it was used before.
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
fn an_answer_that_breaks_off_is_tried_again_by_the_flow() {
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
        assert!(error.to_string().contains("before the end of the answer"), "{error}");
        assert_eq!(peer.requests.join().unwrap().len(), 2, "{part}");
    }
}

#[test]
fn a_new_connection_that_breaks_is_an_error() {
    let peer = peer(vec![Reply::Close]);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "format": "ndjson""#);
    let error = error(client.deliver(&batch_of(&["1"])));
    assert_eq!(error.policy(), ErrorPolicy::RETRY, "{error}");
    assert_eq!(peer.requests.join().unwrap().len(), 1);
}

#[test]
fn a_peer_that_does_not_answer_in_time_or_is_not_there_is_tried_again() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = TestHost::new();
    let config =
        format!(r#"{{ "url": "http://{}", "timeout": "3s" }}"#, silent.local_addr().unwrap());
    // Time passes whenever there is nothing to do.
    let mut client = host.connect::<HttpClient>(&config).unwrap();
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("late")
    };
    let error = &exceptions[0].error;
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    assert!(error.to_string().contains("not answered within 3s"), "{error}");
    drop(silent);
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch_of(&["1"])) else {
        panic!("gone")
    };
    let error = &exceptions[0].error;
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    assert!(error.to_string().contains("cannot connect to"), "{error}");
}

#[test]
fn a_source_asks_at_its_interval_and_takes_what_has_changed() {
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
    // The request took some real time.
    let Pull::Idle(left) = client.pull().unwrap().0 else { panic!("it was asked just now") };
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
fn a_response_that_is_too_long_is_no_event() {
    let peer = peer(vec![status(200, "", "0123456789x"), status(200, "", "0123456789")]);
    let host = TestHost::new();
    let keys = r#", "interval": "30s", "max_response_bytes": 10"#;
    let mut client = client(&host, &peer.address, keys);
    let error = client.pull().unwrap_err();
    assert!(error.to_string().contains("10 bytes (`max_response_bytes`)"), "{error}");
    host.advance(std::time::Duration::from_secs(30));
    assert_eq!(client.pull().unwrap().1.first().and_then(EventRef::raw), Some(&b"0123456789"[..]));
    peer.requests.join().unwrap();
}

#[test]
fn what_it_cannot_be_configured_with_is_said_and_shows_no_secret() {
    for (config, part) in [
        (r#"{ "url": "http://u:secret@a/" }"#, "`auth`"),
        (r#"{ "url": "http://a", "method": "post" }"#, "found `post`"),
        (r#"{ "url": "http://a", "headers": { "content-length": "1" } }"#, "does not set itself"),
        (r#"{ "url": "http://a", "headers": { "x": "secret\n" } }"#, "`headers.x`"),
        (r#"{ "url": "http://a", "auth": { "bearer": "secret\n" } }"#, "`auth.bearer`"),
        (r#"{ "url": "http://a", "max_response_bytes": "2GiB" }"#, "at most"),
        (r#"{ "url": "http://a", "tls": {} }"#, "write `https`"),
    ] {
        let error = TestHost::new().component::<HttpClient>(config).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_request_of_opentelemetry_goes_to_its_path_and_what_is_partly_rejected_is_a_dead_letter() {
    let of_otlp = |status_code: u16, body: &str| {
        status(status_code, "Content-Type: application/json\r\n", body)
    };
    let partial = r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
    let peer =
        peer(vec![of_otlp(200, "{}"), of_otlp(200, partial), of_otlp(500, ""), of_otlp(503, "")]);
    let test = TestHost::new();
    let keys = r#""preset": { "otlp": "logs" }"#;
    test.hold_time();
    let config = format!(r#"{{ "url": "http://{}", {keys} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut refused = || client.deliver(&batch_of(&["1"])).map_err(Undelivered::into_error).err();
    assert_eq!(refused(), None);
    let error = refused().unwrap();
    assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
    assert!(error.message().contains("but for 3 of its parts: too old"), "{error}");
    for policy in [ErrorPolicy::DEAD_LETTER, ErrorPolicy::RETRY] {
        assert_eq!(refused().unwrap().policy(), policy);
    }
    for (_, head, _) in peer.requests.join().unwrap() {
        assert!(head.starts_with("POST /v1/logs HTTP/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    }
}

#[test]
fn requests_of_any_signal_go_to_their_own_paths_and_what_does_not_say_its_signal_is_a_dead_letter()
{
    let peer = peer(vec![ok(); 4]);
    let test = TestHost::new();
    test.hold_time();
    let config =
        format!(r#"{{ "url": "http://{}/in?k=1", "preset": {{ "otlp": "any" }} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut messages = Batch::new();
    for message in [
        &b"\xc0\x3e\x01logs"[..],
        b"\xc0\x3e\x02metrics",
        b"\xc0\x3e\x03traces",
        b"\x0a\x00",
        br#" { "resourceSpans":[]}"#,
        br#"{"resource":{}}"#,
        b"\xc0\x3e\x04",
    ] {
        messages.push_message(message);
    }
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&messages) else {
        panic!("some")
    };
    let letters: Vec<_> =
        exceptions.iter().map(|it| (it.events.clone(), it.error.policy())).collect();
    assert_eq!(letters, [3..4, 5..7].map(|events| (events, ErrorPolicy::DEAD_LETTER)));
    assert!(exceptions[0].error.message().contains("does not say which signal"), "{exceptions:?}");
    let found = peer.requests.join().unwrap();
    let found: Vec<_> =
        found.iter().map(|(_, head, body)| (head.lines().next().unwrap(), &body[..])).collect();
    assert_eq!(
        found,
        [
            ("POST /in/v1/logs?k=1 HTTP/1.1", &b"logs"[..]),
            ("POST /in/v1/metrics?k=1 HTTP/1.1", b"metrics"),
            ("POST /in/v1/traces?k=1 HTTP/1.1", b"traces"),
            ("POST /in/v1/traces?k=1 HTTP/1.1", br#" { "resourceSpans":[]}"#),
        ]
    );
}

#[test]
fn a_message_of_one_signal_is_not_sent_where_another_is_expected() {
    let peer = peer(vec![ok()]);
    let test = TestHost::new();
    test.hold_time();
    let config =
        format!(r#"{{ "url": "http://{}", "preset": {{ "otlp": "logs" }} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut messages = Batch::new();
    messages.push_message(b"\xc0\x3e\x02metrics");
    messages.push_message(b"\xc0\x3e\x01logs");
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&messages) else {
        panic!("some")
    };
    assert_eq!((exceptions.len(), &exceptions[0].events), (1, &(0..1)));
    assert!(exceptions[0].error.message().contains("is for `/v1/metrics`"), "{exceptions:?}");
    let [(_, head, body)] = &peer.requests.join().unwrap()[..] else { panic!("one request") };
    assert!(head.starts_with("POST /v1/logs "), "{head}");
    assert_eq!(body, b"logs");
}

/// A server that answers every request with `answer`, on as many connections as there are. Returns its address.
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
fn real_server_lets_the_client_pass_all_checks() {
    let address = server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevent");
    let config = format!(r#"{{ "url": "http://{address}", "interval": "10s" }}"#);
    conformance::connector::<HttpClient>(&config).expect_all_but(&[
        "stays_inside",
        "leaves_nothing",
        "stays_finished",
        "hears_acknowledgements",
        "flushes",
        "reads_again",
    ]);
}

#[test]
fn it_keeps_the_contract_of_plugins() {
    // Nobody is there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for keys in ["", r#", "format": "ndjson""#, r#", "interval": "10s""#] {
        let config = format!(r#"{{ "url": "http://{free}" {keys} }}"#);
        conformance::connector::<HttpClient>(&config).expect_no_faults();
    }
}
