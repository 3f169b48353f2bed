//! Tests of the server over real sockets.

mod hostile;
mod otlp;
mod undecodable;
mod waiting;

use std::{
    future::poll_fn,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use tremor_pdk::{
    Batch, Connector, Descriptors, EventRef, Result,
    net::{
        Address, connect,
        futures_io::{AsyncRead, AsyncWrite},
        tls::{Tls, TlsConnector},
    },
    testing::{Connection, TestHost, certificates::Authority, conformance},
};

use super::HttpServer;

/// A running server, whose clock follows real time, and jumps only when a test advances it.
pub(crate) struct Scene {
    pub(crate) host: TestHost,
    pub(crate) server: Connection,
    address: String,
}

impl Scene {
    fn new(keys: &str) -> Self {
        Self::of::<HttpServer>(keys)
    }

    /// Starts a connector of the type `C` with these keys in addition to its address.
    pub(crate) fn of<C: Connector>(keys: &str) -> Self {
        let host = TestHost::new();
        host.follow_real_time();
        let config = format!(r#"{{ "listen": "127.0.0.1:0" {keys} }}"#);
        let server = host.connect::<C>(&config).unwrap();
        let (_, line) = host.log().last().cloned().unwrap();
        let address = line.trim_start_matches("listens on ").to_owned();
        Self { host, server, address }
    }

    /// Opens a connection and sends `bytes`.
    pub(crate) fn client(&self, bytes: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(&self.address).unwrap();
        client.write_all(bytes).unwrap();
        client
    }

    /// Lets the tasks of the server run until a thread of the test has ended.
    fn join<T>(&self, thread: JoinHandle<T>) -> T {
        self.run_until(|| thread.is_finished());
        thread.join().unwrap()
    }

    pub(crate) fn run_until(&self, condition: impl Fn() -> bool) {
        let waits = poll_fn(|_| if condition() { Poll::Ready(()) } else { Poll::Pending });
        self.host.block_on(waits);
    }

    /// Advances the time by `seconds`, and lets the tasks run in each second.
    pub(crate) fn pass(&self, seconds: usize) {
        for _ in 0..seconds {
            self.host.advance(Duration::from_secs(1));
            let mut polls = 0;
            let step = poll_fn(|_| {
                polls += 1;
                if polls > 2 { Poll::Ready(()) } else { Poll::Pending }
            });
            self.host.block_on(step);
        }
    }

    /// Returns everything that the server sends until it closes the connection.
    pub(crate) fn rest(&self, client: TcpStream) -> String {
        self.join(thread::spawn(move || read_all(client)))
    }

    /// Returns the response to one request on a connection that stays open.
    pub(crate) fn answer(&self, client: &TcpStream) -> String {
        let client = client.try_clone().unwrap();
        self.join(thread::spawn(move || read_answer(client)))
    }

    pub(crate) fn pull(&mut self) -> Batch {
        self.server.pull().unwrap().1
    }

    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        self.host.metric(name)
    }
}

fn read_all(mut client: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the connection as well.
    let _ = client.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads a response with its body, whose length is in the head.
fn read_answer(mut client: TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text.into_owned();
            }
        }
        let mut byte = [0];
        match client.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

fn post(body: &str) -> Vec<u8> {
    request("POST / HTTP/1.1", "", body.as_bytes())
}

pub(crate) fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{line}\r\nHost: a\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn bodies(batch: &Batch) -> Vec<&[u8]> {
    batch.iter().filter_map(EventRef::raw).collect()
}

#[track_caller]
pub(crate) fn expect(answer: &str, status: u16, parts: &[&str]) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    for part in parts {
        assert!(answer.contains(part), "`{part}` is not in: {answer}");
    }
}

