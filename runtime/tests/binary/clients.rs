//! Tests of network clients whose peers delay or reject requests, or have an untrusted certificate.

use std::{
    collections::HashSet,
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use hostile_peers::{PATIENCE, acceptor::accept_within, http::Request};

use crate::{
    running::Running,
    tls::{Authority, certificate, has},
    tremor::Scene,
};

/// Accepts a connection, and returns its stream and the body of its first request.
fn request(listener: &TcpListener) -> (TcpStream, String) {
    let stream = accept_within(listener, PATIENCE).unwrap();
    let request = Request::read(&mut BufReader::new(&stream)).unwrap();
    (stream, request.text())
}

/// Starts a peer that answers each request with the next of these answers, and closes the connection after it.
fn peer(answers: Vec<&'static str>) -> (String, thread::JoinHandle<Vec<(String, Instant)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, body) = request(&listener);
            requests.push((body, Instant::now()));
            stream.write_all(answer.as_bytes()).unwrap();
        }
        requests
    });
    (address, requests)
}

#[test]
fn client_obeys_retry_after_and_rejected_request_goes_to_err() {
    let good = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (address, requests) = peer(vec![
        "HTTP/1.1 429 Slow down\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 503 Later\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        good,
        "HTTP/1.1 422 No\r\nContent-Length: 7\r\nConnection: close\r\n\r\nno `id`",
        good,
    ]);
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: in, mode: read }} }}
  output:
    type: http_client
    codec: string
    retry: {{ attempts: 5, backoff: 1ms, max_backoff: 10ms }}
    config: {{ url: 'http://{address}/' }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, output/err -> dead]"
    );
    let scene = Scene::new(&flow).write("in", b"one\ntwo\nthree\n");
    scene.run().expect(0, &["3 events in"]);
    let requests = requests.join().unwrap();
    let bodies: Vec<_> = requests.iter().map(|(body, _)| &**body).collect();
    assert_eq!(bodies, ["one", "one", "one", "one", "two", "three"]);
    // The request is not repeated before the time in `Retry-After`, although the retry delay of the flow is shorter.
    assert!(requests[1].1 - requests[0].1 >= Duration::from_secs(1));
    let dead = scene.read("dead");
    assert_eq!(dead.lines().count(), 1, "{dead}");
    assert!(dead.contains("422") && dead.contains("no `id`") && dead.contains("two"), "{dead}");
}

/// Starts a peer that answers the first request of each body with 429, and the second with 200.
fn limiter(bodies: usize) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = thread::spawn(move || {
        let (mut seen, mut taken) = (HashSet::new(), 0);
        while taken < bodies {
            let (mut stream, body) = request(&listener);
            let answer = if seen.insert(body) {
                "429 Slow down\r\nRetry-After: 1"
            } else {
                taken += 1;
                "200 OK"
            };
            let end = "Content-Length: 0\r\nConnection: close";
            write!(stream, "HTTP/1.1 {answer}\r\n{end}\r\n\r\n").unwrap();
        }
    });
    (address, requests)
}

/// Half of the deliveries start while another delivery waits because of `Retry-After`.
#[test]
fn deliveries_deferred_by_retry_after_use_no_attempt() {
    let (address, requests) = limiter(8);
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: in, mode: read }} }}
  output:
    type: http_client
    codec: string
    in_flight: 4
    ordered: false
    batch: {{ max_events: 1 }}
    retry: {{ attempts: 1, backoff: 1ms, max_backoff: 1ms }}
    config: {{ url: 'http://{address}/' }}
links: [input -> output]"
    );
    let scene = Scene::new(&flow).write("in", b"1\n2\n3\n4\n5\n6\n7\n8\n");
    scene.run().expect(0, &["8 events in, 8 out"]);
    requests.join().unwrap();
}

/// Returns a flow with these connectors and links.
fn flow(connectors: impl Iterator<Item = String>, links: impl Iterator<Item = String>) -> String {
    let connectors = connectors.collect::<Vec<_>>().concat();
    format!("connectors:\n{connectors}links: [{}]", links.collect::<Vec<_>>().join(", "))
}

