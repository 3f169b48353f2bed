//! As much of a server as unit tests need: it takes whoever comes, and a stream that takes all subjects but `nobody`.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

/// Starts one, which ends with the process, and gives its address.
pub(crate) fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away ends its thread.
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(stream: TcpStream) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    let info = r#"{"server_id":"T","server_name":"t","version":"2.15.0","go":"","host":"127.0.0.1","port":1,
        "headers":true,"max_payload":1000,"proto":1,"client_id":1}"#;
    write!(output, "INFO {}\r\n", info.replace('\n', "")).ok()?;
    let (mut subscriptions, mut number) = (HashMap::new(), 0);
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
                let Some(reply) = rest.first().filter(|_| is_asked) else { continue };
                let id = subscriptions.iter().find(|(prefix, _)| reply.starts_with(*prefix))?.1;
                number += 1;
                if *subject == "nobody" {
                    let status = "NATS/1.0 503\r\n\r\n";
                    let length = status.len();
                    write!(output, "HMSG {reply} {id} {length} {length}\r\n{status}\r\n").ok()?;
                } else {
                    let answer = format!("{{\"stream\":\"S\",\"seq\":{number}}}");
                    write!(output, "MSG {reply} {id} {}\r\n{answer}\r\n", answer.len()).ok()?;
                }
            }
            _ => {}
        }
    }
}
