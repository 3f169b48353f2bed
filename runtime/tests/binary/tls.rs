//! Tests of TLS of network connectors, against each other and against OpenSSL.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use hostile_peers::{PATIENCE, acceptor::accept_within};

use crate::{
    network::example_flow,
    peer::{free_address, wait_until},
    running::Running,
    support::workspace,
    tremor::Scene,
};

/// Returns a self-signed certificate for this machine, and its key.
pub(crate) fn certificate() -> (String, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A CA that is created for a test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        // The name is unique, because a verifier would confuse two CAs of the same name.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {} of tests", MADE.fetch_add(1, Ordering::Relaxed));
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns a certificate for this name, and its key.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        self.issue_until(name, 2999)
    }

    /// Returns a certificate that expires at the beginning of this year.
    pub(crate) fn issue_until(&self, name: &str, year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
        params.distinguished_name.push(DnType::CommonName, "a peer of tests");
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// Returns a scene with the certificate `cert.pem` and its key `key.pem`.
fn scene(flow: &str) -> Scene {
    let (certificate, key) = certificate();
    Scene::new(flow).write("cert.pem", certificate.as_bytes()).write("key.pem", key.as_bytes())
}

/// Returns whether a program is installed. If not, prints a message. CI has the programs.
pub(crate) fn has(program: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        eprintln!("SKIPPED: `{program}` is not installed");
    }
    has
}

#[test]
fn tls_example_delivers_every_event_once_in_order() {
    let logs = std::fs::read(workspace().join("examples/logs.json")).unwrap();
    let scene = scene(&example_flow("tls.yaml"))
        .write("sender.yaml", example_flow("tls-sender.yaml").as_bytes())
        .write("logs.json", &logs);
    let run = Running::of(scene, &["flow.yaml", "sender.yaml"], |command| {
        let files = [("CERTIFICATE", "cert.pem"), ("KEY", "key.pem")];
        command.env("ADDRESS", free_address()).envs(files)
    });
    let run = run.end();
    run.expect(0, &[]);
    let sent = String::from_utf8(logs).unwrap();
    let guid = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["guid"].clone()
    };
    assert!(run.stdout.lines().map(guid).eq(sent.lines().map(guid)));
}

/// Starts a TLS server, and returns its address.
fn server(preprocessor: &str, codec: &str, min_version: &str) -> (Running, String) {
    let flow = format!(
        "connectors:
  input:
    type: tcp_server
    preprocessors: [{preprocessor}]
    codec: {codec}
    config:
      listen: '127.0.0.1:0'
      tls: {{ cert_file: cert.pem, key_file: key.pem, min_version: '{min_version}' }}
  output: {{ type: stdio, codec: {}, postprocessors: [lines] }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, input/err -> dead]",
        if codec == "syslog" { "json" } else { codec }
    );
    let mut server = Running::of(scene(&flow), &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    (server, address)
}

/// Starts OpenSSL's client, and returns its input.
fn openssl_client(server: &Running, address: &str, more: &[&str]) -> (Child, ChildStdin) {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
        ])
        .args(["-connect", address, "-CAfile", "cert.pem"])
        .args(more)
        .current_dir(server.scene.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdin = client.stdin.take().unwrap();
    (client, stdin)
}

#[test]
fn openssl_clients_are_served_and_plain_ones_rejected() {
    if !has("openssl") {
        return;
    }
    let (mut server, address) = server("lines", "string", "1.2");
    for version in ["-tls1_2", "-tls1_3"] {
        let (mut client, mut stdin) = openssl_client(&server, &address, &[version]);
        writeln!(stdin, "with {version}").unwrap();
        assert_eq!(server.event(), format!("with {version}"));
        drop(stdin);
        assert!(client.wait().unwrap().success());
    }
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.write_all(b"no TLS at all\n").unwrap();
    server.until("does not speak TLS");
    let mut bytes = Vec::new();
    // Ignore an error: the client gets a response, or a reset because the server has not read all data.
    let _ = plain.read_to_end(&mut bytes);
    assert!(bytes.len() < 100 && !bytes.starts_with(b"no"));
    server.signal(&["TERM"]);
    let run = server.end();
    run.expect(0, &[]);
    assert_eq!(run.stdout, "");
}

