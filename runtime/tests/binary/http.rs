//! Tests of the HTTP connectors with real sockets, against each other and with `curl`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use hostile_peers::{
    PATIENCE,
    acceptor::accept_within,
    http::{Server, read_head},
};

use crate::{
    api,
    network::{are_the_logs, example},
    peer::free_address,
    running::Running,
    tremor::Scene,
};

#[test]
fn http_example_delivers_every_event_once_in_order() {
    let free = free_address();
    let received = example("http.yaml", &free, &["logs.json"]);
    are_the_logs(&received);
}

/// Starts a flow with a server, and returns the server's address.
fn running(flow: &str) -> (Running, String) {
    let mut server = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    (server, address)
}

/// Sends a body on a new connection. Returns the status and the remaining text of the response, or `None` if the
/// connection ends without a response.
pub(crate) fn post(address: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, answer))
}

/// Starts a server that answers each request with `answer`.
fn peer(answer: &'static str) -> Server {
    Server::start(move |_| answer.as_bytes().to_vec())
}

fn relay(to: &str) -> String {
    format!(
        "connectors:
  input:
    type: http_server
    codec: json
    config: {{ listen: '127.0.0.1:0', respond: delivered }}
  output:
    type: http_client
    codec: json
    retry: {{ attempts: 1, backoff: 1ms }}
    config: {{ url: 'http://{to}/' }}
links: [input -> output]"
    )
}

#[test]
fn response_reports_result_of_its_events() {
    let good = peer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let refuses = peer("HTTP/1.1 422 X\r\nContent-Length: 8\r\n\r\nno field");
    let is_down = peer("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    for (to, status, logged) in [
        (good, 200, None),
        (refuses, 500, Some("answered with 422 Unprocessable Entity: no field")),
        (is_down, 500, Some("answered with 503 Service Unavailable")),
    ] {
        let (mut server, address) = running(&relay(&to.address().to_string()));
        let (found, answer) = post(&address, "{\"a\":1}").expect("an answer");
        assert_eq!(found, status, "{answer}");
        if let Some(part) = logged {
            server.until(part);
        }
        // A body that cannot be decoded is reported only to the client, because the client can correct it.
        let (found, answer) = post(&address, "{").expect("an answer");
        assert_eq!(found, 400, "{answer}");
        assert!(answer.contains("cannot be decoded: "), "{answer}");
        let (found, _) = post(&address, "{\"a\":2}").expect("an answer");
        assert_eq!(found, status);
        server.signal(&["TERM"]);
        server.end().expect(0, &[]);
    }
}

/// The sink never answers, so the source still waits for capacity in the queue when the flow drains.
#[test]
fn full_queue_of_draining_flow_answers_503() {
    let scene = Scene::new(
        "connectors:
  input: { type: http_server, codec: string, config: { listen: '127.0.0.1:0', max_wait: 100ms } }
  stuck: { type: hostile, queue: { max_events: 1 }, config: { fault: deliver_hang } }
links: [input -> stuck]",
    );
    let arguments = ["--drain-timeout", "1000", "flow.yaml"];
    let mut server = Running::of(scene, &arguments, |command| command);
    let (address, _) = server.listens();
    while post(&address, "event").expect("an answer").0 != 429 {}
    server.signal(&["TERM"]);
    server.until("the flows drain");
    let (status, answer) = post(&address, "event").expect("an answer");
    assert_eq!(status, 503, "{answer}");
}

#[test]
fn valid_lines_of_body_are_delivered_and_answer_names_error() {
    let flow = |links: &str| {
        format!(
            "connectors:
  input:
    type: http_server
    preprocessors: [lines]
    codec: json
    config: {{ listen: '127.0.0.1:0', respond: delivered }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output{links}]"
        )
    };
    let body = "{\"a\":1}\n{\"b\":oh}\n{\"c\":}\n{\"d\":4}\n";
    for (links, status) in [("", 400), (", input/err -> dead", 200)] {
        let (server, address) = running(&flow(links));
        let (found, answer) = post(&address, body).expect("an answer");
        assert_eq!(found, status, "{answer}");
        if status == 400 {
            assert!(answer.contains("cannot be decoded: "), "{answer}");
        }
        assert_eq!([server.event(), server.event()], ["{\"a\":1}", "{\"d\":4}"]);
        server.signal(&["TERM"]);
        server.end().expect(0, &[]);
    }
}