/// Returns a flow with a TLS client for each of these servers.
fn clients(addresses: &[(&str, String)], keys: &str) -> String {
    let input = "  input: { type: metronome, config: { interval_ms: 10, count: 1 } }\n".to_owned();
    let client = |(name, address): &(&str, String)| {
        format!(
            "  {name}:
    type: tcp_client
    codec: json
    postprocessors: [lines]
    config: {{ address: '{address}', tls: {{ {keys} }} }}\n"
        )
    };
    flow(
        std::iter::once(input).chain(addresses.iter().map(client)),
        addresses.iter().map(|(name, _)| format!("input -> {name}")),
    )
}

/// Starts a TLS server for each of these certificates, in one process.
fn servers(certificates: &[(&str, (String, String))]) -> (Running, Vec<(String, String)>) {
    let output = "  output: { type: stdio, codec: json, postprocessors: [lines] }\n".to_owned();
    let server = |(name, _): &(&str, (String, String))| {
        format!(
            "  {name}:
    type: tcp_server
    preprocessors: [lines]
    codec: json
    config: {{ listen: '127.0.0.1:0', tls: {{ cert_file: {name}.pem, key_file: {name}.key }} }}\n"
        )
    };
    let scene = Scene::new(&flow(
        std::iter::once(output).chain(certificates.iter().map(server)),
        certificates.iter().map(|(name, _)| format!("{name} -> output")),
    ));
    let scene = certificates.iter().fold(scene, |scene, (name, (certificate, key))| {
        let scene = scene.write(&format!("{name}.pem"), certificate.as_bytes());
        scene.write(&format!("{name}.key"), key.as_bytes())
    });
    let mut run = Running::of(scene, &["flow.yaml"], |command| command);
    let addresses = certificates.iter().map(|_| {
        let (address, fields) = run.listens();
        let name = fields.split('"').nth(1).unwrap();
        (name.to_owned(), address.replace("127.0.0.1", "localhost"))
    });
    let addresses = addresses.collect();
    (run, addresses)
}

#[test]
fn untrusted_tls_server_is_logged_with_reason() {
    let authority = Authority::new();
    let (servers, addresses) = servers(&[
        ("expired", authority.issue_until("localhost", 2001)),
        ("itself", certificate()),
        ("elsewhere", authority.issue("another.test")),
        ("stranger", Authority::new().issue("localhost")),
    ]);
    let addresses: Vec<_> = addresses.iter().map(|(name, it)| (&**name, it.clone())).collect();
    let scene = Scene::new(&clients(&addresses, "ca_file: ca.pem"))
        .write("ca.pem", authority.pem.as_bytes());
    let mut run = Running::of(scene, &["flow.yaml"], |command| command);
    let reasons =
        ["expired 9", "is self-signed", "is not for `localhost`", "`ca_file` does not contain it"];
    run.until_all(reasons.map(str::to_owned).into());
    drop(run);
    servers.signal(&["TERM"]);
    let ended = servers.end();
    ended.expect(0, &[]);
    assert_eq!(ended.stdout, "", "no event was sent to these servers");
}

#[test]
fn server_signed_by_system_ca_is_trusted_by_default() {
    let authority = Authority::new();
    let (servers, addresses) = servers(&[("good", authority.issue("localhost"))]);
    let scene = Scene::new(&clients(&[("output", addresses[0].1.clone())], ""))
        .write("ca.pem", authority.pem.as_bytes());
    Running::of(scene, &["flow.yaml"], |command| {
        command.env("SSL_CERT_FILE", "ca.pem").env_remove("SSL_CERT_DIR")
    })
    .end()
    .expect(0, &["1 events in, 1 out"]);
    assert!(servers.event().contains("\"metronome\""));
    servers.signal(&["TERM"]);
    servers.end().expect(0, &[]);
}

#[test]
fn old_tls_version_of_server_is_logged() {
    if !has("openssl") {
        return;
    }
    let (certificate, key) = certificate();
    let address = format!("localhost:{}", crate::peer::free_port());
    let flow = clients(&[("output", address.clone())], "ca_file: cert.pem, min_version: '1.3'");
    let scene = Scene::new(&flow)
        .write("cert.pem", certificate.as_bytes())
        .write("key.pem", key.as_bytes());
    let mut old = Command::new("openssl")
        .args(["s_server", "-quiet", "-tls1_2", "-4", "-accept", &address])
        .args(["-cert", "cert.pem", "-key", "key.pem"])
        .current_dir(scene.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut run = Running::of(scene, &["flow.yaml"], |command| command);
    run.until("check `min_version` of both sides");
    drop(run);
    old.kill().unwrap();
    old.wait().unwrap();
}
