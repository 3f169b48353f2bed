//! Tests of syslog with the programs `logger`, rsyslog and syslog-ng, over UDP, and over TCP in both framings (lines,
//! and counted octets). `syslog_tls` has tests over TLS.
//!
//! If a program is missing, the tests with it are skipped, and a message is printed. `TREMOR_RSYSLOGD` and
//! `TREMOR_SYSLOG_NG` name the programs if they are not on the path, and `TREMOR_RSYSLOG_MODULES` the folder of
//! rsyslog's modules.

use std::{
    fmt::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    peer::{free_port, listens, rsyslog, syslog_ng, wait_until},
    running::Running,
    tremor::Scene,
};

/// A flow with a server for each transport and framing. Each event contains the name of its server.
const SERVERS: &str = "connectors:
  lines:
    type: tcp_server
    preprocessors: [lines]
    codec: syslog
    config: { listen: '127.0.0.1:0' }
  counted:
    type: tcp_server
    preprocessors: [{ length-prefixed: { prefix: decimal } }]
    codec: syslog
    config: { listen: '127.0.0.1:0' }
  datagrams: { type: udp_server, codec: syslog, config: { listen: '127.0.0.1:0' } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [lines -> output, counted -> output, datagrams -> output, lines/err -> output,
  counted/err -> output, datagrams/err -> output]";

/// A flow that receives from peers.
struct Servers {
    run: Running,
    lines: String,
    counted: String,
    datagrams: String,
}

impl Servers {
    fn start() -> Self {
        let mut run = Running::of(Scene::new(SERVERS), &["flow.yaml"], |command| command);
        let [mut lines, mut counted, mut datagrams] = [const { String::new() }; 3];
        for _ in 0..3 {
            let (address, component) = run.listens();
            let port = address.rsplit_once(':').unwrap().1.to_owned();
            match component {
                _ if component.contains("lines") => lines = port,
                _ if component.contains("counted") => counted = port,
                _ => datagrams = port,
            }
        }
        Self { run, lines, counted, datagrams }
    }

    /// Returns the next `count` events, sorted by their texts, because events of different connections have no order.
    fn events(&self, count: usize) -> Vec<Value> {
        let event = || serde_json::from_str(&self.run.event()).unwrap();
        let mut events: Vec<Value> = std::iter::repeat_with(event).take(count).collect();
        events.sort_by_key(|event| event["msg"].as_str().unwrap_or_default().trim().to_owned());
        events
    }

    fn end(self) {
        self.run.signal(&["TERM"]);
        let run = self.run.end();
        run.expect(0, &[" 0 dead-lettered"]);
        assert_eq!(run.stdout, "", "there are no other events");
    }
}

/// Sends with `logger`. Returns whether `logger` is installed.
fn logger(port: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new("logger");
    command.args(["--server", "127.0.0.1", "--port", port, "--tag", "prog"]).args(arguments);
    let Ok(status) = command.stdin(Stdio::null()).status() else {
        eprintln!("SKIPPED: logger is not installed (Debian's package bsdutils)");
        return false;
    };
    assert!(status.success(), "{arguments:?}");
    true
}

/// Returns the event without the fields that depend on the time and the machine.
fn stable(event: &Value) -> Value {
    let mut event = event.clone();
    let object = event.as_object_mut().unwrap();
    assert!(object.remove("hostname").is_some_and(|host| host.is_string()), "{object:?}");
    assert!(object.remove("timestamp").is_some_and(|time| time.is_i64()), "{object:?}");
    event
}

#[test]
fn logger_is_received_over_udp_and_tcp_in_all_forms() {
    let servers = Servers::start();
    let sends: [(&str, &[&str]); 7] = [
        (&servers.lines, &["--tcp", "--id=42", "1 über TCP"]),
        (&servers.lines, &["--tcp", "--rfc3164", "--id=42", "--priority", "local3.debug", "2"]),
        (&servers.counted, &["--tcp", "--octet-count", "--msgid", "M1", "3 two\nlines"]),
        (&servers.counted, &["--tcp", "--octet-count", "--rfc3164", "--id=42", "4"]),
        (
            &servers.counted,
            &[
                &["--tcp", "--octet-count", "--rfc5424=notq", "--sd-id", "a@1"][..],
                &["--sd-param", r#"k="v\]\"x\\""#, "--sd-param", r#"k="2""#, "5"],
            ]
            .concat(),
        ),
        (&servers.datagrams, &["--udp", "--id=42", "6"]),
        (&servers.datagrams, &["--udp", "--rfc3164", "7"]),
    ];
    for (port, arguments) in sends {
        if !logger(port, arguments) {
            return;
        }
    }
    let quality = json!({ "timeQuality": { "tzKnown": "1", "isSynced": "0" } });
    let found: Vec<_> = servers
        .events(7)
        .iter()
        .map(|event| {
            let mut event = stable(event);
            // This element depends on the clock of the machine.
            if let Some(data) = event.pointer_mut("/structured_data/timeQuality") {
                *data = quality["timeQuality"].clone();
            }
            event
        })
        .collect();
    let common = |protocol: &str, more: &[(&str, Value)]| {
        let mut event = json!({
            "protocol": protocol, "facility": "user", "severity": "notice", "appname": "prog",
        });
        for (key, value) in more {
            event[key] = value.clone();
        }
        event
    };
    let id = || ("procid", json!("42"));
    let data = || ("structured_data", quality.clone());
    let msg = |text: &str| ("msg", json!(text));
    let expected = [
        common("RFC5424", &[id(), data(), msg("1 über TCP")]),
        common(
            "RFC3164",
            &[id(), msg("2"), ("facility", json!("local3")), ("severity", json!("debug"))],
        ),
        common("RFC5424", &[("msgid", json!("M1")), data(), msg("3 two\nlines")]),
        common("RFC3164", &[id(), msg("4")]),
        common(
            "RFC5424",
            &[("structured_data", json!({ "a@1": { "k": ["v]\"x\\", "2"] } })), msg("5")],
        ),
        common("RFC5424", &[id(), data(), msg("6")]),
        common("RFC3164", &[msg("7")]),
    ];
    assert_eq!(found, expected);
    servers.end();
}

/// A message in the form in which programs of the machine write it to the local socket.
const LOCAL: &str = "<30>Feb  5 17:32:18 relayed[7]: via é\n";

fn relayed(protocol: &str, msg: &str) -> Value {
    json!({
        "protocol": protocol, "facility": "daemon", "severity": "info",
        "appname": "relayed", "procid": "7", "msg": msg,
    })
}

#[test]
fn rsyslog_is_received_over_udp_and_tcp_in_all_forms() {
    let servers = Servers::start();
    let [lines, counted, datagrams] = [&servers.lines, &servers.counted, &servers.datagrams];
    let mut config = "module(load=\"imuxsock\" SysSock.Use=\"off\")
input(type=\"imuxsock\" Socket=\"@DIR@/log.sock\" CreatePath=\"off\")\n"
        .to_owned();
    let ways = [
        (lines, "tcp", "TCP_Framing=\"traditional\""),
        (counted, "tcp", "TCP_Framing=\"octet-counted\""),
        (datagrams, "udp", ""),
    ];
    let templates = [
        "RSYSLOG_SyslogProtocol23Format",
        "RSYSLOG_ForwardFormat",
        "RSYSLOG_TraditionalForwardFormat",
    ];
    for (port, protocol, more) in ways {
        for template in templates {
            writeln!(
                config,
                "action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"{protocol}\" \
                 template=\"{template}\" {more})"
            )
            .unwrap();
        }
    }
    let Some(peer) = rsyslog(&config) else { return };
    peer.log(LOCAL);
    let found: Vec<_> = servers.events(9).iter().map(stable).collect();
    // rsyslog's template for RFC 5424 keeps the space before the text, which is a part of the format of RFC 3164.
    for (protocol, msg, count) in [("RFC5424", " via é", 3), ("RFC3164", "via é", 6)] {
        let expected = relayed(protocol, msg);
        assert_eq!(found.iter().filter(|event| **event == expected).count(), count, "{found:?}");
    }
    drop(peer);
    servers.end();
}

#[test]
fn syslog_ng_is_received_over_udp_and_tcp_in_all_forms() {
    let servers = Servers::start();
    let [lines, counted, datagrams] = [&servers.lines, &servers.counted, &servers.datagrams];
    let mut config = "source s { unix-dgram(\"@DIR@/log.sock\"); };\n".to_owned();
    let ways = [
        ("network", lines, "transport(tcp)"),
        ("network", lines, "transport(tcp) flags(syslog-protocol)"),
        ("syslog", counted, "transport(tcp)"),
        ("network", datagrams, "transport(udp)"),
        ("syslog", datagrams, "transport(udp)"),
    ];
    for (number, (driver, port, more)) in ways.into_iter().enumerate() {
        write!(
            config,
            "destination d{number} {{ {driver}(\"127.0.0.1\" port({port}) persist-name(\"{number}\") \
             {more}); }};\nlog {{ source(s); destination(d{number}); }};\n"
        )
        .unwrap();
    }
    let Some(peer) = syslog_ng(&config, &[]) else { return };
    peer.log(LOCAL);
    let mut found: Vec<_> = servers.events(5).iter().map(stable).collect();
    for event in &mut found {
        // Remove the element, which contains a counter of syslog-ng.
        event.as_object_mut().unwrap().remove("structured_data");
    }
    for (protocol, count) in [("RFC5424", 3), ("RFC3164", 2)] {
        let expected = relayed(protocol, "via é");
        assert_eq!(found.iter().filter(|event| **event == expected).count(), count, "{found:?}");
    }
    drop(peer);
    servers.end();
}

/// Returns a flow that sends events over TCP in both framings, and over UDP.
fn clients(lines: u16, counted: u16, datagrams: u16) -> Scene {
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: read }} }}
  lines:
    type: tcp_client
    codec: syslog
    postprocessors: [lines]
    config: {{ address: '127.0.0.1:{lines}' }}
  counted:
    type: tcp_client
    codec: syslog
    postprocessors: [{{ length-prefixed: {{ prefix: decimal }} }}]
    config: {{ address: '127.0.0.1:{counted}' }}
  datagrams: {{ type: udp_client, codec: syslog, config: {{ address: '127.0.0.1:{datagrams}' }} }}
