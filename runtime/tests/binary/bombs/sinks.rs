//! Tests of sinks with hostile peers.

use super::{
    INPUT,
    clients::{Child, WRITTEN},
    compressed,
    row::{self, Target},
    sample,
    server::{Behaviour, Form, Greet, Server},
};

const HTTP: &str = "type: http_client, codec: json, retry: { backoff: 1ms, max_backoff: 1ms }, \
    config: { url: 'http://ADDRESS/', timeout: 1s }";

#[test]
fn http_client_as_sink_stays_within_bounds() {
    let answer = |status: &str, headers: &str, body: &[u8]| {
        [format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes(), body].concat()
    };
    let gzip = compressed("gzip", &b"x".repeat(1 << 20), 512, b"");
    let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", gzip.len());
    let chunks = b"1\r\nx\r\n".repeat(160_000);
    let large = format!("A: {}", "x".repeat(INPUT - 100));
    let rows = [
        ("body without end", answer("200 OK", "", &vec![b'x'; INPUT - 100])),
        ("error without end", answer("503 E", "", &vec![b'x'; INPUT - 100])),
        ("gzip", answer("503 E", &length, &gzip)),
        ("chunks of a byte", answer("503 E", "Transfer-Encoding: chunked\r\n", &chunks)),
        ("large header", answer("200 OK", &large, b"")),
        ("many headers", answer("200 OK", &"a:\r\n".repeat(240_000), b"")),
        ("answers without end", b"HTTP/1.1 103 E\r\n\r\n".repeat(55_000)),
        ("no answer", Vec::new()),
        ("half an answer", answer("200 OK", "Content-Length: 1000\r\n", b"x")),
    ];
    let rows = rows.map(|(what, bomb)| (format!("http_client as a sink, {what}"), bomb));
    sample::run(rows, &[], 1, |name, bomb| {
        let greet: Greet = Some(|_| Vec::new());
        let behaviour = Behaviour { greet, tls: None, form: Form::Whole };
        let bytes = bomb.len();
        let good = |_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
        let server = Server::start(behaviour, bomb, good);
        let target = Target::sink(&HTTP.replace("ADDRESS", server.address()));
        row::survives(name, target, bytes, |_| Box::new(server));
    });
}

#[test]
fn exec_as_sink_stays_within_bounds() {
    let output = "type: exec, codec: json, postprocessors: [lines], \
        reconnect: { backoff: 1ms, max_backoff: 1ms }, retry: { backoff: 1ms, max_backoff: 1ms }, \
        config: { command: sh, args: [-c, '. ./script'], restart: always }";
    let rows = WRITTEN.map(|(what, bomb)| (format!("exec as a sink, {what}"), bomb));
    sample::run(rows, &[], 1, |name, bomb| {
        row::survives(name, Target::sink(output), INPUT, |asked| {
            Box::new(Child::start(asked.path(), bomb, "timeout 0.2 cat > /dev/null"))
        });
    });
}
