//! Tests of TLS and authentication of the Kafka connectors.

use std::{
    io::Write,
    sync::{Mutex, OnceLock},
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use broker_tests::{
    broker::Broker,
    flow::Flow,
    kafka::Kafka,
    lines::{have_all_in_order, line},
    records,
};

use super::producer::{arrive, flow_to};

/// Returns a broker with TLS and passwords.
fn broker() -> Option<&'static Mutex<Broker>> {
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let start = || Broker::start("kafka", &["--secure"]).map(Mutex::new);
    BROKER.get_or_init(start).as_ref()
}

/// Addresses and credentials of the broker.
struct Known {
    plain: String,
    tls: String,
    sasl: String,
    sasl_tls: String,
    files: [String; 3],
    user: String,
    password: String,
}

fn known() -> Option<Known> {
    let broker = broker()?.lock().unwrap();
    let get = |key: &str| broker.get(key).to_owned();
    Some(Known {
        plain: get("plain"),
        tls: get("tls"),
        sasl: get("sasl"),
        sasl_tls: get("sasl_tls"),
        files: ["ca_file", "cert_file", "key_file"].map(get),
        user: get("user"),
        password: get("password"),
    })
}

impl Known {
    fn sasl(&self, mechanism: &str) -> String {
        let Self { user, password, .. } = self;
        format!("sasl: {{ mechanism: {mechanism}, user: {user}, password: {password} }}")
    }

    fn ca(&self) -> String {
        format!("tls: {{ ca_file: '{}' }}", self.files[0])
    }
}

/// Returns a file with an unsigned token, which the broker of the tests accepts.
fn token(claims: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    write!(file, "{}.{}.", part(r#"{"alg":"none"}"#), part(claims)).unwrap();
    file
}

#[expect(clippy::disallowed_methods, reason = "the token contains the current time")]
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Runs a flow that cannot connect, and returns its log.
fn refused(brokers: &str, keys: &str) -> String {
    let flow = format!(
        "connectors:\n  \
           input: {{ type: metronome, config: {{ interval_ms: 10 }} }}\n  \
           output: {{ type: kafka_producer, codec: json, config: {{ brokers: ['{brokers}'], topic: t, {keys} }} }}\n\
         links: [input -> output]\n"
    );
    let mut flow = Flow::run(&flow);
    assert!(!flow.wait().success());
    flow.log()
}

#[test]
fn events_arrive_with_each_method_of_authentication() {
    let Some(known) = known() else { return };
    let [ca, certificate, key] = &known.files;
    let own = format!("tls: {{ ca_file: '{ca}', cert_file: '{certificate}', key_file: '{key}' }}");
    let mut ways = vec![(&known.tls, own)];
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        ways.push((&known.sasl_tls, format!("{}, {}", known.sasl(mechanism), known.ca())));
        ways.push((&known.sasl, known.sasl(mechanism)));
    }
    let now = now();
    let token = token(&format!(r#"{{"sub":"alice","iat":{now},"exp":{}}}"#, now + 3_600));
    let file = token.path().display();
    let bearer = format!("sasl: {{ mechanism: OAUTHBEARER, token_file: '{file}' }}");
    ways.push((&known.sasl_tls, format!("{bearer}, {}", known.ca())));
    for (brokers, keys) in ways {
        let topic = Kafka::new(&known.plain).topic("secure", 1);
        let mut lines = flow_to(brokers, &format!("topic: {topic}, {keys}"), "");
        lines.add((0..100).map(line));
        arrive(&lines, &known.plain, &topic, 100);
        let log = lines.stop();
        assert!(!log.contains(&known.password), "{log}");
        assert!(have_all_in_order(&records::payloads(&known.plain, &topic, 0), 100));
    }
}

#[test]
fn wrong_user_or_password_fails_flow_without_showing_it() {
    let Some(known) = known() else { return };
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for (user, password) in [(known.user.as_str(), "wrong-secret"), ("nobody", "other-secret")]
        {
            let sasl = format!(
                "sasl: {{ mechanism: {mechanism}, user: {user}, password: {password} }}, {}",
                known.ca()
            );
            let log = refused(&known.sasl_tls, &sasl);
            assert!(log.contains("cannot authenticate to the broker"), "{mechanism}: {log}");
            assert!(log.contains("check `sasl`"), "{mechanism}: {log}");
            assert!(!log.contains(password), "{mechanism}: {log}");
        }
    }
}

#[test]
fn missing_or_expired_token_fails_flow() {
    let Some(known) = known() else { return };
    let bearer = |file: &str| {
        format!("sasl: {{ mechanism: OAUTHBEARER, token_file: '{file}' }}, {}", known.ca())
    };
    let log = refused(&known.sasl_tls, &bearer("no-such-token"));
    assert!(log.contains("no-such-token`, which `sasl.token_file` names: No such file"), "{log}");
    let now = now();
    let claims = format!(r#"{{"sub":"alice","iat":{},"exp":{}}}"#, now - 20, now - 10);
    let expired = token(&claims);
    let log = refused(&known.sasl_tls, &bearer(&expired.path().display().to_string()));
    assert!(log.contains("cannot authenticate to the broker"), "{log}");
    assert!(!log.contains(&URL_SAFE_NO_PAD.encode(&claims)), "{log}");
}

#[test]
fn unknown_or_missing_certificate_fails_flow() {
    let Some(known) = known() else { return };
    let [ca, certificate, key] = &known.files;
    // The system does not trust the CA of the broker.
    let log = refused(&known.sasl_tls, &format!("{}, tls: {{}}", known.sasl("PLAIN")));
    assert!(
        log.contains("cannot establish TLS with the broker") && log.contains("check `tls`"),
        "{log}"
    );
    // The broker requires a certificate.
    let log = refused(&known.tls, &known.ca());
    assert!(log.contains("the certificate of this client was rejected or is missing"), "{log}");
    for (file, keys) in [
        ("no-ca.pem", "tls: { ca_file: no-ca.pem }".to_owned()),
        (
            "no-key.pem",
            format!("tls: {{ ca_file: '{ca}', cert_file: '{certificate}', key_file: no-key.pem }}"),
        ),
        (key, format!("tls: {{ ca_file: '{ca}', cert_file: '{key}', key_file: '{key}' }}")),
    ] {
        let log = refused(&known.tls, &keys);
        assert!(log.contains(file), "{file}: {log}");
    }
}

#[test]
fn unsupported_tls_keys_are_rejected_with_reason() {
    for (keys, said) in [
        ("server_name: a", "advertise that name"),
        ("client_auth: required", "is for servers"),
        ("min_version: '1.3'", "cannot require a later version"),
        ("cert_file: a", "needs its private key"),
    ] {
        let log = refused("127.0.0.1:9", &format!("tls: {{ {keys} }}"));
        assert!(log.contains(said), "{keys}: {log}");
    }
}
