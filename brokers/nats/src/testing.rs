//! A NATS server with the minimum that unit tests need. It accepts any client. It has a stream that stores messages
//! with every subject except `nobody`, and that rejects payloads that begin with `full`. Messages to `service` are
//! answered as by a service instead of a stream.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use async_nats::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tremor_pdk::testing::certificates::Files;

/// Payloads that a stream has stored, in order.
pub(crate) type Stream = Arc<Mutex<Vec<String>>>;

/// Starts a server, which runs until the process ends, and returns its address.
pub(crate) fn server() -> String {
    server_of(&Stream::default())
}

/// Starts a server whose stream the test can read, and returns its address.
pub(crate) fn server_of(stream: &Stream) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stored = stream.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stored = stored.clone();
            // The thread ends when its client disconnects.
            thread::spawn(move || serve(stream, &stored));
        }
    });
    address
}

/// Starts a TLS server with this certificate, which only performs the handshake of NATS with each client. Returns the
/// port. The server runs until the process ends.
pub(crate) fn tls_server(files: &Files) -> u16 {
    let certificate = CertificateDer::from_pem_file(files.certificate()).unwrap();
    let key = PrivateKeyDer::from_pem_file(files.key()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || serve_tls(stream, config));
        }
    });
    port
}

fn serve_tls(mut stream: TcpStream, config: Arc<ServerConfig>) -> Option<()> {
    let info = r#"{"server_id":"T","server_name":"t","version":"2.15.0","go":"","host":"127.0.0.1","port":1,"headers":true,"max_payload":1000,"proto":1,"client_id":1,"tls_required":true}"#;
    write!(stream, "INFO {info}\r\n").ok()?;
    let connection = ServerConnection::new(config).ok()?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.starts_with("PING") {
            stream.get_mut().write_all(b"PONG\r\n").ok()?;
        }
    }
}

fn serve(stream: TcpStream, stored: &Stream) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    let info = r#"{"server_id":"T","server_name":"t","version":"2.15.0","go":"","host":"127.0.0.1","port":1,
        "headers":true,"max_payload":1000,"proto":1,"client_id":1}"#;
    write!(output, "INFO {}\r\n", info.replace('\n', "")).ok()?;
    let mut subscriptions = HashMap::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["PING"] => output.write_all(b"PONG\r\n").ok()?,
            ["SUB", subject, .., id] => {
                let prefix = subject.trim_end_matches(['*', '>']).to_owned();
                subscriptions.insert(prefix, (*id).to_owned());
            }
            ["PUB" | "HPUB", subject, more @ .., length] => {
                let mut payload = vec![0; length.parse::<usize>().ok()? + 2];
                input.read_exact(&mut payload).ok()?;
                // A request has one more word before the length of the payload: the reply subject. HPUB also has the
                // length of the headers there.
                let is_asked = more.len() == 1 + usize::from(words[0] == "HPUB");
                let to = if is_asked { more[0] } else { subject };
                let id = subscriptions.iter().find(|(prefix, _)| to.starts_with(*prefix));
                // The message needs no answer, and nobody subscribes to its subject.
                let Some((_, id)) = id else { continue };
                let payload = String::from_utf8_lossy(&payload[..payload.len() - 2]).into_owned();
                let answer = match *subject {
                    "nobody" => {
                        let status = "NATS/1.0 503\r\n\r\n";
                        let length = status.len();
                        write!(output, "HMSG {to} {id} {length} {length}\r\n{status}\r\n").ok()?;
                        continue;
                    }
                    "service" => "hello".to_owned(),
                    _ if !is_asked => payload,
                    _ if payload.starts_with("full") => r#"{"error":{"code":503,"err_code":10077,
                        "description":"maximum messages exceeded"},"stream":"S","seq":0}"#
                        .to_owned(),
                    _ => {
                        let mut stored = stored.lock().ok()?;
                        stored.push(payload);
                        format!("{{\"stream\":\"S\",\"seq\":{}}}", stored.len())
                    }
                };
                write!(output, "MSG {to} {id} {}\r\n{answer}\r\n", answer.len()).ok()?;
            }
            _ => {}
        }
    }
}