#[test]
fn openssl_client_with_old_tls_version_is_rejected() {
    if !has("openssl") {
        return;
    }
    let (mut server, address) = server("lines", "string", "1.3");
    for version in ["-tls1_2", "-tls1_1"] {
        let arguments = [version, "-cipher", "DEFAULT:@SECLEVEL=0"];
        let (mut old, _stdin) = openssl_client(&server, &address, &arguments);
        assert!(!old.wait().unwrap().success());
        server.until("older version of TLS than `min_version` allows");
    }
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}

#[test]
fn openssl_server_receives_events() {
    if !has("openssl") {
        return;
    }
    let address = free_address();
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: lines, mode: read }} }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    config:
      address: '{address}'
      tls: {{ ca_file: cert.pem, server_name: localhost }}
links: [input -> output]"
    );
    let lines: String =
        (0..20_000).flat_map(|it| [format!("line {it}"), "\n".to_owned()]).collect();
    let scene = scene(&flow).write("lines", lines.as_bytes());
    let mut peer = Command::new("openssl")
        .args(["s_server", "-quiet", "-naccept", "1", "-accept", &address])
        .args(["-cert", "cert.pem", "-key", "key.pem"])
        .current_dir(scene.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = peer.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).collect::<Vec<_>>()
    });
    // The peer may not listen yet: the client reconnects until it does.
    Running::of(scene, &["flow.yaml"], |command| command).end().expect(0, &[]);
    drop(peer.stdin.take());
    let received = reader.join().unwrap();
    peer.wait().unwrap();
    assert!(received.iter().map(String::as_str).eq(lines.lines()), "{} lines", received.len());
}

#[test]
fn messages_of_logger_arrive_over_tls_by_rfc_5425() {
    if !has("openssl") || !has("logger") {
        return;
    }
    let (server, address) = server("{ length-prefixed: { prefix: decimal } }", "syslog", "1.3");
    let (mut client, mut stdin) = openssl_client(&server, &address, &[]);
    for number in 0..3 {
        // This connector supports no TLS, so the test forwards its bytes through this listener.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut logger = Command::new("logger")
            .args(["--server", "127.0.0.1", "--port", &port, "--tcp", "--octet-count"])
            .args(["--rfc5424", "--tag", "test", &format!("message {number} of\ntwo lines")])
            .spawn()
            .unwrap();
        let mut bytes = Vec::new();
        accept_within(&listener, PATIENCE).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(logger.wait().unwrap().success());
        stdin.write_all(&bytes).unwrap();
        let event: serde_json::Value = serde_json::from_str(&server.event()).unwrap();
        let text = event.to_string();
        assert!(text.contains(&format!("message {number} of")), "{text}");
    }
    drop(stdin);
    assert!(client.wait().unwrap().success());
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}

#[test]
fn renewed_certificate_is_used_without_a_restart() {
    if !has("openssl") {
        return;
    }
    let (mut server, address) = server("lines", "string", "1.2");
    let shown = |server: &Running| {
        let script = format!(
            "openssl s_client -connect {address} </dev/null 2>/dev/null | openssl x509 -fingerprint -noout"
        );
        let folder: PathBuf = server.scene.path().to_owned();
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let first = shown(&server);
    assert!(first.contains("Fingerprint"), "{first}");
    let (certificate, key) = certificate();
    std::fs::write(server.scene.path().join("cert.pem"), certificate).unwrap();
    std::fs::write(server.scene.path().join("key.pem"), key).unwrap();
    // Repeat, because certificate files are checked at most once a second.
    wait_until(|| shown(&server) != first);
    server.until("cert.pem");
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}