#[test]
fn request_without_events_is_answered_with_success() {
    for (reads, bodies) in [
        ("preprocessors: [lines], codec: json", &["", "\n", " \r\n\n"][..]),
        ("codec: json", &["", " \n"]),
        ("codec: string", &[""]),
        ("codec: prometheus", &["", "# HELP a b\n# EOF\n"]),
        ("preprocessors: [remove-empty], codec: string", &[""]),
        ("preprocessors: [prometheus], codec: prometheus", &["", "# HELP a b\n"]),
        ("preprocessors: [gzip], codec: json", &[""]),
    ] {
        let (server, address) = running(&format!(
            "connectors:
  input: {{ type: http_server, {reads}, config: {{ listen: '127.0.0.1:0', respond: delivered }} }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> output]"
        ));
        for body in bodies {
            let (status, answer) = post(&address, body).expect("an answer");
            assert_eq!(status, 200, "{reads} {body:?}: {answer}");
        }
        server.signal(&["TERM"]);
        server.end().expect(0, &[]);
    }
}

#[test]
fn polled_response_is_decompressed_before_it_is_split() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"one\ntwo\n").unwrap();
    let body = encoder.finish().unwrap();
    let head = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), &body].concat();
    let server = Server::start(move |_| answer.clone());
    let flow = format!(
        "connectors:
  input: {{ type: http_client, preprocessors: [lines], codec: string, config: {{ url: 'http://{}/', interval: 10ms }} }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
links: [input -> output]",
        server.address()
    );
    let run = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
    assert_eq!([(); 4].map(|()| run.event()), ["one", "two", "one", "two"]);
    run.signal(&["TERM"]);
    run.end().expect(0, &[]);
}

#[test]
fn drain_under_load_loses_no_accepted_request() {
    for respond in ["accepted", "delivered"] {
        let flow = format!(
            "connectors:
  input:
    type: http_server
    codec: string
    config: {{ listen: '127.0.0.1:0', respond: {respond} }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
links: [input -> output]"
        );
        let (server, address) = running(&flow);
        let is_over = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (address, is_over, count) = (address.clone(), is_over.clone(), count.clone());
                thread::spawn(move || {
                    let mut accepted = Vec::new();
                    for number in 0.. {
                        let body = format!("{client}-{number}");
                        match post(&address, &body) {
                            Some((200 | 202, _)) => accepted.push(body),
                            Some((503, answer)) => {
                                assert!(answer.contains("retry-after"), "{answer}");
                            }
                            Some((status, answer)) => panic!("{status}: {answer}"),
                            None if is_over.load(Ordering::Acquire) => return accepted,
                            None => panic!("no answer before the end"),
                        }
                        count.fetch_add(1, Ordering::AcqRel);
                    }
                    accepted
                })
            })
            .collect();
        let mut received = Vec::new();
        while count.load(Ordering::Acquire) < 200 {
            received.push(server.event());
        }
        is_over.store(true, Ordering::Release);
        server.signal(&["TERM"]);
        let accepted: Vec<_> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let run = server.end();
        run.expect(0, &[]);
        received.extend(run.stdout.lines().map(str::to_owned));
        received.sort_unstable();
        for body in &accepted {
            assert!(received.binary_search(body).is_ok(), "`{body}` was accepted ({respond})");
        }
        assert!(accepted.len() >= 190);
    }
}

