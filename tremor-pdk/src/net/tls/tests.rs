#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

mod listed;
mod unverified;

use std::{
    future::{Future, poll_fn},
    io::{self, Read, Write},
    net::{TcpListener as StdListener, TcpStream as StdStream},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};
use rustls::{ClientConfig, ClientConnection, crypto::ring, pki_types::ServerName};

use super::{
    ClientAuth, MinVersion, Tls, TlsAcceptor, TlsConnector, TlsStream, refusal::Role,
    session::Session,
};
use crate::{
    Descriptors, ErrorKind, ErrorPolicy, LogLevel, Result,
    net::{Address, TcpStream},
    testing::{
        TestHost,
        certificates::{Authority, Files, Identity, Oddity},
    },
};

type Stream = TlsStream<TcpStream>;

/// A host with certificates.
struct Scene {
    test: TestHost,
    descriptors: Descriptors,
    authority: Authority,
}

impl Scene {
    fn new() -> Self {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        Self { test, descriptors, authority: Authority::new() }
    }

    fn stream(&self, socket: StdStream) -> TcpStream {
        TcpStream::new(&self.descriptors, socket).unwrap()
    }

    fn acceptor(&self, tls: &Tls) -> TlsAcceptor {
        TlsAcceptor::new(tls, &self.test.host()).unwrap()
    }

    fn connector(&self, tls: &Tls) -> TlsConnector {
        TlsConnector::new(tls, &self.test.host(), &localhost()).unwrap()
    }

    /// Connects `client` to `server`, and returns the results of both sides, the server first.
    fn meet(
        &self,
        server: &TlsAcceptor,
        client: &TlsConnector,
    ) -> (Result<Stream>, Result<Stream>) {
        let (ours, theirs) = sockets();
        let (ours, theirs) = (self.stream(ours), self.stream(theirs));
        let both = join(server.accept(ours, &"10.0.0.7"), client.connect(theirs));
        self.test.block_on(both)
    }

    /// Returns both sides of an established connection, the server first.
    fn pair(&self) -> (Stream, Stream) {
        let files = self.authority.issue(&["localhost"]).files();
        let client = Tls { ca_file: Some(files.add("ca", self.authority.pem())), ..Tls::default() };
        let (server, client) = self.meet(&self.acceptor(&server(&files)), &self.connector(&client));
        (server.unwrap(), client.unwrap())
    }
}

/// Returns both ends of a TCP connection: of the server and of the client.
fn sockets() -> (StdStream, StdStream) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

fn localhost() -> Address {
    "localhost:6514".parse().unwrap()
}

/// Returns the configuration of a server with the certificate in `files`.
fn server(files: &Files) -> Tls {
    Tls { cert_file: Some(files.certificate()), key_file: Some(files.key()), ..Tls::default() }
}

/// Runs both futures concurrently.
async fn join<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(context)
        {
            second = Some(output);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.unwrap(), second.unwrap())
}

async fn write(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await?;
        bytes = &bytes[count..];
    }
    poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await
}

async fn read_to_end(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), [0; 1_000]);
    loop {
        let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer));
        match read.await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn close(stream: &mut Stream) -> io::Result<()> {
    poll_fn(|context| Pin::new(&mut *stream).poll_close(context)).await
}

#[test]
fn bytes_flow_both_ways_until_both_sides_close() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.pair();
    let request: Vec<_> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let answer: Vec<_> = (0..100_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let serve = async {
        let got = read_to_end(&mut server).await?;
        write(&mut server, &answer).await?;
        close(&mut server).await.map(|()| got)
    };
    let call = async {
        write(&mut client, &request).await?;
        close(&mut client).await?;
        read_to_end(&mut client).await
    };
    let (got, answered) = scene.test.block_on(join(serve, call));
    assert!(got.unwrap() == request);
    assert!(answered.unwrap() == answer);
}

#[test]
fn connection_that_is_cut_off_is_an_error() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.pair();
    scene.test.block_on(write(&mut client, b"half a li")).unwrap();
    drop(client);
    let mut buffer = [0; 100];
    let read = poll_fn(|context| Pin::new(&mut server).poll_read(context, &mut buffer));
    assert_eq!(scene.test.block_on(read).unwrap(), 9);
    let error = scene.test.block_on(read_to_end(&mut server)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("data may be missing"), "{error}");
}

