//! Tests of syslog over TLS (RFC 5425) with rsyslog (drivers `gtls` and `ossl`) and syslog-ng as peers. Both peers have
//! a certificate of the same CA, and each requires the certificate of the other.
//!
//! If a program is missing, the tests with it are skipped, as in `syslog_peers`.

use serde_json::{Value, json};

use crate::{
    peer::{Peer, free_port, rsyslog_with, syslog_ng},
    running::Running,
    tls::Authority,
    tremor::{Run, Scene},
};

/// A message in the form in which programs of the machine write it to the local socket.
const LOCAL: &str = "<30>Feb  5 17:32:18 relayed[7]: via é\n";

/// TLS drivers of rsyslog, with the Debian packages that contain them.
const DRIVERS: [(&str, &str); 2] = [("gtls", "rsyslog-gnutls"), ("ossl", "rsyslog-openssl")];

/// Certificates of the CA, of tremor and of the peer, with their keys.
struct Certificates(Vec<(&'static str, String)>);

impl Certificates {
    fn new() -> Self {
        let authority = Authority::new();
        let ours = authority.issue("localhost");
        let theirs = authority.issue("localhost");
        Self(vec![
            ("ca.pem", authority.pem.clone()),
            ("ours.pem", ours.0),
            ("ours.key", ours.1),
            ("theirs.pem", theirs.0),
            ("theirs.key", theirs.1),
        ])
    }

    fn files(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, pem)| (*name, &**pem)).collect()
    }

    fn scene(&self, flow: &str) -> Scene {
        let scene = Scene::new(flow);
        self.0.iter().fold(scene, |scene, (name, pem)| scene.write(name, pem.as_bytes()))
    }
}

/// Starts a flow that receives from peers, and returns its port.
fn server(certificates: &Certificates) -> (Running, String) {
    let flow = "connectors:
  input:
    type: tcp_server
    preprocessors: [{ length-prefixed: { prefix: decimal } }]
    codec: syslog
    config:
      listen: '127.0.0.1:0'
      tls: { cert_file: ours.pem, key_file: ours.key, ca_file: ca.pem, client_auth: required }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output, input/err -> output]";
    let mut run = Running::of(certificates.scene(flow), &["flow.yaml"], |command| command);
    let (address, _) = run.listens();
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    (run, port)
}

/// Sends a message to the peer, and checks that the flow receives this event and no other.
fn receives(run: Running, peer: Peer) {
    peer.log(LOCAL);
    let event: Value = serde_json::from_str(&run.event()).unwrap();
    assert_eq!((&event["appname"], &event["procid"]), (&json!("relayed"), &json!("7")), "{event}");
    assert_eq!(event["msg"].as_str().map(str::trim), Some("via é"), "{event}");
    drop(peer);
    run.signal(&["TERM"]);
    run.end().expect(0, &["1 events in, 1 out"]);
}

/// Sends events to this port, once the peer listens.
fn send(certificates: &Certificates, port: u16, keys: &str) -> Run {
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: read }} }}
  output:
    type: tcp_client
    codec: syslog
    postprocessors: [{{ length-prefixed: {{ prefix: decimal }} }}]
    config:
      address: '127.0.0.1:{port}'
      tls: {{ ca_file: ca.pem, server_name: localhost {keys} }}
links: [input -> output]"
    );
    let events =
        (0..100).map(|it| format!("{{\"msg\":\"{it:03}\"}}\n")).collect::<Vec<_>>().concat();
    certificates.scene(&flow).write("in", events.as_bytes()).run()
}

fn sends(certificates: &Certificates, port: u16, peer: &Peer) {
    let run = send(certificates, port, ", cert_file: ours.pem, key_file: ours.key");
    run.expect(0, &["100 events in, 100 out"]);
    assert!(peer.lines(100).iter().eq(&(0..100).map(|it| format!("{it:03}")).collect::<Vec<_>>()));
}

