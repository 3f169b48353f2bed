//! Tests of `kafka_consumer` with TLS and passwords, valid and invalid.

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    kafka::{Kafka, numbers, unique},
    scale_out::CONFIGURATION,
};

use super::consumer::STDOUT;

/// Starts a flow with these configuration keys.
fn flow(keys: &str) -> Flow {
    Flow::run(&format!(
        "connectors:\n  input: {{ type: kafka_consumer, codec: json, config: {{ {keys} }} }}\n  \
         output: {STDOUT}\nlinks: [input -> output]\n"
    ))
}

#[test]
fn consumer_authenticates_and_names_invalid_credentials() {
    let arguments = [&["--secure"], CONFIGURATION].concat();
    let Some(broker) = Broker::start("kafka", &arguments) else { return };
    let kafka = Kafka::new(broker.get("plain"));
    let topic = kafka.topic("secure", 1);
    kafka.write(&topic, [0], 0..10);
    let [ca, cert, key] = ["ca_file", "cert_file", "key_file"].map(|it| broker.get(it));
    let [user, password] = ["user", "password"].map(|it| broker.get(it));
    let keys = |address: &str| {
        let (address, group) = (broker.get(address), unique("group"));
        format!("brokers: ['{address}'], topics: [{topic}], group: {group}")
    };
    let sasl = |mechanism: &str, password: &str| {
        format!("sasl: {{ mechanism: {mechanism}, user: {user}, password: '{password}' }}")
    };
    let tls = format!("tls: {{ ca_file: '{ca}', cert_file: '{cert}', key_file: '{key}' }}");
    let good = [
        format!("{}, {tls}", keys("tls")),
        format!("{}, {}", keys("sasl"), sasl("PLAIN", password)),
        format!("{}, {}, {tls}", keys("sasl_tls"), sasl("SCRAM-SHA-256", password)),
        format!("{}, {}, {tls}", keys("sasl_tls"), sasl("SCRAM-SHA-512", password)),
    ];
    for keys in good {
        let running = flow(&keys);
        eventually(format_args!("all records\n{keys}\n{running}"), || {
            (running.out().len() >= 10).then_some(())
        });
        assert!(numbers(&running.out(), 0).into_iter().eq(0..10));
    }
    let wrong = "not-the-password";
    let bad = [
        (format!("{}, {}", keys("sasl"), sasl("PLAIN", wrong)), "check `sasl`"),
        (format!("{}, {}, {tls}", keys("sasl_tls"), sasl("SCRAM-SHA-256", wrong)), "check `sasl`"),
        // The system does not trust the CA of the broker.
        (format!("{}, tls: {{}}", keys("tls")), "check `tls`"),
    ];
    for (keys, expected) in bad {
        let mut running = flow(&keys);
        assert!(!running.wait().success());
        let log = running.log();
        assert!(log.contains(expected) && !log.contains(wrong), "{log}");
    }
}
