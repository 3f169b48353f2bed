#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread::{self, JoinHandle},
};

use super::{ANSWER, Proxy, base64};
use crate::{Descriptors, ErrorKind, Result, net::Address, testing::TestHost};

/// Returns the address of a URL, and whether it has the scheme `https`.
fn peer(url: &str) -> (Address, bool) {
    let (scheme, host) = url.split_once("://").unwrap();
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let host = if has_port { host.to_owned() } else { format!("{host}:80") };
    (host.parse().unwrap(), scheme == "https")
}

fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<String> {
    let variable = |name: &str| {
        variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    };
    let (peer, is_tls) = peer(url);
    let proxy = Proxy::of(&peer, is_tls, variable, |_, _| {}).unwrap()?;
    let secret = proxy.authorization().unwrap_or_default();
    Some(format!("{}{secret}", proxy.address))
}

#[test]
fn proxy_is_read_from_environment_variables() {
    let both = [("http_proxy", "http://one:3128"), ("HTTPS_PROXY", "two:3128")];
    assert_eq!(proxy("http://a", &both).as_deref(), Some("one:3128"));
    assert_eq!(proxy("https://a", &both).as_deref(), Some("two:3128"));
    assert_eq!(proxy("http://a", &[("ALL_PROXY", "http://p")]).as_deref(), Some("p:80"));
    assert_eq!(proxy("http://a", &[("HTTP_PROXY", "")]), None);
    let script = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
    assert_eq!(proxy("http://a", &script), None, "in a CGI script a client can set the variable");
    let secret = [("http_proxy", "http://us%65r:p%40ss@one:1")];
    assert_eq!(proxy("http://a", &secret).as_deref(), Some("one:1Basic dXNlcjpwQHNz"));
}

#[test]
fn hosts_of_no_proxy_and_this_machine_need_no_proxy() {
    let direct = |url: &str, hosts: &str| {
        proxy(url, &[("http_proxy", "one:1"), ("no_proxy", hosts)]).is_none()
    };
    for (url, hosts) in [
        ("http://a.example.com", "example.com"),
        ("http://10.7.8.9", "example.com,10.0.0.0/8"),
        ("http://10.7.8.9", "10.0.0.0/99,10.7.8.9"),
        ("http://[::1]:81", ""),
        ("http://127.1.2.3", ""),
        ("http://LocalHost:80", ""),
    ] {
        assert!(direct(url, hosts), "{url} {hosts}");
    }
    for (url, hosts) in [("http://notexample.com", "example.com"), ("http://a", " ,")] {
        assert!(!direct(url, hosts), "{url} {hosts}");
    }
}

#[test]
fn invalid_entries_of_no_proxy_are_reported() {
    let (peer, is_tls) = peer("http://a");
    let variables = |proxy: Option<&'static str>| {
        move |name: &str| match name {
            "NO_PROXY" => Some("10.0.0.0/33, b, c:99999".to_owned()),
            "http_proxy" => proxy.map(str::to_owned),
            _ => None,
        }
    };
    let mut invalid = Vec::new();
    let mut report = |name: &str, entry: &str| invalid.push(format!("{name} {entry}"));
    Proxy::of(&peer, is_tls, variables(None), &mut report).unwrap();
    let proxy = Proxy::of(&peer, is_tls, variables(Some("one:1")), &mut report).unwrap();
    assert!(proxy.is_some());
    assert_eq!(invalid, ["NO_PROXY 10.0.0.0/33", "NO_PROXY c:99999"]);
}

#[test]
fn invalid_proxy_is_rejected_without_showing_its_value() {
    let (peer, is_tls) = peer("http://a");
    for text in [
        "socks5://u:secret@a",
        "http://u:secret@",
        "http://u:secr%zzet@a",
        "http://a b",
        "a:99999",
        "http://u:secret@a:port",
        "http://u:secret@a:",
        "http://u:secret@a:0",
        "http://u:secret@[::1",
        "http://u:secret@a\nb",
        "http://u%3ax:secret@a",
    ] {
        let variable = |name: &str| (name == "HTTP_PROXY").then(|| text.to_owned());
        let error = Proxy::of(&peer, is_tls, variable, |_, _| {}).err().unwrap().to_string();
        assert!(error.contains("`HTTP_PROXY`") && !error.contains("secr"), "{error}");
    }
}

