//! Tests of servers behind a load balancer that sends headers of the PROXY protocol, with the real program: hostile
//! peers, and clients of each server, with and without TLS.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    thread,
};

use hostile_peers::{Acceptor, connection::reset};

use crate::{
    peer::{as_frames, wait_until},
    running::Running,
    servers::{as_lines, as_requests},
    tls::{certificate, has},
    tremor::Scene,
};

const LINE: &str = "PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n";

/// A header of version 2 for the client `192.0.2.7:4660`, with a TLV of AWS.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\
    \xc0\0\x02\x07\xcb\0\x71\x01\x12\x34\x01\xbb\xea\0\x05\x01vpce";

const SERVERS: [&str; 6] = ["lines", "secure", "requests", "secure-requests", "frames", "local"];

/// Starts the servers, and returns them with their addresses in the order of [`SERVERS`].
fn servers(trusted: &str) -> (Running, Vec<String>) {
    let tls = "tls: { cert_file: cert.pem, key_file: key.pem }";
    let proxy = format!("proxy_protocol: {{ trusted: {trusted} }}");
    let flow = format!(
        "connectors:
  lines:
    type: tcp_server
    preprocessors: [lines]
    codec: string
    config: {{ listen: '127.0.0.1:0', {proxy} }}
  secure:
    type: tcp_server
    preprocessors: [lines]
    codec: string
    config: {{ listen: '127.0.0.1:0', {tls}, {proxy} }}
  requests: {{ type: http_server, codec: string, config: {{ listen: '127.0.0.1:0', {proxy} }} }}
  secure-requests:
    type: http_server
    codec: string
    config: {{ listen: '127.0.0.1:0', {tls}, {proxy} }}
  frames: {{ type: ws_server, codec: string, config: {{ listen: '127.0.0.1:0', {proxy} }} }}
  local:
    type: unix_server
    preprocessors: [lines]
    codec: string
    config: {{ listen: socket, mode: '0600', proxy_protocol: true }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
pipelines:
  whole:
    operators:
      - type: set
        config:
          edits:
            - {{ field: '%text', copy: '' }}
            - {{ field: '', template: '{{%text}} from {{%peer.address:-none}} {{%peer.port:-none}}' }}
links:
  - lines -> whole
  - secure -> whole
  - requests -> whole
  - secure-requests -> whole
  - frames -> whole
  - local -> whole
  - whole -> output"
    );
    let (certificate, key) = certificate();
    let scene = Scene::new(&flow)
        .write("cert.pem", certificate.as_bytes())
        .write("key.pem", key.as_bytes());
    let mut run = Running::of(scene, &["--api", "127.0.0.1:0", "flow.yaml"], |command| command);
    let line = run.until("the admin API listens address=");
    let mut addresses = vec![String::new(); SERVERS.len()];
    for _ in SERVERS {
        let (address, fields) = run.listens();
        let component = fields.split("component=").nth(1).unwrap();
        let component = component.split_whitespace().next().unwrap().trim_matches('"');
        addresses[SERVERS.iter().position(|name| *name == component).unwrap()] = address;
    }
    addresses.push(line.rsplit_once('=').unwrap().1.to_owned());
    (run, addresses)
}

/// Returns the number of connections that all servers have closed because of their headers.
fn failed(api: &str) -> u64 {
    let mut stream = TcpStream::connect(api).unwrap();
    let head = format!("GET /metrics HTTP/1.1\r\nhost: {api}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let lines =
        text.lines().filter(|line| line.contains("proxy_headers_failed") && !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// Connects, and sends a header and data.
fn client(address: &str, header: &[u8], data: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(&[header, data].concat()).unwrap();
    client
}

/// Sends `data` over TLS through a relay that sends `header` first. Returns the answer.
fn over_tls(address: &str, header: &'static [u8], data: &[u8]) -> String {
    let server = address.to_owned();
    let (relay, own) = Acceptor::tcp(move |client: TcpStream| {
        let mut server = TcpStream::connect(&server).unwrap();
        server.write_all(header).unwrap();
        let (mut answers, mut to_client) =
            (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut answers, &mut to_client));
        thread::spawn(move || io::copy(&mut &client, &mut server));
    })
    .unwrap();
    let mut openssl = Command::new("openssl")
        .args(["s_client", "-quiet", "-no_ign_eof", "-connect", &own.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = openssl.stdin.take().unwrap();
    input.write_all(data).unwrap();
    let mut first = [0; 12];
    let output = openssl.stdout.as_mut().unwrap();
    let count = if data.starts_with(b"POST") { output.read(&mut first).unwrap() } else { 0 };
    drop(input);
    openssl.wait().unwrap();
    drop(relay);
    String::from_utf8_lossy(&first[..count]).into_owned()
}

#[test]
fn every_server_takes_the_client_from_the_header() {
    let (run, at) = servers("[10.0.0.0/8, 127.0.0.1]");
    for (header, from) in [(LINE.as_bytes(), "2001:db8::7 56324"), (BINARY, "192.0.2.7 4660")] {
        let _lines = client(&at[0], header, b"to lines\n");
        assert_eq!(run.event(), format!("\"to lines from {from}\""));
        let mut requests = client(&at[2], header, &as_requests("to requests", true));
        assert_eq!(run.event(), format!("\"to requests from {from}\""));
        let mut answer = [0; 12];
        requests.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 202");
        let _frames = client(&at[4], header, &as_frames("to frames", true));
        assert_eq!(run.event(), format!("\"to frames from {from}\""));
        let mut local = UnixStream::connect(run.scene.path().join("socket")).unwrap();
        local.write_all(&[header, b"to local\n"].concat()).unwrap();
        assert_eq!(run.event(), format!("\"to local from {from}\""));
        if has("openssl") {
            over_tls(&at[1], header, b"to secure\n");
            assert_eq!(run.event(), format!("\"to secure from {from}\""));
            let answer = over_tls(&at[3], header, &as_requests("to secure", true));
            assert_eq!(answer, "HTTP/1.1 202");
            assert_eq!(run.event(), format!("\"to secure from {from}\""));
        }
    }
    assert_eq!(failed(&at[6]), 0);
    run.signal(&["TERM"]);
    run.end().expect(0, &[]);
}

#[test]
fn hostile_headers_disturb_no_other_client() {
    let (run, at) = servers("[127.0.0.1]");
    let servers: Vec<_> = at[..5].iter().collect();
    let mut slow = Vec::new();
    for address in &servers {
        // Balancers that check the server.
        for _ in 0..5 {
            drop(TcpStream::connect(address).unwrap());
            reset(&TcpStream::connect(address).unwrap()).unwrap();
        }
        // Headers that never end, each with one byte after the other.
        for sent in 0..20 {
            slow.push((client(address, &BINARY[..sent], b""), sent));
        }
        for (client, sent) in &mut slow {
            client.write_all(&BINARY[*sent..=*sent]).unwrap();
            *sent += 1;
        }
    }
    let good = |number: usize| {
        let text = format!("good {number}");
        let says = [as_lines, as_requests, as_frames];
        for (address, says) in [&at[0], &at[2], &at[4]].into_iter().zip(says) {
            let _client = client(address, BINARY, &says(&text, true));
            assert_eq!(run.event(), format!("\"{text} from 192.0.2.7 4660\""));
        }
    };
    good(0);
    let invalid: [&[u8]; 6] = [
        b"<13>Nov 29 08:00:00 host tag: text\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        b"PROXY TCP4 192.0.2.7 203.0.113.1 99999 443\r\nx\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\0\r\nQUIT\n\x2f\x11\0\0",
        &vec![b'P'; 200_000],
    ];
    let mut expected = failed(&at[6]);
    for (number, bytes) in invalid.iter().enumerate() {
        for address in &servers {
            let mut peer = TcpStream::connect(address).unwrap();
            let _ = peer.write_all(bytes);
            let _ = peer.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            // A reset ends the connection too.
            let _ = peer.read_to_end(&mut answer);
            assert_eq!(answer, b"", "nothing is sent to a peer without a header");
        }
        expected += 5;
        wait_until(|| failed(&at[6]) >= expected);
        good(number + 1);
    }
    drop(slow);
    run.signal(&["TERM"]);
    run.end().expect(0, &["closed the connection of 127.0.0.1:"]);
}

#[test]
fn header_of_an_untrusted_peer_is_not_believed() {
    let (run, at) = servers("[192.0.2.0/24]");
    for address in &at[..5] {
        let mut peer = TcpStream::connect(address).unwrap();
        let _ = peer.write_all(&[BINARY, &as_requests("spoofed", true)].concat());
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    wait_until(|| failed(&at[6]) == 5);
    run.signal(&["TERM"]);
    run.end().expect(0, &["it is not in `proxy_protocol.trusted`", "0 events in"]);
}

#[test]
fn check_finds_invalid_networks() {
    for (keys, expected) in [
        ("{ trusted: [10.0.0.1/8] }", "invalid network `10.0.0.1/8`: expected `10.0.0.0/8`"),
        ("{ trusted: [balancer.example] }", "such as `10.0.0.0/8`"),
        ("{ trusted: [] }", "trusted"),
        ("{}", "trusted"),
        ("{ trusted: [10.0.0.0/8], others: ignore }", "direct"),
        ("true", "proxy_protocol"),
    ] {
        for kind in ["tcp_server", "http_server", "ws_server"] {
            let flow = format!(
                "connectors:
  input: {{ type: {kind}, codec: string, config: {{ listen: '127.0.0.1:0', proxy_protocol: {keys} }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
            );
            let check = Scene::new(&flow).tremor(&["check", "flow.yaml"]);
            assert!(
                check.status != Some(0) && check.stderr.contains(expected),
                "{kind} {keys}: {}",
                check.stderr
            );
        }
    }
}