links: [input -> lines, input -> counted, input -> datagrams]"
    );
    let events = [
        json!({
            "facility": "local4", "severity": "err", "timestamp": 1_065_910_455_003_000_000_i64,
            "hostname": "host", "appname": "prog", "procid": "42", "msgid": "ID47",
            "structured_data": { "a@1": { "k": "v]\"\\é" } }, "msg": "new é",
        }),
        json!({
            "protocol": "RFC3164", "facility": "local4", "severity": "err",
            "timestamp": 1_065_910_455_000_000_000_i64,
            "hostname": "host", "appname": "prog", "procid": "42", "msg": "old é",
        }),
    ];
    let events = events.map(|event| format!("{event}\n")).concat();
    Scene::new(&flow).write("in", events.as_bytes())
}

/// Checks the events that a peer received. Each line has the fields of an event, separated by `|`.
fn received(lines: &[String]) {
    let [new, old]: [&str; 2] = [
        "new é|local4|err|host|prog|42|ID47|[a@1 k=\"v\\]\\\"\\\\é\"]",
        "old é|local4|err|host|prog|42|-|-",
    ];
    assert_eq!(lines, [new, new, new, old, old, old]);
}

#[test]
fn rsyslog_receives_over_udp_and_tcp_in_all_forms() {
    let port = free_port();
    let config = format!(
        "module(load=\"imtcp\")
module(load=\"imudp\")
input(type=\"imudp\" port=\"{port}\" address=\"127.0.0.1\")
input(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")
template(name=\"fields\" type=\"string\" string=\"%msg%|\
%syslogfacility-text%|%syslogseverity-text%|%hostname%|%app-name%|%procid%|%msgid%|%structured-data%\\n\")
action(type=\"omfile\" file=\"/dev/stdout\" template=\"fields\")\n"
    );
    let Some(peer) = rsyslog(&config) else { return };
    wait_until(|| listens(&[port], port));
    clients(port, port, port).run().expect(0, &["2 events in, 6 out"]);
    received(&peer.lines(6));
}

#[test]
fn syslog_ng_receives_over_udp_and_tcp_in_all_forms() {
    let [lines, counted, datagrams] = [(); 3].map(|()| free_port());
    let config = format!(
        "source s {{
  network(ip(127.0.0.1) port({lines}) transport(tcp) flags(syslog-protocol));
  syslog(ip(127.0.0.1) port({counted}) transport(tcp));
  syslog(ip(127.0.0.1) port({datagrams}) transport(udp));
}};
destination d {{
  pipe(\"/dev/stdout\" template(\"$MSG|$FACILITY|$LEVEL|$HOST|$PROGRAM|$PID|${{MSGID:--}}|${{SDATA:--}}\\n\"));
}};
log {{ source(s); destination(d); }};\n"
    );
    let Some(peer) = syslog_ng(&config, &[]) else { return };
    wait_until(|| listens(&[lines, counted], datagrams));
    clients(lines, counted, datagrams).run().expect(0, &["2 events in, 6 out"]);
    received(&peer.lines(6));
}