#[test]
fn body_is_read_completely_before_the_next_request() {
    let flow = "connectors:
  input: { type: http_server, codec: string, config: { listen: '127.0.0.1:0' } }
  output: { type: 'null' }
links: [input -> output]";
    let (server, address) = running(flow);
    let head = "POST / HTTP/1.1\r\nHost: a\r\n";
    let whole = |length| format!("{head}Content-Length: {length}\r\n\r\n{}", "x".repeat(length));
    let chunked = |chunk: usize| {
        let chunk = format!("{chunk:x}\r\n{}\r\n", "x".repeat(chunk));
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(7))
    };
    let requests = [whole(0), whole(1), whole(1 << 20), chunked(1), chunked(40_000), whole(10)];
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut answer = || {
        let lines = answers.by_ref().lines().map(Result::unwrap);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>()[0].clone()
    };
    for request in &requests {
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(answer(), "HTTP/1.1 202 Accepted");
    }
    // Send all requests without waiting for responses.
    let all = requests.concat();
    let sends = thread::spawn(move || stream.write_all(all.as_bytes()));
    for _ in &requests {
        assert_eq!(answer(), "HTTP/1.1 202 Accepted");
    }
    sends.join().unwrap().unwrap();
    server.signal(&["TERM"]);
    server.end().expect(0, &["12 events in, 12 out"]);
}

fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has {
        eprintln!("SKIPPED: `curl` is not installed");
    }
    has
}

/// Returns the output of `curl` with these arguments.
fn curl(arguments: &[&str]) -> String {
    let output =
        Command::new("curl").args(["-sS", "--noproxy", "*"]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn curl_posts_lines_and_gets_their_errors() {
    if !has_curl() {
        return;
    }
    let flow = "connectors:
  input:
    type: http_server
    preprocessors: [lines]
    codec: json
    config:
      listen: '127.0.0.1:0'
      path: /in
      respond: delivered
      max_body_bytes: 1MiB
      auth: { basic: { user: u, password: 'p:w' } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";
    let (server, address) = running(flow);
    let url = format!("http://{address}/in");
    let lines: Vec<_> = (0..1_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    let lines = lines.concat();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        format!("@{}", path.display())
    };
    let (body, long) = (file("lines", lines.as_bytes()), file("long", &vec![b' '; 3 << 20]));
    let status = ["-o", "/dev/null", "-w", "%{http_code}"];
    let sent = |more: &[&str]| curl(&[&status, more].concat());
    let user = ["-u", "u:p:w"];
    assert_eq!(sent(&[&user[..], &["--data-binary", &body, &url]].concat()), "200");
    let received: Vec<_> = (0..1_000).map(|_| server.event()).collect();
    assert!(received.iter().map(|it| format!("{it}\n")).eq(lines.split_inclusive('\n')));
    let chunked = ["-H", "Transfer-Encoding: chunked", "-T", &body[1..], &url];
    assert_eq!(sent(&[&user[..], &chunked].concat()), "200");
    assert!((0..1_000).all(|number| server.event() == format!("{{\"n\":{number}}}")));
    assert_eq!(sent(&["--data-binary", &body, &url]), "401");
    assert_eq!(sent(&[&user[..], &[&url]].concat()), "405");
    assert_eq!(sent(&[&user[..], &["-d", "x", &format!("http://{address}/")]].concat()), "404");
    // The server responds before the client has sent the whole body. The client still has to be able to read the
    // response.
    let long = [&user[..], &["-H", "Expect:", "--data-binary", &long, &url]].concat();
    assert_eq!(sent(&long), "413");
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}

/// Starts a proxy that answers each connection with `answer`. Returns the address of the proxy, and a thread that
/// returns the first request.
fn proxy(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let mut stream = accept_within(&listener, PATIENCE).unwrap();
        let request = read_head(&mut stream).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        request
    });
    (format!("http://us%65r:secret@{address}"), asked)
}

#[test]
fn proxy_gets_full_url_and_tunnels_tls() {
    let run = |url: &str, variable: &str, proxy: &str| {
        let flow = format!(
            "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, count: 1 }} }}
  output:
    type: http_client
    codec: json
    retry: {{ attempts: 0 }}
    config: {{ url: '{url}' }}
links: [input -> output]"
        );
        Running::of(Scene::new(&flow), &["flow.yaml"], |command| command.env(variable, proxy)).end()
    };
    let (address, asked) = proxy("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    run("http://logs.invalid:8080/in?a=b", "http_proxy", &address)
        .expect(0, &["sends through the proxy"]);
    let request = asked.join().unwrap();
    assert!(request.starts_with("POST http://logs.invalid:8080/in?a=b HTTP/1.1\r\n"), "{request}");
    for part in ["host: logs.invalid:8080\r\n", "proxy-authorization: Basic dXNlcjpzZWNyZXQ=\r\n"] {
        assert!(request.contains(part), "{request}");
    }
    let (address, asked) = proxy("HTTP/1.1 403 Not for you\r\n\r\n");
    let ended = run("https://logs.invalid/in", "HTTPS_PROXY", &address);
    let refused = "the proxy answered with `HTTP/1.1 403 Not for you`";
    assert!(ended.stderr.contains(refused) && !ended.stderr.contains("secret"), "{}", ended.stderr);
    let request = asked.join().unwrap();
    assert!(request.starts_with("CONNECT logs.invalid:443 HTTP/1.1\r\nHost: logs.invalid:443\r\n"));
    assert!(request.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{request}");
}

/// Starts a proxy that connects its first tunnel to `address` instead of the requested target. Returns the address of
/// the proxy.
fn tunnel_to(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = accept_within(&listener, PATIENCE).unwrap();
        read_head(&mut stream).unwrap();
        let mut peer = TcpStream::connect(address).unwrap();
        stream.write_all(b"HTTP/1.1 200 Connected\r\nVia: 1.1 x\r\n\r\n").unwrap();
        let (mut from, mut to) = (stream.try_clone().unwrap(), peer.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut peer, &mut stream);
    });
    format!("http://{proxy}")
}

#[test]
fn client_and_server_authenticate_through_a_tunnel() {
    let made = rcgen::generate_simple_self_signed(["logs.invalid".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let scene = |flow: &str| {
        let scene = Scene::new(flow).write("cert.pem", certificate.as_bytes());
        scene.write("key.pem", key.as_bytes())
    };
    let own = "cert_file: cert.pem, key_file: key.pem, ca_file: cert.pem";
    let server = scene(&format!(
        "connectors:
  input:
    type: http_server
    codec: json
    config:
      listen: '127.0.0.1:0'
      respond: delivered
      tls: {{ {own}, client_auth: required }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> output]"
    ));
    let mut server = Running::of(server, &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    let proxy = tunnel_to(address.clone());
    let client = scene(&format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, count: 1 }} }}
  output:
    type: http_client
    codec: json
    config: {{ url: 'https://logs.invalid/in', tls: {{ {own} }} }}
links: [input -> output]"
    ));
    let client = Running::of(client, &["flow.yaml"], |command| command.env("https_proxy", proxy));
    assert!(server.event().contains("\"metronome\":\"input\""));
    client.end().expect(0, &[]);
    // The server rejects a peer without TLS or without a certificate, and continues to serve others.
    assert_eq!(post(&address, "{}"), None);
    server.until("cannot establish TLS with");
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}

