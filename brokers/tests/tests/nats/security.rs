//! Tests of TLS, authentication and permissions of the NATS connectors.

use broker_tests::{broker::Broker, eventually, flow::Flow, jwt::Operator, nats::unique};

use super::STDOUT;

/// Starts a flow that publishes messages of core NATS, subscribes to them, and prints the messages that it receives.
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
fn flow_authenticates_and_names_invalid_credentials() {
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
        eventually(format_args!("messages\n{running}"), || {
            (!running.out().is_empty()).then_some(())
        });
    }
    let wrong = "not-the-password";
    // Seed of another user.
    let other = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
    let bad = [
        (
            format!("{tls}, auth: {{ user: {user}, password: {wrong} }}"),
            "check `auth.user` and `auth.password`",
        ),
        (format!("{tls}, auth: {{ token: {wrong} }}"), "check `auth.token`"),
        (format!("{tls}, auth: {{ nkey: {other} }}"), "check `auth.nkey`"),
        (format!("{tls}, auth: {{ nkey: {wrong} }}"), "`auth.nkey`"),
        (tls.clone(), "check `auth`, which is not set"),
        (format!("{tls}, auth: {{ credentials_file: '{key}' }}"), "`auth.credentials_file`"),
        // The system does not trust the CA of the server.
        (format!("auth: {{ user: {user}, password: {password} }}"), "check `tls`"),
        (
            "tls: { ca_file: '/nowhere.pem' }".to_owned(),
            "cannot read `/nowhere.pem`, which `tls` names",
        ),
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

/// Runs a flow until messages arrive.
fn await_output(address: &str, keys: &str) {
    let running = flow(address, &unique("secure"), keys);
    eventually(format_args!("messages\n{running}"), || (!running.out().is_empty()).then_some(()));
}

/// Runs a flow until it has failed, and checks that the log contains `expected` and no secret.
fn fails(address: &str, keys: &str, expected: &str, secrets: &[&str]) {
    let mut running = flow(address, "a", keys);
    assert!(!running.wait().success());
    let log = running.log();
    assert!(log.contains(expected), "{expected}: {log}");
    assert!(secrets.iter().all(|it| !log.contains(it)), "{log}");
}

#[test]
fn only_the_right_token_is_accepted() {
    let who = "authorization: { token: \"the-right-token\" }";
    let Some(broker) = Broker::start("nats", &["--set", who]) else { return };
    let address = broker.get("plain");
    await_output(address, "auth: { token: the-right-token }");
    fails(address, "auth: { token: a-wrong-token }", "check `auth.token`", &["a-wrong-token"]);
    fails(address, "", "check `auth`, which is not set", &[]);
    // Reject a token in the address of a server, which other clients accept.
    let servers = format!("a-wrong-token@{address}");
    fails(&servers, "", "invalid address: `@` is not allowed", &[]);
}

#[test]
fn only_credentials_of_the_operator_are_accepted() {
    let (operator, other) = (Operator::new(), Operator::new());
    let lines = operator.lines();
    let set: Vec<_> = lines.iter().flat_map(|line| ["--set", line]).collect();
    let Some(broker) = Broker::start("nats", &set) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("auth: {{ credentials_file: '{}' }}", path.display())
    };
    let address = broker.get("plain");
    await_output(address, &file("right.creds", &operator.credentials()));
    let wrong = other.credentials();
    let secrets: Vec<_> = wrong.lines().filter(|it| it.len() > 40).collect();
    assert_eq!(secrets.len(), 2);
    fails(address, &file("other.creds", &wrong), "check `auth.credentials_file`", &secrets);
    // Combine the token of one user with the seed of another user, which cannot answer the challenge of the server.
    let (token, _) = operator
        .credentials()
        .split_once("-----BEGIN USER")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (_, seed) = wrong.split_once("-----BEGIN USER").unwrap();
    let mixed = format!("{token}-----BEGIN USER{seed}");
    fails(address, &file("mixed.creds", &mixed), "check `auth.credentials_file`", &secrets[1..]);
    let half = wrong.split_once("-----BEGIN USER").unwrap().0;
    fails(address, &file("half.creds", half), "`auth.credentials_file`", &secrets);
    let nowhere = "auth: { credentials_file: '/nowhere.creds' }";
    fails(
        address,
        nowhere,
        "cannot read `/nowhere.creds`, which `auth.credentials_file` names",
        &[],
    );
}

#[test]
fn only_client_certificates_of_the_ca_are_accepted() {
    let Some(broker) = Broker::start("nats", &["--secure", "--verify"]) else { return };
    let Some(other) = Broker::start("nats", &["--secure"]) else { return };
    let address = broker.get("tls");
    let ca = broker.get("ca_file");
    let [user, password] = ["user", "password"].map(|it| broker.get(it));
    let auth = format!("auth: {{ user: {user}, password: {password} }}");
    let tls = |of: &Broker| {
        let [cert, key] = ["cert_file", "key_file"].map(|it| of.get(it));
        format!("{auth}, tls: {{ ca_file: '{ca}', cert_file: '{cert}', key_file: '{key}' }}")
    };
    await_output(address, &tls(&broker));
    fails(address, &tls(&other), "check `tls`", &[password]);
    fails(address, &format!("{auth}, tls: {{ ca_file: '{ca}' }}"), "check `tls`", &[password]);
    // The client trusts only a CA other than that of the server.
    let ca = other.get("ca_file");
    fails(address, &format!("{auth}, tls: {{ ca_file: '{ca}' }}"), "check `tls`", &[password]);
}

#[test]
fn denied_messages_go_to_err() {
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
    eventually(format_args!("events at err\n{running}"), || {
        (running.out().len() >= 2).then_some(())
    });
    running.says("Permissions Violation");
}
