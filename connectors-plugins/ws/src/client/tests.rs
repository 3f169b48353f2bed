mod autobahn;

use std::{future::Future, pin::pin, thread};

use tremor_pdk::{
    Descriptors, ErrorKind, ErrorPolicy, EventRef, Host, Result, Task,
    net::{
        TcpListener, TcpStream,
        futures_io::{AsyncRead, AsyncWrite},
        tls::{Tls, TlsAcceptor},
    },
    testing::{Connection, TestHost, batch_of, certificates::Authority, conformance},
};
use tungstenite::handshake::derive_accept_key;

use super::WsClient;
use crate::session::{read_head, write_all};

/// Starts a peer as a task of the test host, and returns the peer's address. The peer serves its
/// first connection with `serves`. Time passes only while all tasks are idle.
fn peer<F: Future<Output = ()> + Send + 'static>(
    test: &TestHost,
    serves: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (String, Task) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let host: Host = test.host();
    let task = test.host().spawn("peer", async move {
        let listener = TcpListener::new(&Descriptors::new(&host).unwrap(), listener).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        serves(stream).await;
        // The peer keeps its connection open.
        std::future::pending::<()>().await;
    });
    (address, task)
}

/// Accepts a WebSocket handshake. Returns the request.
async fn agree<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> String {
    let (bytes, _) = read_head(stream).await.unwrap();
    let head = String::from_utf8(bytes).unwrap();
    let key = head.split("Sec-WebSocket-Key: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: keep-alive\r\nconnection: upgrade\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    write_all(stream, answer.as_bytes()).await.unwrap();
    head
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let read = std::future::poll_fn(|context| {
            pin!(&mut *stream).poll_read(context, &mut bytes[done..])
        });
        match read.await.unwrap() {
            0 => panic!("the client closed the connection after {:?}", &bytes[..done]),
            more => done += more,
        }
    }
    bytes
}

/// Reads a short frame of the client, and returns its first byte and the unmasked payload.
async fn frame<S: AsyncRead + Unpin>(stream: &mut S) -> (u8, Vec<u8>) {
    let head = read(stream, 6).await;
    assert_eq!(head[1] & 0x80, 0x80, "a client masks its frames");
    let payload = read(stream, usize::from(head[1] & 0x7f)).await;
    let masked = payload.iter().enumerate();
    (head[0], masked.map(|(at, byte)| byte ^ head[2 + at % 4]).collect())
}