/// The certificate of the server is not in `ca_file`, until that file is corrected.
#[test]
fn refused_certificate_is_a_state_and_fails_no_event() {
    let make = || rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (own, other) = (make(), make());
    let server = Scene::new(
        "connectors:
  input:
    type: http_server
    codec: json
    config: { listen: '127.0.0.1:0', tls: { cert_file: cert.pem, key_file: key.pem } }
  output: { type: 'null' }
links: [input -> output]",
    );
    let server = server
        .write("cert.pem", own.cert.pem().as_bytes())
        .write("key.pem", own.signing_key.serialize_pem().as_bytes());
    let mut server = Running::of(server, &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    let client = Scene::new(&format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, count: 9 }} }}
  output:
    type: http_client
    codec: json
    config: {{ url: 'https://{address}/', tls: {{ ca_file: ca.pem }} }}
links: [input -> output]"
    ));
    let client = client.write("ca.pem", other.cert.pem().as_bytes());
    let authority = client.path().join("ca.pem");
    let client = api::start(client, &["flow.yaml"]);
    let output =
        client.until("/v1/flows/flow/connectors/output", |output| output["state"] == "retrying");
    assert!(output["error"].as_str().unwrap().contains("cannot establish TLS"), "{output}");
    fs::write(authority, own.cert.pem()).unwrap();
    let log = client.ended();
    assert!(log.contains("9 events in, 9 out, 0 dead-lettered"), "{log}");
    server.signal(&["TERM"]);
    server.end().expect(0, &["9 events in, 9 out"]);
}
