//! Tests of Unix sockets for datagrams with the real program, and with `logger` as the sender, which writes messages as
//! `syslog(3)` does.

use std::{
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    process::Command,
};

use serde_json::{Value, json};

use crate::{running::Running, tls::has, tremor::Scene};

/// Starts a flow that receives messages of syslog at the path `log`, and waits until its socket exists.
fn server() -> Running {
    let flow = "connectors:
  input: { type: unix_server, codec: syslog, config: { listen: log, kind: datagram, mode: '0666' } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output, input/err -> output]";
    let mut run = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    run.until("listens on ");
    run
}

#[track_caller]
fn expect_event(run: &Running, appname: &str, procid: Option<&str>, msg: &str) {
    let event: Value = serde_json::from_str(&run.event()).unwrap();
    assert_eq!(
        (&event["appname"], &event["procid"], &event["msg"], event.get("hostname")),
        (&json!(appname), &json!(procid), &json!(msg), None),
        "{event}"
    );
}

#[test]
fn messages_of_programs_are_read_from_a_datagram_socket() {
    let run = server();
    let path = run.scene.path().join("log");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    let client = UnixDatagram::unbound().unwrap();
    client.connect(&path).unwrap();
    // Messages of `syslog(3)` in glibc, musl and BusyBox. Some programs end them with a line feed or a NUL.
    for (message, appname, procid, msg) in [
        (&b"<13>Nov 29 08:00:00 app[71]: started"[..], "app", Some("71"), "started"),
        (b"<13>Nov 29 08:00:00 app: started\n", "app", None, "started"),
        (
            b"<86>Nov  9 08:00:00 sshd[7]: Accepted key for a: b\0",
            "sshd",
            Some("7"),
            "Accepted key for a: b",
        ),
        (b"<13>Nov 29 08:00:00 my-app[1]: two\nlines\n\0", "my-app", Some("1"), "two\nlines"),
    ] {
        client.send(message).unwrap();
        expect_event(&run, appname, procid, msg);
    }
    if has("logger") {
        let logger = |options: &[&str]| {
            let sent = Command::new("logger").args(["-d", "-u"]).arg(&path).args(options).status();
            assert!(sent.unwrap().success());
        };
        logger(&["-t", "backup", "--id=4711", "done: é"]);
        expect_event(&run, "backup", Some("4711"), "done: é");
        logger(&["-t", "backup", "no id"]);
        expect_event(&run, "backup", None, "no id");
    }
    run.signal(&["TERM"]);
    run.end().expect(0, &[]);
    assert!(!path.exists(), "the socket is removed with the server");
}

#[test]
fn client_sends_datagrams_to_the_socket_of_a_server() {
    let server = server();
    let path = server.scene.path().join("log");
    let lines: Vec<String> = (0..1_000)
        .map(|number| format!("{{\"appname\":\"app\",\"procid\":\"7\",\"msg\":\"{number}\"}}\n"))
        .collect();
    let lines = lines.concat();
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: read }} }}
  output: {{ type: unix_client, codec: syslog, config: {{ path: '{}', kind: datagram }} }}
links: [input -> output]",
        path.display()
    );
    let client = Scene::new(&flow).write("in", lines.as_bytes());
    client.run().expect(0, &["1000 events in, 1000 out"]);
    for number in 0..1_000 {
        expect_event(&server, "app", Some("7"), &number.to_string());
    }
    server.signal(&["TERM"]);
    server.end().expect(0, &["1000 events in"]);
}

#[test]
fn check_finds_keys_and_sides_that_datagrams_do_not_have() {
    for (connectors, expected) in [
        (
            "  a: { type: unix_server, codec: string, config: { listen: s, kind: datagram, idle_timeout: 1s } }
  b: { type: 'null' }",
            "has no connections; remove the key",
        ),
        (
            "  a: { type: unix_client, codec: string, config: { path: s, kind: datagram } }
  b: { type: 'null' }",
            "source",
        ),
        (
            "  a: { type: unix_server, codec: string, config: { listen: s, kind: packets } }
  b: { type: 'null' }",
            "datagram",
        ),
    ] {
        let flow = format!("connectors:\n{connectors}\nlinks: [a -> b]");
        let check = Scene::new(&flow).tremor(&["check", "flow.yaml"]);
        assert!(check.status != Some(0) && check.stderr.contains(expected), "{}", check.stderr);
    }
}