fn connect(test: &TestHost, url: &str, keys: &str) -> Result<Connection> {
    test.connect::<WsClient>(&format!(r#"{{ "url": "{url}", "ping_interval": null {keys} }}"#))
}

/// Pulls the next `count` messages.
fn pull(connection: &mut Connection, count: usize) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while all.len() < count {
        let (_, batch) = connection.pull()?;
        all.extend(batch.iter().filter_map(EventRef::raw).map(<[u8]>::to_vec));
    }
    Ok(all)
}

#[test]
fn messages_are_exchanged_until_a_close_frame() -> Result<()> {
    let test = TestHost::new();
    let (address, peer) = peer(&test, |mut stream| async move {
        let head = agree(&mut stream).await;
        for line in
            ["GET /events?a=b HTTP/1.1\r\n", "x-key: 7\r\n", "authorization: Basic bWU6aXQ=\r\n"]
        {
            assert!(head.contains(line), "{head}");
        }
        write_all(&mut stream, b"\x81\x02hi\x82\x01\xff\x89\x01?").await.unwrap();
        assert_eq!(frame(&mut stream).await, (0x8a, b"?".to_vec()));
        assert_eq!(frame(&mut stream).await, (0x81, b"one".to_vec()));
        assert_eq!(frame(&mut stream).await, (0x81, b"two".to_vec()));
        write_all(&mut stream, b"\x81\x04done").await.unwrap();
        assert_eq!(frame(&mut stream).await, (0x88, b"\x03\xe8the flow has ended".to_vec()));
        write_all(&mut stream, b"\x88\x02\x03\xe8").await.unwrap();
    });
    let auth =
        r#", "headers": { "X-Key": "7" }, "auth": { "basic": { "user": "me", "password": "it" } }"#;
    let mut client = connect(&test, &format!("ws://{address}/events?a=b"), auth)?;
    assert_eq!(pull(&mut client, 2)?, [b"hi".to_vec(), vec![0xff]]);
    client.deliver(&batch_of(&[b"one", b"two"])).unwrap();
    assert_eq!(pull(&mut client, 1)?, [b"done"]);
    client.stop()?;
    drop(peer);
    Ok(())
}

#[test]
fn event_that_is_not_text_needs_binary_frames() -> Result<()> {
    let test = TestHost::new();
    let (address, _peer) = peer(&test, |mut stream| async move {
        agree(&mut stream).await;
        assert_eq!(frame(&mut stream).await, (0x81, b"one".to_vec()));
        write_all(&mut stream, b"\x81\x00").await.unwrap();
    });
    let mut client = connect(&test, &format!("ws://{address}"), "")?;
    let undelivered =
        client.deliver(&batch_of::<&[u8]>(&[b"\xff", b"one"])).unwrap_err().into_error();
    assert_eq!(undelivered.kind(), ErrorKind::BAD_DATA);
    assert_eq!(pull(&mut client, 1)?, [b""]);
    let (address, _peer) = self::peer(&test, |mut stream| async move {
        agree(&mut stream).await;
        assert_eq!(frame(&mut stream).await, (0x82, b"\xff".to_vec()));
        write_all(&mut stream, b"\x81\x00").await.unwrap();
    });
    let mut client = connect(&test, &format!("ws://{address}"), r#", "frames": "binary""#)?;
    client.deliver(&batch_of(&[b"\xff"])).unwrap();
    assert_eq!(pull(&mut client, 1)?, [b""]);
    Ok(())
}

/// A ping of 126 bytes, which is one byte too long.
const LONG_PING: [u8; 130] = {
    let mut frame = [0; 130];
    (frame[0], frame[1], frame[3]) = (0x89, 0x7e, 0x7e);
    frame
};

#[test]
fn end_of_connection_is_reported_after_last_message() -> Result<()> {
    let breaks = "the peer violated the protocol";
    let ends: [(&[u8], &str, bool); 16] = [
        (b"\x88\x06\x03\xf4full", "the peer closed the connection (1012: full)", false),
        (b"\x88\x00", "the peer closed the connection (without a code)", false),
        // Masked frames of data, ping and close; a reserved bit; reserved opcodes of data and
        // control frames;
        (b"\x81\x81\0\0\0\0x", breaks, true),
        (b"\x89\x81\0\0\0\0x", breaks, true),
        (b"\x88\x82\0\0\0\0\x03\xe8", breaks, true),
        (b"\xc1\x01x", breaks, true),
        (b"\x83\x01x", breaks, true),
        (b"\x8b\x01x", breaks, true),
        // a fragmented ping, and a ping that is too long;
        (b"\x09\x01x", breaks, true),
        (&LONG_PING, breaks, true),
        // a continuation without a start, and a message within another one;
        (b"\x80\x01x", breaks, true),
        (b"\x01\x01x\x81\x01y", breaks, true),
        // text that is not UTF-8, also if the end of a character is missing;
        (b"\x81\x02\xff\xfe", breaks, true),
        (b"\x01\x01\xc3\x80\x00", breaks, true),
        // and a close of one byte.
        (b"\x88\x01x", breaks, true),
        (b"\x88\x02\x03\xe8", "the peer closed the connection (1000)", false),
    ];
    for (bytes, why, is_aborted) in ends {
        let test = TestHost::new();
        let (address, _peer) = peer(&test, move |mut stream| async move {
            agree(&mut stream).await;
            write_all(&mut stream, b"\x81\x04last").await.unwrap();
            write_all(&mut stream, bytes).await.unwrap();
            let (opcode, _) = frame(&mut stream).await;
            assert_eq!(opcode, 0x88, "the client answers with a close frame");
        });
        let mut client = connect(&test, &format!("ws://{address}/?secret"), "")?;
        assert_eq!(pull(&mut client, 1)?, [b"last"]);
        let error = loop {
            match client.pull() {
                Ok((_, batch)) => {
                    let end = batch.iter().next_back().unwrap();
                    assert_eq!((end.is_stream_end(), end.is_stream_aborted()), (true, is_aborted));
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        let error = client.deliver(&batch_of(&[b"late"])).unwrap_err().into_error();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
        assert_eq!(test.connections_lost(), 0, "the source has reported the end and its reason");
    }
    Ok(())
}

#[test]
fn rejected_handshake_is_an_error_with_the_response() {
    let cases = [
        (
            "HTTP/1.1 401 Unauthorized\r\n\r\n",
            ErrorKind::AUTHENTICATION,
            "401 Unauthorized; check `auth`",
        ),
        ("HTTP/1.1 403 No\r\n\r\n", ErrorKind::AUTHENTICATION, "403 Forbidden; check `auth`"),
        ("HTTP/1.1 404 Not Found\r\n\r\n", ErrorKind::CONNECTION_REFUSED, "404 Not Found"),
        ("HTTP/1.1 503 No\r\nRetry-After: 7\r\n\r\n", ErrorKind::CONNECTION_REFUSED, "503"),
        ("HTTP/1.1 101 Yes\r\n\r\n", ErrorKind::CONNECTION_REFUSED, "invalid `Upgrade`"),
        (
            "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            ErrorKind::CONNECTION_REFUSED,
            "invalid `Sec-WebSocket-Accept`",
        ),
        ("SSH-2.0-OpenSSH\r\n\r\n", ErrorKind::CONNECTION_REFUSED, "the response is not HTTP/1.1"),
        ("", ErrorKind::CONNECTION_REFUSED, "did not answer the handshake within 10s"),
    ];
    for (answer, kind, expected) in cases {
        let test = TestHost::new();
        let (address, _peer) = peer(&test, move |mut stream| async move {
            read_head(&mut stream).await.unwrap();
            write_all(&mut stream, answer.as_bytes()).await.unwrap();
            // The peer sends nothing more.
            std::future::pending::<()>().await;
        });
        let error = connect(&test, &format!("ws://{address}/a?secret"), "").err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(&format!("`ws://{address}/a`")), "{error}");
        assert_eq!(error.policy(), ErrorPolicy::RECONNECT, "{error}");
        if expected == "503" {
            assert_eq!(error.delay(), std::time::Duration::from_secs(7));
        }
    }
}

#[test]
fn peer_is_verified_over_tls() -> Result<()> {
    let authority = Authority::new();
    let files = authority.issue(&["localhost"]).files();
    let root = files.add("root.pem", authority.pem());
    let tls =
        Tls { cert_file: Some(files.certificate()), key_file: Some(files.key()), ..Tls::default() };
    for is_trusted in [true, false] {
        let test = TestHost::new();
        let acceptor = TlsAcceptor::new(&tls, &test.host())?;
        let (address, _peer) = peer(&test, move |stream| async move {
            let Ok(mut stream) = acceptor.accept(stream, &"client").await else { return };
            agree(&mut stream).await;
            write_all(&mut stream, b"\x81\x06secret").await.unwrap();
        });
        let port = address.rsplit(':').next().unwrap();
        let keys = if is_trusted {
            format!(r#", "tls": {{ "ca_file": "{}" }}"#, root.display())
        } else {
            String::new()
        };
        let client = connect(&test, &format!("wss://localhost:{port}/"), &keys);
        if is_trusted {
            assert_eq!(pull(&mut client?, 1)?, [b"secret"]);
        } else {
            let error = client.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::AUTHENTICATION, "{error}");
        }
    }
    Ok(())
}

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    let cases = [
        (r#""url": "http://a/""#, "starts with neither `ws://`"),
        (r#""url": "ws:///x""#, "invalid `url`"),
        (r#""url": "ws://a:99999/""#, "invalid `url`"),
        (r#""url": "ws://me:it@a/""#, "set with `auth`"),
        (r#""url": "ws://a/", "headers": { "a b": "c" }"#, "`a b` has an invalid name"),
        (
            r#""url": "ws://a/", "headers": { "a": "c\r\nd: e" }"#,
            "`a` has a value with invalid characters",
        ),
        (
            r#""url": "ws://a/", "headers": { "Host": "b" }"#,
            "`Host` is set by the handshake itself",
        ),
        (
            r#""url": "ws://a/", "auth": { "basic": { "user": "a:b", "password": "" } }"#,
            "without a colon",
        ),
        (r#""url": "ws://a/", "tls": {}"#, "expected `wss://`"),
    ];
    for (keys, expected) in cases {
        let error = TestHost::new().component::<WsClient>(&format!("{{ {keys} }}")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{keys}: {error}");
        assert!(error.to_string().contains(expected), "{keys}: {error}");
    }
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<WsClient>(r#"{ "url": "ws://127.0.0.1:9/" }"#).expect_no_faults();
}

#[test]
fn client_of_a_real_peer_passes_all_checks() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(r#"{{ "url": "ws://{}/" }}"#, listener.local_addr().unwrap());
    thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            thread::spawn(move || {
                // A client may be dropped during its handshake.
                let Ok(mut peer) = tungstenite::accept(peer) else { return };
                for number in 0..100 {
                    let message = format!("message {number}").into();
                    if peer.send(tungstenite::Message::Text(message)).is_err() {
                        return;
                    }
                }
                while peer.read().is_ok() {}
            });
        }
    });
    conformance::connector::<WsClient>(&config).expect_all_but(&[
        "stays_inside",
        "leaves_nothing",
        "stays_finished",
        "accepts_acknowledgements",
        "flushes",
        "reads_again",
        "takes_several",
    ]);
}
