//! Kafka for the tests of faults: a topic, and a consumer group of the same name.

use std::ops::Range;

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    kafka::{Kafka, unique},
    lines::line,
    records,
    scale_out::CONFIGURATION,
};
use rdkafka::producer::BaseRecord;

use super::{Stream, System};

impl System for Kafka {
    const NAME: &'static str = "kafka";
    const ARGUMENTS: &'static [&'static str] = CONFIGURATION;
    const LOST: &'static str = "cannot reach a broker";
    const PRODUCERS: &'static [&'static str] = &["in_flight: 4,", ""];
    const IS_ORDERED: bool = true;

    fn shared() -> Option<Self> {
        crate::kafka::kafka()
    }

    fn at(address: &str) -> Self {
        Kafka::new(address)
    }

    fn address(&self) -> String {
        self.address().replace(',', "', '")
    }

    fn make(&self, partitions: i32, replicas: i32) -> Stream {
        let name = unique("fault");
        if replicas == 1 {
            self.make_topic(&name, partitions);
        } else {
            records::make(self.address(), &name, replicas, &[]);
        }
        Stream { name, partitions }
    }

    fn write(&self, stream: &Stream, numbers: Range<u64>) {
        for number in numbers {
            let partition = i32::try_from(number).unwrap() % stream.partitions;
            let payload = line(number);
            self.send(BaseRecord::to(&stream.name).partition(partition).payload(&payload));
        }
        self.flush();
    }

    fn count(&self, stream: &Stream) -> Option<u64> {
        records::end(self.address(), &stream.name, 0).map(i64::cast_unsigned)
    }

    fn events(&self, stream: &Stream) -> Option<Vec<String>> {
        Some(records::payloads(self.address(), &stream.name, 0))
    }

    fn acknowledged(&self, Stream { name, partitions }: &Stream) -> u64 {
        let committed = (0..*partitions).filter_map(|it| self.committed(name, name, it));
        committed.sum::<i64>().cast_unsigned()
    }

    fn leader(&self, stream: &Stream) -> Option<u32> {
        records::leader(self.address(), &stream.name).map(i32::cast_unsigned)
    }

    fn is_divided(&self, _: &Stream, flows: [&Flow; 2]) -> bool {
        flows.iter().any(|it| it.log().contains("assigned 1 partitions"))
    }

    fn consumer(&self, Stream { name, .. }: &Stream) -> String {
        let address = System::address(self);
        format!(
            "{{ type: kafka_consumer, codec: json, config: {{ brokers: ['{address}'], topics: [{name}], \
             group: {name}, session_timeout: 2s, commit_interval: 100ms }} }}"
        )
    }

    fn producer(address: &str, Stream { name, .. }: &Stream, keys: &str) -> String {
        format!(
            "{{ type: kafka_producer, codec: json, {keys} config: {{ brokers: ['{address}'], topic: {name}, \
             timeout: 2s }} }}"
        )
    }

    fn given_up(producer: &Flow) -> usize {
        let logged = producer.log().matches("records were not acknowledged within 2s").count();
        let counted = producer.metric("tremor_plugin_kafka_producer_given_up_total");
        if counted == u32::try_from(logged).ok().map(f64::from) { logged } else { 0 }
    }

    fn is_without_answer(producer: &Flow) {
        producer.is("output", "connecting");
    }

    fn fills_disk(producer: &Flow, broker: &mut Broker) {
        // The broker ends by itself, because it has no other disk.
        eventually("the end of the broker", || broker.has_ended(1).then_some(()));
        producer.is("output", "connecting");
    }

    fn reached_at(address: &str) -> Vec<String> {
        vec!["--set".to_owned(), format!("advertised.listeners=PLAINTEXT://{address}")]
    }
}