#[test]
fn both_sides_agree_on_a_protocol() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let client = Tls { ca_file: Some(files.add("ca", scene.authority.pem())), ..Tls::default() };
    let acceptor = scene.acceptor(&server(&files)).with_protocols(&["http/1.1"]);
    let connector = scene.connector(&client).with_protocols(&["h2", "http/1.1"]);
    let (server, client) = scene.meet(&acceptor, &connector);
    assert_eq!(server.unwrap().protocol(), Some("http/1.1"));
    assert_eq!(client.unwrap().protocol(), Some("http/1.1"));
    let connector = scene.connector(&Tls::default()).with_protocols(&["h2"]);
    let (server, client) = scene.meet(&acceptor, &connector);
    assert!(server.unwrap_err().to_string().contains("none of the supported protocols"));
    assert!(client.unwrap_err().to_string().contains("none of the offered protocols"));
}

/// Checks that the client rejects a server with this certificate, and that the error of the client contains `what`.
#[track_caller]
fn refuses(scene: &Scene, identity: &Identity, ca: Option<&str>, what: &str) {
    let files = identity.files();
    let client = Tls { ca_file: ca.map(|ca| files.add("ca", ca)), ..Tls::default() };
    let (server, client) = scene.meet(&scene.acceptor(&server(&files)), &scene.connector(&client));
    let error = client.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AUTHENTICATION);
    assert_eq!(error.policy(), ErrorPolicy::RECONNECT, "a later attempt may succeed");
    let text = error.to_string();
    assert!(
        text.starts_with("cannot establish TLS with `localhost:6514`: its certificate "),
        "{text}"
    );
    assert!(text.contains(what), "{text}");
    let error = server.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
    assert!(error.to_string().starts_with("cannot establish TLS with 10.0.0.7: it "), "{error}");
}

#[test]
fn untrusted_server_is_rejected_with_the_reason() {
    let scene = Scene::new();
    let (ca, names) = (scene.authority.pem(), &["localhost"][..]);
    let odd = |oddity| scene.authority.issue_odd(names, oddity);
    refuses(&scene, &odd(Oddity::Expired), Some(ca), "expired 9");
    refuses(&scene, &odd(Oddity::NotValidYet), Some(ca), "is only valid in 3");
    let other = Authority::new();
    refuses(&scene, &other.issue(names), Some(ca), "`ca_file` does not contain it");
    refuses(&scene, &other.issue(names), None, "the system does not trust it");
    refuses(&scene, &Identity::self_signed(names), Some(ca), "is self-signed");
    let elsewhere = scene.authority.issue(&["a.example", "b.example"]);
    refuses(&scene, &elsewhere, Some(ca), "is not for `localhost`");
    refuses(&scene, &elsewhere, Some(ca), "\"a.example\"");
    refuses(&scene, &Identity::self_signed(&[]), Some(ca), "is self-signed");
    let of_ca = scene.authority.issue_odd(names, Oddity::Authority);
    refuses(&scene, &of_ca, Some(ca), "set `ca_file` to its file");
}

#[test]
fn configured_self_signed_certificate_and_name_are_trusted() {
    let scene = Scene::new();
    let identity = Identity::self_signed(&["a.example"]);
    let files = identity.files();
    let client = Tls {
        ca_file: Some(files.certificate()),
        server_name: Some("a.example".to_owned()),
        ..Tls::default()
    };
    let (server, client) = scene.meet(&scene.acceptor(&server(&files)), &scene.connector(&client));
    server.unwrap();
    client.unwrap();
}

