//! Tests of `ws_client` behind a proxy, with the real program.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
};

use hostile_peers::{Acceptor, PATIENCE};

use crate::{running::Running, tls::certificate, tremor::Scene};

/// Reads the head of a request.
fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Starts a proxy that connects each tunnel to `to` instead of the requested peer, or refuses it if `to` is `None`.
/// Returns the proxy, its URL and its requests.
fn proxy(to: Option<String>) -> (Acceptor, String, mpsc::Receiver<String>) {
    let (sender, requests) = mpsc::channel();
    let (acceptor, address) = Acceptor::tcp(move |mut client: TcpStream| {
        let _ = sender.send(read_head(&mut client));
        let Some(to) = &to else {
            let _ = client.write_all(b"HTTP/1.1 403 secret is not welcome\r\n\r\n");
            return;
        };
        let mut server = TcpStream::connect(to).unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from, &mut into));
        thread::spawn(move || io::copy(&mut server, &mut client));
    })
    .unwrap();
    (acceptor, format!("http://us%65r:secret@{address}"), requests)
}

/// Starts a server, with TLS or without. Returns it and its address.
fn server(tls: &str, certificate: &(String, String)) -> (Running, String) {
    let flow = format!(
        "connectors:
  input: {{ type: ws_server, codec: string, config: {{ listen: '127.0.0.1:0' {tls} }} }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
links: [input -> output]"
    );
    let scene = Scene::new(&flow)
        .write("cert.pem", certificate.0.as_bytes())
        .write("key.pem", certificate.1.as_bytes());
    let mut run = Running::of(scene, &["flow.yaml"], |command| command);
    let (address, _) = run.listens();
    (run, address)
}

/// Starts a client whose environment has the variable `name`.
fn client(url: &str, tls: &str, authority: &str, (name, proxy): (&str, &str)) -> Running {
    let flow = format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, count: 3 }} }}
  output: {{ type: ws_client, codec: json, config: {{ url: '{url}' {tls} }} }}
links: [input -> output]"
    );
    let scene = Scene::new(&flow).write("ca.pem", authority.as_bytes());
    Running::of(scene, &["flow.yaml"], |command| {
        for other in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
            command.env_remove(other).env_remove(other.to_uppercase());
        }
        command.env(name, proxy)
    })
}

#[test]
fn websockets_pass_through_a_proxy_with_and_without_tls() {
    let certificate = certificate();
    let own = ", tls: { cert_file: cert.pem, key_file: key.pem }";
    let trusts = ", tls: { ca_file: ca.pem, server_name: localhost }";
    for (scheme, variable, own, trusts) in
        [("ws", "HTTP_PROXY", "", ""), ("wss", "https_proxy", own, trusts)]
    {
        let (server, address) = server(own, &certificate);
        let (_proxy, at, requests) = proxy(Some(address));
        let url = format!("{scheme}://events.invalid:8443/");
        let mut client = client(&url, trusts, &certificate.0, (variable, &at));
        client.until("connects through the proxy");
        client.end().expect(0, &["3 events in, 3 out"]);
        let request = requests.recv_timeout(PATIENCE).unwrap();
        assert!(request.starts_with("CONNECT events.invalid:8443 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{request}");
        (0..3).for_each(|_| drop(server.event()));
        server.signal(&["TERM"]);
        server.end().expect(0, &["3 events in"]);
    }
}

#[test]
fn refusing_proxy_is_tried_again_without_showing_its_password() {
    let (_proxy, at, requests) = proxy(None);
    let mut client = client("ws://events.invalid/", "", "", ("ALL_PROXY", &at));
    let line = client.until("the proxy answered with");
    assert!(
        line.contains("cannot connect to `ws://events.invalid/` through the proxy `"),
        "{line}"
    );
    assert!(line.contains("`HTTP/1.1 403 [redacted] is not welcome`"), "{line}");
    for _ in 0..2 {
        let request = requests.recv_timeout(PATIENCE).unwrap();
        assert!(request.starts_with("CONNECT events.invalid:80 HTTP/1.1\r\n"), "{request}");
    }
    client.signal(&["TERM"]);
    let run = client.end();
    assert!(!run.stderr.contains("secret"), "{}", run.stderr);
}

#[test]
fn hosts_of_no_proxy_are_reached_directly() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let (server, address) = server("", &certificate());
    // Loopback addresses need no entry in `NO_PROXY`.
    let client = client(&format!("ws://{address}/"), "", "", ("http_proxy", &proxy));
    client.end().expect(0, &["3 events in, 3 out"]);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    server.signal(&["TERM"]);
    server.end().expect(0, &["3 events in"]);
}