/// The runtime cancels the pull when it starts to drain, and closes the source once all events are
/// acknowledged.
#[test]
fn request_that_waits_while_flow_drains_gets_503() {
    let mut scene = Scene::new(r#", "max_wait": "8s""#);
    scene.server.pull_and_give_up().unwrap();
    let client = scene.client(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    scene.pass(11);
    let answer = scene.answer(&client);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn accepted_request_keeps_its_connection() {
    let mut scene = Scene::new("");
    let mut client = scene.client(&post("one"));
    let name = client.local_addr().unwrap().to_string();
    let batch = scene.pull();
    assert_eq!(bodies(&batch), [b"one"]);
    assert_eq!(batch.first().unwrap().origin(), Some(&*name));
    let metadata = batch.first().unwrap().metadata().unwrap().to_string();
    let (address, port) = name.split_once(':').unwrap();
    let expected = format!(
        r#"{{"peer":{{"address":"{address}","port":{port}}},"http":{{"method":"POST","path":"/"}}}}"#
    );
    assert_eq!(metadata, expected);
    expect(&scene.answer(&client), 202, &["content-length: 0"]);
    client.write_all(&request("PUT /x HTTP/1.1", "", b"two")).unwrap();
    let second = scene.pull();
    assert_eq!(bodies(&second), [b"two"]);
    assert_eq!(second.first().unwrap().stream(), batch.first().unwrap().stream());
    expect(&scene.answer(&client), 202, &[]);
    assert_eq!((scene.metric("requests_202"), scene.metric("connections")), (Some(2.0), Some(1.0)));
}

#[test]
fn request_gets_result_of_its_own_events() {
    let mut scene = Scene::new(r#", "respond": "delivered""#);
    let clients: Vec<_> = (0..3).map(|number| scene.client(&post(&number.to_string()))).collect();
    let mut batch = scene.pull();
    let mut pulls = vec![(1, batch.len())];
    while pulls.iter().map(|(_, events)| events).sum::<usize>() < 3 {
        let more = scene.pull();
        pulls.push((pulls.len() as u64 + 1, more.len()));
        batch.append(more);
    }
    // Fail the request `1`, whose position in the batch is not fixed.
    let failed = bodies(&batch).iter().position(|body| *body == b"1").unwrap();
    let mut first = 0;
    for (pull, events) in pulls {
        let of_pull = first..first + events;
        if of_pull.contains(&failed) {
            let position = failed - first;
            scene
                .server
                .acks()
                .unwrap()
                .fail(pull, std::slice::from_ref(&(position..position + 1)))
                .unwrap();
        } else {
            scene.server.acks().unwrap().ack(pull).unwrap();
        }
        first += events;
    }
    for (number, client) in clients.iter().enumerate() {
        let status = if number == 1 { 500 } else { 200 };
        expect(&scene.answer(client), status, &[]);
    }
}

#[test]
fn unacceptable_request_gets_matching_status() {
    let keys = r#", "path": "/logs", "auth": { "bearer": "a-token" }, "max_body_bytes": 10"#;
    let scene = Scene::new(keys);
    let auth = "Authorization: Bearer a-token\r\n";
    let sent = |line: &str, headers: &str, body: &[u8]| {
        scene.rest(scene.client(&request(line, &format!("Connection: close\r\n{headers}"), body)))
    };
    let post = "POST /logs HTTP/1.1";
    expect(&sent(post, "", b"x"), 401, &["www-authenticate: Bearer", "Authorization"]);
    expect(&sent(post, "Authorization: Bearer b-token\r\n", b"x"), 401, &[]);
    expect(&sent("POST / HTTP/1.1", auth, b"x"), 404, &["nothing at this path"]);
    expect(&sent("GET /logs HTTP/1.1", auth, b""), 405, &["allow: POST, PUT"]);
    expect(&sent(post, auth, b"eleven byte"), 413, &["10 bytes (`max_body_bytes`)"]);
    let brotli = format!("{auth}Content-Encoding: br\r\n");
    expect(&sent(post, &brotli, b"x"), 415, &["accept-encoding: gzip, deflate, zstd"]);
    let chunked = format!("{post}\r\nHost: a\r\n{auth}Transfer-Encoding: chunked\r\n\r\n");
    let chunked =
        scene.client(format!("{chunked}6\r\neleven\r\n5\r\n byte\r\n0\r\n\r\n").as_bytes());
    expect(&scene.rest(chunked), 413, &[]);
    let hostless = format!("{post}\r\n{auth}Connection: close\r\nContent-Length: 1\r\n\r\nx");
    expect(&scene.rest(scene.client(hostless.as_bytes())), 400, &["one header `Host`"]);
    for status in [401, 404, 405, 413, 415, 400] {
        assert!(scene.metric(&format!("requests_{status}")) > Some(0.0), "{status}");
    }
    assert!(scene.metric("requests_202") == Some(0.0));
}

#[test]
fn client_that_expects_continue_gets_it_or_a_response() {
    let mut scene = Scene::new(r#", "max_body_bytes": 10"#);
    let expects = "Expect: 100-continue\r\nConnection: close\r\n";
    let whole = request("POST / HTTP/1.1", expects, b"0123456789");
    let (head, body) = whole.split_at(whole.len() - 10);
    let mut client = scene.client(head);
    expect(&scene.answer(&client), 100, &[]);
    client.write_all(body).unwrap();
    assert_eq!(bodies(&scene.pull()), [b"0123456789"]);
    expect(&scene.rest(client), 202, &[]);
    let whole = request("POST / HTTP/1.1", expects, b"0123456789x");
    let client = scene.client(&whole[..whole.len() - 11]);
    expect(&scene.rest(client), 413, &[]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_bodies_are_decompressed_up_to_their_limit() {
    let mut scene = Scene::new(r#", "max_body_bytes": 100000"#);
    let text = b"a line of a log\n".repeat(5_000);
    let sent = |scene: &Scene, encoding: &str, body: &[u8]| {
        let headers = format!("Connection: close\r\nContent-Encoding: {encoding}\r\n");
        scene.client(&request("POST / HTTP/1.1", &headers, body))
    };
    let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
    let chunk = |bytes: &[u8]| {
        let length = format!("{:x}\r\n", bytes.len());
        [length.as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat()
    };
    for (encoding, body) in [
        ("gzip", gzip(&text)),
        ("ZSTD", zstd(&text)),
        ("identity", text.clone()),
        ("gzip, identity, zstd", zstd(&gzip(&text))),
        ("gzip\r\nContent-Encoding: x-gzip", gzip(&gzip(&text))),
        ("zstd\r\nTransfer-Encoding: gzip, chunked", chunk(&gzip(&zstd(&text)))),
    ] {
        let client = sent(&scene, encoding, &body);
        assert_eq!(bodies(&scene.pull()), [&text[..]], "{encoding}");
        expect(&scene.rest(client), 202, &[]);
    }
    // Bombs, truncated data and data of another format.
    let bomb = vec![0; 100_001];
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 5);
        bytes
    };
    for (encoding, body, status) in [
        ("gzip", gzip(&bomb), 413),
        ("zstd, gzip", gzip(&zstd(&bomb)), 413),
        ("zstd, gzip", gzip(&bomb), 413),
        ("zstd", zstd(&bomb), 413),
        ("gzip", cut(gzip(&text)), 400),
        ("zstd", cut(zstd(&text)), 400),
        ("gzip", b"plain text".to_vec(), 400),
        ("zstd", b"plain text".to_vec(), 400),
        ("gzip", [gzip(&text), b"more".to_vec()].concat(), 400),
        ("zstd, gzip", gzip(&text), 400),
    ] {
        let client = sent(&scene, encoding, &body);
        expect(&scene.rest(client), status, &[]);
    }
    for (encoding, status, name) in [
        ("br", 415, "`Content-Encoding` `br`"),
        ("gzip, Compress", 415, "`Content-Encoding` `Compress`"),
        ("gzip\r\nTransfer-Encoding: br, chunked", 501, "`Transfer-Encoding` `br`"),
    ] {
        let client = sent(&scene, encoding, &chunk(b"text"));
        expect(&scene.rest(client), status, &[name]);
    }
}

#[test]
fn metadata_contains_parts_of_the_request() {
    let mut scene = Scene::new(r#", "headers": ["X-Tenant", "x-missing"]"#);
    let _client = scene.client(&request("POST /a?b=c HTTP/1.1", "X-Tenant: seven\r\n", b"x"));
    let batch = scene.pull();
    let metadata = batch.first().unwrap().metadata().unwrap();
    let expected = r#"{"method":"POST","path":"/a","query":"b=c","headers":{"x-tenant":"seven"}}"#;
    assert_eq!(metadata.get("http").unwrap().to_string(), expected);
}

#[test]
fn slow_peer_gets_408_and_idle_connection_is_closed() {
    let times = r#", "header_timeout": "8s", "body_timeout": "8s", "idle_timeout": "20s""#;
    let mut scene = Scene::new(times);
    let body = scene.client(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf");
    let head = scene.client(b"POST / HTTP/1.1\r\nHost");
    let idle = scene.client(b"");
    scene.run_until(|| scene.metric("connections") == Some(3.0));
    // Add a second for a phase that started within a tick, and a second for each wait before.
    scene.pass(11);
    expect(&scene.rest(body), 408, &["`body_timeout`"]);
    expect(&scene.rest(head), 408, &[]);
    // A connection that has sent nothing has a longer limit, and is still open.
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    // After a request the connection is idle again.
    let mut idle = idle;
    idle.write_all(&post("x")).unwrap();
    scene.pull();
    expect(&scene.answer(&idle), 202, &[]);
    scene.pass(22);
    assert_eq!(scene.rest(idle), "");
    assert_eq!(
        (scene.metric("connections_idle"), scene.metric("requests_408")),
        (Some(1.0), Some(2.0))
    );
}

#[test]
fn request_whose_peer_is_gone_is_dropped() {
    let mut scene = Scene::new("");
    let gone = scene.client(&post("gone"));
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    gone.shutdown(Shutdown::Both).unwrap();
    scene.run_until(|| scene.metric("connections") == Some(0.0));
    let _client = scene.client(&post("here"));
    assert_eq!(bodies(&scene.pull()), [b"here"]);
}

#[test]
fn close_answers_requests_in_flow_and_rejects_others() {
    let mut scene = Scene::new(r#", "respond": "delivered""#);
    let taken = scene.client(&post("taken"));
    scene.pull();
    let idle = scene.client(b"");
    let waiting = scene.client(&post("waits"));
    scene.run_until(|| scene.metric("connections") == Some(3.0));
    scene.pass(1);
    scene.server.acks().unwrap().ack(1).unwrap();
    let clients = [taken, waiting, idle].map(|client| thread::spawn(move || read_all(client)));
    scene.server.stop().unwrap();
    let [taken, waiting, idle] = clients.map(|client| client.join().unwrap());
    expect(&taken, 200, &["connection: close"]);
    expect(&waiting, 503, &["connection: close", "retry-after: 5"]);
    assert_eq!(idle, "");
    assert!(TcpStream::connect(&scene.address).is_err(), "the listener is closed");
}

#[test]
fn connection_above_the_limit_waits() -> Result<()> {
    let mut scene = Scene::new(r#", "max_connections": 1"#);
    let close = |body| request("POST / HTTP/1.1", "Connection: close\r\n", body);
    let first = scene.client(&close(b"1"));
    let second = scene.client(&close(b"2"));
    for (client, body) in [(first, b"1"), (second, b"2")] {
        assert_eq!(bodies(&scene.pull()), [body]);
        assert_eq!(scene.metric("connections"), Some(1.0));
        expect(&scene.rest(client), 202, &[]);
    }
    scene.server.stop()
}

#[test]
fn tls_server_answers_and_rejects_plain_text() {
    let authority = Authority::new();
    let files = authority.issue(&["localhost"]).files();
    let (certificate, key) = (files.certificate(), files.key());
    let keys = format!(
        r#", "tls": {{ "cert_file": "{}", "key_file": "{}" }}"#,
        certificate.display(),
        key.display()
    );
    let mut scene = Scene::new(&keys);
    let plain = scene.client(&post("plain"));
    let answer = scene.rest(plain);
    assert!(!answer.contains("HTTP/"), "{answer}");
    assert_eq!(scene.metric("handshakes_failed"), Some(1.0));
    let (host, address) = (scene.host.host(), scene.address.parse::<Address>().unwrap());
    let tls = Tls {
        ca_file: Some(files.add("ca.pem", authority.pem())),
        server_name: Some("localhost".to_owned()),
        ..Tls::default()
    };
    let answer = Arc::new(Mutex::new(String::new()));
    let (answered, client_host) = (answer.clone(), host.clone());
    let _client = host.spawn("a client", async move {
        let connector = TlsConnector::new(&tls, &client_host, &address).unwrap();
        let descriptors = Descriptors::new(&client_host).unwrap();
        let stream = connect(&client_host, &descriptors, &address).await.unwrap();
        let mut stream = connector.connect(stream).await.unwrap();
        let request = request("POST / HTTP/1.1", "Connection: close\r\n", b"secret");
        let count = poll_fn(|context| Pin::new(&mut stream).poll_write(context, &request)).await;
        assert_eq!(count.unwrap(), request.len());
        poll_fn(|context| Pin::new(&mut stream).poll_flush(context)).await.unwrap();
        let mut bytes = [0; 1_000];
        let count = poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut bytes)).await;
        *answered.lock().unwrap() = String::from_utf8_lossy(&bytes[..count.unwrap()]).into_owned();
    });
    assert_eq!(bodies(&scene.pull()), [b"secret"]);
    scene.run_until(|| !answer.lock().unwrap().is_empty());
    expect(&answer.lock().unwrap(), 202, &["connection: close"]);
}

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    for (keys, part) in [
        (r#""path": "logs""#, "invalid `path` `logs`: expected a path that begins with `/`"),
        (r#""methods": []"#, "invalid `methods`: expected at least one method"),
        (r#""methods": ["post"]"#, "`methods` entry `post`"),
        (r#""headers": ["a b"]"#, "`headers` entry `a b`: expected the name of a header"),
        (r#""auth": { "bearer": "" }"#, "invalid `auth`: expected a `bearer`"),
        (r#""max_header_bytes": 100"#, "expected 8192 to"),
        (r#""max_waiting_bytes": "1MiB""#, "at least `max_body_bytes`"),
        (
            r#""preset": { "otlp": "any" }, "path": "/x""#,
            "invalid `path`: with `preset: { otlp: any }`",
        ),
    ] {
        let config = format!(r#"{{ "listen": "127.0.0.1:0", {keys} }}"#);
        let error = TestHost::new().component::<HttpServer>(&config).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn connector_passes_conformance_checks() {
    let config = r#"{ "listen": "127.0.0.1:0", "respond": "delivered" }"#;
    conformance::connector::<HttpServer>(config).expect_no_faults();
}