#[test]
fn clients_show_certificate_if_server_requires_it() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let ca = files.add("ca", scene.authority.pem());
    let good = scene.authority.issue(&["a client"]).files();
    let expired = scene.authority.issue_odd(&["a client"], Oddity::Expired).files();
    let unknown = Authority::new().issue(&["a client"]).files();
    let alone = Identity::self_signed(&["a client"]).files();
    let meet = |auth, own: Option<&Files>| {
        let server = Tls { ca_file: Some(ca.clone()), client_auth: Some(auth), ..server(&files) };
        let own = own.map(server_of).unwrap_or_default();
        let client = Tls { ca_file: Some(ca.clone()), ..own };
        scene.meet(&scene.acceptor(&server), &scene.connector(&client))
    };
    for (auth, own, what) in [
        (ClientAuth::Required, None, "it presented no certificate"),
        (ClientAuth::Required, Some(&expired), "its certificate expired"),
        (ClientAuth::Required, Some(&unknown), "`ca_file` does not contain it"),
        (ClientAuth::Optional, Some(&unknown), "`ca_file` does not contain it"),
        (ClientAuth::Required, Some(&alone), "is self-signed"),
    ] {
        let (server, client) = meet(auth, own);
        let error = server.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot establish TLS with 10.0.0.7: it") && error.contains(what),
            "{error}"
        );
        // With TLS 1.3, a client notices only when it reads that its certificate was rejected.
        let error = scene.test.block_on(read_to_end(&mut client.unwrap())).unwrap_err().to_string();
        assert!(error.contains("certificate") && error.contains("(alert "), "{error}");
    }
    for (auth, own) in [(ClientAuth::Required, Some(&good)), (ClientAuth::Optional, None)] {
        let (server, client) = meet(auth, own);
        server.unwrap();
        client.unwrap();
    }
}

fn server_of(files: &Files) -> Tls {
    server(files)
}

#[test]
fn peer_with_old_version_is_rejected() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let acceptor = scene.acceptor(&Tls { min_version: MinVersion::Tls13, ..server(&files) });
    let old = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(old), name).unwrap();
    let role = Role::Client { has_ca_file: true, has_certificate: false };
    let session = Session::new(session.into(), role);
    let (ours, theirs) = sockets();
    let (ours, theirs) = (scene.stream(ours), scene.stream(theirs));
    let host = scene.test.host();
    let both = join(
        acceptor.accept(ours, &"10.0.0.7"),
        TlsStream::handshake(&host, theirs, session, role),
    );
    let (server, client) = scene.test.block_on(both);
    let error = server.unwrap_err().to_string();
    assert!(error.contains("older version of TLS than `min_version` allows"), "{error}");
    let error = client.unwrap_err().to_string();
    assert!(error.contains("check `min_version` of both sides"), "{error}");
}

#[test]
fn peer_without_tls_is_rejected() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let acceptor = scene.acceptor(&server(&files));
    for text in [&b"<34>1 - - a line\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 100]] {
        let (ours, mut theirs) = sockets();
        theirs.write_all(text).unwrap();
        let accepted = scene.test.block_on(acceptor.accept(scene.stream(ours), &"10.0.0.7"));
        let error = accepted.unwrap_err().to_string();
        assert!(error.contains("it does not speak TLS, which this port requires"), "{error}");
    }
    let (mut ours, theirs) = sockets();
    ours.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    let connector = scene.connector(&Tls::default());
    let error = scene.test.block_on(connector.connect(scene.stream(theirs))).unwrap_err();
    assert!(error.to_string().contains("it does not speak TLS: check the port"), "{error}");
    let (ours, theirs) = sockets();
    drop(ours);
    let error = scene.test.block_on(connector.connect(scene.stream(theirs))).unwrap_err();
    assert!(error.to_string().contains("during the TLS handshake"), "{error}");
}

#[test]
fn silent_peer_times_out_without_delaying_others() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let ca = files.add("ca", scene.authority.pem());
    let acceptor = scene.acceptor(&server(&files));
    let connector = scene.connector(&Tls { ca_file: Some(ca), ..Tls::default() });
    let (ours, mut silent) = sockets();
    let mut first = pin!(acceptor.accept(scene.stream(ours), &"10.0.0.6"));
    let before = scene.test.now_ns();
    let both =
        join(poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())), async {
            scene.meet_again(&acceptor, &connector).await
        });
    let (waits, met) = scene.test.block_on(both);
    assert!(waits && met.0.is_ok() && met.1.is_ok());
    assert_eq!(scene.test.now_ns(), before, "the other connection did not wait");
    let error = scene.test.block_on(first).unwrap_err().to_string();
    assert!(error.contains("within ten seconds"), "{error}");
    assert_eq!(scene.test.now_ns() - before, 10_000_000_000);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "the connection of the silent peer is closed");
}