/// Starts rsyslog with a TLS driver, unless the driver is missing. Both drivers are tested, because their behaviour
/// differs.
fn rsyslog(
    driver: (&str, &str),
    certificates: &Certificates,
    config: impl FnOnce(&str) -> String,
) -> Option<Peer> {
    let (driver, package) = driver;
    let config = format!(
        "global(DefaultNetstreamDriverCAFile=\"@DIR@/ca.pem\"
  DefaultNetstreamDriverCertFile=\"@DIR@/theirs.pem\"
  DefaultNetstreamDriverKeyFile=\"@DIR@/theirs.key\")
{}",
        config(driver)
    );
    rsyslog_with(&config, &certificates.files(), &format!("lmnsd_{driver}.so"), package)
}

#[test]
fn rsyslog_sends_to_us_over_tls_with_either_of_its_drivers() {
    for driver in DRIVERS {
        let certificates = Certificates::new();
        let (run, port) = server(&certificates);
        let peer = rsyslog(driver, &certificates, |driver| {
            format!(
                "module(load=\"imuxsock\" SysSock.Use=\"off\")
input(type=\"imuxsock\" Socket=\"@DIR@/log.sock\" CreatePath=\"off\")
action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"tcp\" TCP_Framing=\"octet-counted\"
  template=\"RSYSLOG_SyslogProtocol23Format\" StreamDriver=\"{driver}\" StreamDriverMode=\"1\"
  StreamDriverAuthMode=\"x509/name\" StreamDriverPermittedPeers=\"localhost\")\n"
            )
        });
        let Some(peer) = peer else { continue };
        receives(run, peer);
    }
}

#[test]
fn rsyslog_receives_from_us_over_tls_with_either_of_its_drivers() {
    for driver in DRIVERS {
        let certificates = Certificates::new();
        let port = free_port();
        let peer = rsyslog(driver, &certificates, |driver| {
            format!(
                "module(load=\"imtcp\" StreamDriver.Name=\"{driver}\" StreamDriver.Mode=\"1\"
  StreamDriver.AuthMode=\"x509/name\" PermittedPeer=[\"localhost\"])
input(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")
template(name=\"text\" type=\"string\" string=\"%msg%\\n\")
action(type=\"omfile\" file=\"/dev/stdout\" template=\"text\")\n"
            )
        });
        let Some(peer) = peer else { continue };
        sends(&certificates, port, &peer);
    }
}

#[test]
fn syslog_ng_sends_to_us_over_tls() {
    let certificates = Certificates::new();
    let (run, port) = server(&certificates);
    let config = format!(
        "source s {{ unix-dgram(\"@DIR@/log.sock\"); }};
destination d {{
  syslog(\"localhost\" ip-protocol(4) port({port}) transport(tls)
    tls(ca-file(\"@DIR@/ca.pem\") cert-file(\"@DIR@/theirs.pem\") key-file(\"@DIR@/theirs.key\")
      peer-verify(required-trusted)));
}};
log {{ source(s); destination(d); }};\n"
    );
    let Some(peer) = syslog_ng(&config, &certificates.files()) else { return };
    receives(run, peer);
}

#[test]
fn syslog_ng_receives_from_us_over_tls() {
    let certificates = Certificates::new();
    let port = free_port();
    let config = format!(
        "source s {{
  syslog(ip(127.0.0.1) port({port}) transport(tls)
    tls(ca-file(\"@DIR@/ca.pem\") cert-file(\"@DIR@/theirs.pem\") key-file(\"@DIR@/theirs.key\")
      peer-verify(required-trusted)));
}};
destination d {{ pipe(\"/dev/stdout\" template(\"$MSG\\n\")); }};
log {{ source(s); destination(d); }};\n"
    );
    let Some(peer) = syslog_ng(&config, &certificates.files()) else { return };
    sends(&certificates, port, &peer);
}
