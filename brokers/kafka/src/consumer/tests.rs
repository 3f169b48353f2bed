use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::Consumer,
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer},
    types::{RDKafkaApiKey as Request, RDKafkaRespErr as Answer},
};
use tremor_pdk::{
    ErrorKind, Result,
    testing::{Connection, TestHost, conformance},
};

use super::{
    KafkaConsumer, Start,
    client::Client,
    config::Settings,
    context::{Change, GroupContext},
    signal::Signal,
};

/// Configuration with a broker's address on which no process listens.
const UNREACHABLE: &str = r#""brokers": ["127.0.0.1:1"], "topics": ["t"], "group": "g""#;

fn settings(keys: &str) -> Result<Arc<Settings>> {
    let consumer: KafkaConsumer = TestHost::new().component(&format!("{{ {keys} }}"))?;
    Ok(consumer.settings)
}

#[test]
fn invalid_configuration_names_its_key_and_no_secret() {
    let long = "a".repeat(250);
    let cases = [
        (r#""brokers": [], "topics": ["t"], "group": "g""#, "`brokers`"),
        (r#""brokers": ["a:1"], "topics": [], "group": "g""#, "`topics`"),
        (r#""brokers": ["a:1"], "topics": ["no spaces"], "group": "g""#, "`topics`"),
        (&format!(r#""brokers": ["a:1"], "topics": ["{long}"], "group": "g""#), "`topics`"),
        (r#""brokers": ["a:1"], "topics": ["t"], "group": """#, "`group`"),
        (&format!(r#"{UNREACHABLE}, "start": "yesterday""#), "`yesterday`"),
        (&format!(r#"{UNREACHABLE}, "drain_timeout": "5m""#), "`drain_timeout`"),
        (&format!(r#"{UNREACHABLE}, "session_timeout": "10ms""#), "`session_timeout`"),
        (&format!(r#"{UNREACHABLE}, "prefetch": 1"#), "`prefetch`"),
        (&format!(r#"{UNREACHABLE}, "instance": "a b""#), "`instance`"),
        (&format!(r#"{UNREACHABLE}, "tls": {{ "cert_file": "c" }}"#), "`key_file`"),
        (
            &format!(
                r#"{UNREACHABLE}, "sasl": {{ "mechanism": "PLAIN", "user": "", "password": "pst" }}"#
            ),
            "`sasl.user`",
        ),
    ];
    for (keys, expected) in cases {
        let error = settings(keys).err().unwrap_or_else(|| panic!("{keys} is wrong"));
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{keys}");
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains("pst"), "{keys}: {text}");
    }
}

#[test]
fn start_is_a_keyword_or_a_time() -> Result<()> {
    let start = |text: &str| Ok::<_, tremor_pdk::Error>(settings(text)?.start);
    assert_eq!(start(UNREACHABLE)?, Start::Earliest);
    assert_eq!(start(&format!(r#"{UNREACHABLE}, "start": "latest""#))?, Start::Latest);
    let time = format!(r#"{UNREACHABLE}, "start": "2026-11-23T11:00:00.5+01:00""#);
    assert_eq!(start(&time)?, Start::Time(1_795_428_000_500));
    Ok(())
}

#[test]
fn consumer_passes_conformance() {
    conformance::connector::<KafkaConsumer>(&format!("{{ {UNREACHABLE} }}")).expect_no_faults();
}

#[test]
fn unreachable_broker_is_named() {
    let host = TestHost::new();
    let error = host.connect::<KafkaConsumer>(&format!("{{ {UNREACHABLE} }}")).err();
    let error = error.expect("no broker listens on the address");
    assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

/// Starts librdkafka's mock broker with a topic `t` of one partition.
fn broker() -> MockCluster<'static, DefaultProducerContext> {
    let broker = MockCluster::new(1).unwrap();
    broker.create_topic("t", 1, 1).unwrap();
    broker
}

/// Writes `count` short records to the topic.
fn write(broker: &MockCluster<'_, DefaultProducerContext>, count: usize) {
    write_each(broker, count, "1");
}

/// Writes `count` records with the same payload to the topic.
fn write_each(broker: &MockCluster<'_, DefaultProducerContext>, count: usize, payload: &str) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap_servers()).create().unwrap();
    for _ in 0..count {
        producer.send(BaseRecord::<(), _>::to("t").partition(0).payload(payload)).unwrap();
    }
    producer.flush(Duration::from_mins(1)).unwrap();
}

fn connect(broker: &MockCluster<'_, DefaultProducerContext>) -> Connection {
    let brokers = broker.bootstrap_servers();
    let config = format!(r#"{{ "brokers": ["{brokers}"], "topics": ["t"], "group": "g" }}"#);
    TestHost::new().connect::<KafkaConsumer>(&config).unwrap()
}

/// Pulls until `count` records have arrived.
fn pull(connection: &mut Connection, count: usize) {
    let mut pulled = 0;
    while pulled < count {
        pulled += connection.pull().unwrap().1.len();
    }
    assert_eq!(pulled, count);
}

#[test]
fn lag_is_true_while_source_is_not_pulled() {
    let (broker, host) = (broker(), TestHost::new());
    let brokers = broker.bootstrap_servers();
    // A single record exceeds `prefetch`, so that the client fetches no more records.
    let config = format!(
        r#"{{ "brokers": ["{brokers}"], "topics": ["t"], "group": "g", "prefetch": "1KiB" }}"#
    );
    let connection = host.connect::<KafkaConsumer>(&config).unwrap();
    let payload = "x".repeat(4 << 10);
    for lag in [1.0, 2.0, 3.0] {
        write_each(&broker, 1, &payload);
        let start = Instant::now();
        while host.metric("lag") != Some(lag) {
            host.block_on(host.host().sleep(Duration::from_secs(1)));
            assert!(start.elapsed() < Duration::from_mins(1), "{:?}", host.metric("lag"));
        }
    }
    connection.stop().unwrap();
}

/// Makes every third fetch fail with `error`, `times` times. The mock broker, unlike a real one,
/// can send an error together with the end of a partition, and librdkafka then reports only the
/// end. Therefore a fetch before each failure has to report the end.
fn fail_fetches(broker: &MockCluster<'_, DefaultProducerContext>, error: Answer, times: usize) {
    let none = Answer::RD_KAFKA_RESP_ERR_NO_ERROR;
    let answers = [none, none, error].repeat(times);
    broker.request_errors(Request::Fetch, &answers);
}

#[test]
fn pull_fails_once_topic_may_not_be_read() {
    let broker = broker();
    write(&broker, 3);
    fail_fetches(&broker, Answer::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
    let mut connection = connect(&broker);
    pull(&mut connection, 3);
    let error = connection.pull().expect_err("reading is not allowed");
    assert_eq!(error.kind(), ErrorKind::AUTHENTICATION);
    assert!(error.to_string().contains("partition 0 of `t`"), "{error}");
}

/// Offsets restart at 0, for example after a topic was deleted and recreated.
#[test]
fn records_with_restarted_offsets_are_read() {
    let broker = broker();
    write(&broker, 3);
    fail_fetches(&broker, Answer::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, 2);
    let mut connection = connect(&broker);
    for _ in 0..3 {
        pull(&mut connection, 3);
    }
    write(&broker, 2);
    pull(&mut connection, 2);
    connection.stop().unwrap();
}

#[test]
fn late_commit_does_not_overwrite_newer_one() {
    let broker = broker();
    let host = TestHost::new();
    let brokers = broker.bootstrap_servers();
    let keys = format!(r#""brokers": ["{brokers}"], "topics": ["t"], "group": "g""#);
    let settings = settings(&keys).unwrap();
    let context = GroupContext::new(host.host());
    let client = Client::new(&settings.properties, context, host.host(), Arc::default()).unwrap();
    let at = |offset| {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("t", 0, Offset::Offset(offset)).unwrap();
        list
    };
    let (first, second) = (client.next_commit_number(), client.next_commit_number());
    client.commit_in_order(second, &at(7)).unwrap();
    client.commit_in_order(first, &at(3)).unwrap();
    let found = client.committed_offsets(at(0), Duration::from_mins(1)).unwrap();
    assert_eq!(found.elements()[0].offset(), Offset::Offset(7));
}

#[test]
fn client_with_unanswered_rebalance_closes() {
    let broker = broker();
    let host = TestHost::new();
    let brokers = broker.bootstrap_servers();
    let keys = format!(r#""brokers": ["{brokers}"], "topics": ["t"], "group": "g""#);
    let (settings, ended) = (settings(&keys).unwrap(), Arc::<Signal>::default());
    let context = GroupContext::new(host.host());
    let client = Client::new(&settings.properties, context, host.host(), ended.clone()).unwrap();
    client.subscribe(&["t"]).unwrap();
    let change = || loop {
        client.poll(Duration::from_millis(10));
        if let Some(change) = client.context().take().pop() {
            break change;
        }
    };
    assert!(matches!(change(), Change::Assigned(_)));
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition("t", 0);
    client.incremental_assign(&assigned).unwrap();
    client.unsubscribe();
    assert!(matches!(change(), Change::Revoked { .. }));
    drop(client);
    host.block_on(poll_fn(|context| ended.poll(context)));
}