impl Scene {
    async fn meet_again(
        &self,
        server: &TlsAcceptor,
        client: &TlsConnector,
    ) -> (Result<Stream>, Result<Stream>) {
        let (ours, theirs) = sockets();
        let (ours, theirs) = (self.stream(ours), self.stream(theirs));
        join(server.accept(ours, &"10.0.0.7"), client.connect(theirs)).await
    }
}

#[test]
fn renewed_certificate_is_used_by_next_connection() {
    let scene = Scene::new();
    let files = scene.authority.issue_odd(&["localhost"], Oddity::Expired).files();
    let ca = files.add("ca", scene.authority.pem());
    let acceptor = scene.acceptor(&server(&files));
    let connector = scene.connector(&Tls { ca_file: Some(ca.clone()), ..Tls::default() });
    assert!(scene.meet(&acceptor, &connector).1.is_err());
    files.replace(&scene.authority.issue(&["localhost"]));
    assert!(
        scene.meet(&acceptor, &connector).1.is_err(),
        "the files were checked less than a second ago"
    );
    scene.test.advance(Duration::from_secs(1));
    scene.meet(&acceptor, &connector).1.unwrap();
    assert!(scene.test.log().iter().any(|(_, line)| line.contains("certificate.pem")));
    // The CAs of a client are reloaded in the same way.
    let other = Authority::new();
    files.replace(&other.issue(&["localhost"]));
    std::fs::write(ca, other.pem()).unwrap();
    scene.test.advance(Duration::from_secs(1));
    scene.meet(&acceptor, &connector).1.unwrap();
}

#[test]
fn invalid_renewal_is_ignored_and_logged_once_a_minute() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let ca = files.add("ca", scene.authority.pem());
    let acceptor = scene.acceptor(&server(&files));
    let connector = scene.connector(&Tls { ca_file: Some(ca), ..Tls::default() });
    scene.meet(&acceptor, &connector).1.unwrap();
    // Half of a renewal: the key does not belong to the certificate.
    std::fs::write(files.key(), scene.authority.issue(&["localhost"]).key).unwrap();
    for _ in 0..3 {
        scene.test.advance(Duration::from_secs(2));
        scene.meet(&acceptor, &connector).1.unwrap();
    }
    let log = scene.test.log();
    let warned: Vec<_> = log.iter().filter(|(level, _)| *level == LogLevel::WARN).collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].1.contains("key.pem") && warned[0].1.contains("stays in use"), "{warned:?}");
}

#[test]
fn unusable_files_are_configuration_errors() {
    let scene = Scene::new();
    let good = scene.authority.issue(&["localhost"]).files();
    let load = |tls: &Tls| scene.test.block_on(scene.acceptor(tls).load()).unwrap_err();
    let text = good.add("text", "no PEM at all");
    let encrypted = good.add(
        "encrypted",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let other = Authority::new().issue(&["localhost"]).files();
    let missing = good.folder().join("missing.pem");
    for (certificate, key, what) in [
        (missing.clone(), good.key(), "missing.pem"),
        (text.clone(), good.key(), "no `BEGIN CERTIFICATE`"),
        (good.certificate(), text, "no `BEGIN PRIVATE KEY`"),
        (good.certificate(), encrypted, "`openssl pkey`"),
        (good.certificate(), other.key(), "does not belong to the certificate"),
    ] {
        let tls = Tls { cert_file: Some(certificate), key_file: Some(key), ..Tls::default() };
        let error = load(&tls);
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn invalid_server_name_is_a_configuration_error() {
    let scene = Scene::new();
    let tls = Tls { server_name: Some("no name".to_owned()), ..Tls::default() };
    let error = TlsConnector::new(&tls, &scene.test.host(), &localhost()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert!(error.to_string().contains("`server_name`"), "{error}");
}