#[test]
fn credentials_are_encoded_in_base64() {
    // Test vectors of RFC 4648, section 10.
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
    assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
}

#[test]
fn errors_do_not_show_credentials() {
    let variable = |name: &str| (name == "ALL_PROXY").then(|| "http://us:p%40ssword@a".to_owned());
    let (peer, is_tls) = peer("http://b");
    let proxy = Proxy::of(&peer, is_tls, variable, |_, _| {}).unwrap().unwrap();
    let line = b"HTTP/1.1 407 Basic dXM6cEBzc3dvcmQ= us:p@ssword \x1b[31m p@ssword \xff";
    let shown = proxy.shown(&[&line[..], &[b'x'; 500]].concat());
    let expected = "HTTP/1.1 407 Basic [redacted] [redacted] \u{fffd}[31m [redacted] \u{fffd}xxx";
    assert!(shown.starts_with(expected), "{shown}");
    assert_eq!(shown.chars().count(), 200);
    assert!(!format!("{proxy:?} {proxy}").contains("ssword"));
}

/// Starts a proxy that answers its first request with `answer`. Returns the proxy and its
/// request.
fn answering(answer: Vec<u8>) -> (Proxy, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://us:p%40ssword@{}", listener.local_addr().unwrap());
    let serves = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        // The client may close the connection before it has read the whole answer.
        let _ = stream.write_all(&answer);
        String::from_utf8(request).unwrap()
    });
    let variable = |name: &str| (name == "ALL_PROXY").then(|| url.clone());
    let (peer, is_tls) = peer("https://logs.invalid:443");
    (Proxy::of(&peer, is_tls, variable, |_, _| {}).unwrap().unwrap(), serves)
}

/// Connects through a proxy that answers with `answer`. Returns the bytes of the peer that were read.
fn tunnel(answer: &[u8]) -> (Result<Vec<u8>>, String) {
    let (proxy, serves) = answering(answer.to_vec());
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let peer = "logs.invalid:443".parse().unwrap();
    let connected = test.block_on(proxy.connect(&test.host(), &descriptors, &peer));
    let request = serves.join().unwrap();
    let read = connected.map(|stream| {
        let mut bytes = Vec::new();
        stream.get_ref().set_nonblocking(false).unwrap();
        stream.get_ref().read_to_end(&mut bytes).unwrap();
        bytes
    });
    (read, request)
}

#[test]
fn tunnel_leads_to_the_peer() {
    let (read, request) = tunnel(b"HTTP/1.1 200 Connected\r\nVia: 1.1 x\r\n\r\nfrom the peer");
    assert_eq!(read.unwrap(), b"from the peer");
    let expected = "CONNECT logs.invalid:443 HTTP/1.1\r\nHost: logs.invalid:443\r\n\
                    Proxy-Authorization: Basic dXM6cEBzc3dvcmQ=\r\n\r\n";
    assert_eq!(request, expected);
}

#[test]
fn refused_tunnels_name_the_answer() {
    let long = [&b"HTTP/1.1 200 OK\r\n"[..], &vec![b'x'; ANSWER]].concat();
    for (answer, expected) in [
        (&b"HTTP/1.1 403 Not for you\r\n\r\n"[..], "answered with `HTTP/1.1 403 Not for you`"),
        (
            b"HTTP/1.1 407 p@ssword\r\n\r\n",
            "`HTTP/1.1 407 [redacted]`; check the name and the password",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "answered with `SSH-2.0-OpenSSH`"),
        (b"HTTP/1.1 2000\r\n\r\n", "answered with `HTTP/1.1 2000`"),
        (b"HTTP/1.1 200 OK\r\n", "the connection to the proxy broke: "),
        (b"", "the connection to the proxy broke: "),
        (&long, "answered with more than 16384 bytes"),
    ] {
        let error = tunnel(answer).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn silent_proxy_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let (peer, _) = peer("http://logs.invalid");
    let variable = |name: &str| (name == "http_proxy").then(|| url.clone());
    let proxy = Proxy::of(&peer, false, variable, |_, _| {}).unwrap().unwrap();
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let error = test.block_on(proxy.connect(&test.host(), &descriptors, &peer)).err().unwrap();
    assert!(error.to_string().contains("the proxy did not answer within 10s"), "{error}");
}
