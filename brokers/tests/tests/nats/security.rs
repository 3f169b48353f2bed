//! TLS, and who may do what.

use broker_tests::{broker::Broker, eventually, flow::Flow, nats::unique};

use super::STDOUT;

/// A flow that sends itself messages of core NATS, and prints what comes.
fn flow(address: &str, subject: &str, keys: &str) -> Flow {
    Flow::run(&format!(
        "connectors:\n  \
           clock: {{ type: metronome, config: {{ interval_ms: 20 }} }}\n  \
           output: {{ type: nats_producer, codec: json, \
             config: {{ servers: ['{address}'], subject: {subject}, jetstream: false, {keys} }} }}\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], subjects: [{subject}], {keys} }} }}\n  \
           print: {STDOUT}\n\
         links: [clock -> output, input -> print]\n"
    ))
}

#[test]
fn it_reads_and_writes_with_tls_passwords_and_nkeys_and_says_which_of_them_is_wrong() {
    let Some(broker) = Broker::start("nats", &["--secure"]) else { return };
    let address = broker.get("tls");
    let ca = broker.get("ca_file");
    let [cert, key] = ["cert_file", "key_file"].map(|it| broker.get(it));
    let [user, password, nkey] = ["user", "password", "nkey"].map(|it| broker.get(it));
    let tls = format!("tls: {{ ca_file: '{ca}' }}");
    let own = format!("tls: {{ ca_file: '{ca}', cert_file: '{cert}', key_file: '{key}' }}");
    for keys in [
        format!("{tls}, auth: {{ user: {user}, password: {password} }}"),
        format!("{own}, auth: {{ nkey: {nkey} }}"),
    ] {
        let running = flow(address, &unique("secure"), &keys);
        eventually(&format!("messages\n{}", running.log()), || {
            (!running.out().is_empty()).then_some(())
        });
    }
    let wrong = "not-the-password";
    // The seed of another user.
    let other = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
    let bad = [
        (
            format!("{tls}, auth: {{ user: {user}, password: {wrong} }}"),
            "see `auth.user` and `auth.password`",
        ),
        (format!("{tls}, auth: {{ token: {wrong} }}"), "see `auth.token`"),
        (format!("{tls}, auth: {{ nkey: {other} }}"), "see `auth.nkey`"),
        (format!("{tls}, auth: {{ nkey: {wrong} }}"), "`auth.nkey`"),
        (tls.clone(), "see `auth`, which is not set"),
        (format!("{tls}, auth: {{ credentials_file: '{key}' }}"), "`auth.credentials_file`"),
        // The roots of the system do not know the CA of the server.
        (format!("auth: {{ user: {user}, password: {password} }}"), "see `tls`"),
        ("tls: { ca_file: '/nowhere.pem' }".to_owned(), "`tls.ca_file`"),
    ];
    for (keys, expected) in bad {
        let mut running = flow(address, "a", &keys);
        assert!(!running.wait().success());
        let log = running.log();
        assert!(
            log.contains(expected) && !log.contains(wrong) && !log.contains(other),
            "{expected}: {log}"
        );
        assert!(!log.contains(password), "{log}");
    }
}

#[test]
fn what_a_user_may_not_publish_goes_to_err() {
    let Some(broker) = Broker::start("nats", &["--secure"]) else { return };
    let (address, ca) = (broker.get("tls"), broker.get("ca_file"));
    let [user, password] = ["limited_user", "limited_password"].map(|it| broker.get(it));
    let running = Flow::run(&format!(
        "connectors:\n  \
           clock: {{ type: metronome, config: {{ interval_ms: 20 }} }}\n  \
           output: {{ type: nats_producer, codec: json, config: {{ servers: ['{address}'], \
             subject: forbidden, tls: {{ ca_file: '{ca}' }}, auth: {{ user: {user}, password: {password} }} }} }}\n  \
           refused: {STDOUT}\n\
         links: [clock -> output, output/err -> refused]\n"
    ));
    eventually(&format!("events at err\n{}", running.log()), || {
        (running.out().len() >= 2).then_some(())
    });
    running.says("Permissions Violation");
}
