//! As much of a server as unit tests need: it takes any client, and a stream that takes all subjects but `nobody`,
//! and no payload that begins with `full`. To `service` something else answers.

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

/// The payloads that a stream has, in its order.
pub(crate) type Stream = Arc<Mutex<Vec<String>>>;

/// Starts one, which ends with the process, and gives its address.
pub(crate) fn server() -> String {
    server_of(&Stream::default())
}

/// The same with a stream that somebody looks at.
pub(crate) fn server_of(stream: &Stream) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let has = stream.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let has = has.clone();
            // A client that goes away ends its thread.
            thread::spawn(move || serve(stream, &has));
        }
    });
    address
}

/// Starts a server that asks for TLS with this certificate, and answers what a client asks when it connects. Returns its
/// port. The server ends with the process.
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

fn serve(stream: TcpStream, has: &Stream) -> Option<()> {
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
            ["PUB" | "HPUB", subject, rest @ .., length] => {
                let mut payload = vec![0; length.parse::<usize>().ok()? + 2];
                input.read_exact(&mut payload).ok()?;
                // With a reply, and headers have a length of their own.
                let is_asked = rest.len() == 1 + usize::from(words[0] == "HPUB");
                let to = if is_asked { rest[0] } else { subject };
                let id = subscriptions.iter().find(|(prefix, _)| to.starts_with(*prefix));
                // Without an answer, and to nobody who listens.
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
                        let mut has = has.lock().ok()?;
                        has.push(payload);
                        format!("{{\"stream\":\"S\",\"seq\":{}}}", has.len())
                    }
                };
                write!(output, "MSG {to} {id} {}\r\n{answer}\r\n", answer.len()).ok()?;
            }
            _ => {}
        }
    }
}
