//! NATS for the tests of faults: a stream with the consumer `c`.

use std::ops::Range;

use broker_tests::{broker::Broker, eventually, flow::Flow, lines::line, nats::Nats};

use super::{Stream, System};

impl System for Nats {
    const NAME: &'static str = "nats";
    const LOST: &'static str = "connection to the server is lost";
    const PRODUCERS: &'static [&'static str] = &["jetstream: true", "jetstream: false"];
    const IS_ORDERED: bool = false;

    fn shared() -> Option<Self> {
        crate::nats::nats()
    }

    fn at(address: &str) -> Self {
        Nats::new(address)
    }

    fn address(&self) -> String {
        self.address()
    }

    fn make(&self, partitions: i32, replicas: i32) -> Stream {
        let replicas = usize::try_from(replicas).unwrap();
        let name = self.stream_with("fault", |config| config.num_replicas = replicas);
        Stream { name, partitions }
    }

    fn write(&self, stream: &Stream, numbers: Range<u64>) {
        self.publish_with_retry(&format!("{}.a", stream.name), numbers.map(line));
    }

    fn count(&self, stream: &Stream) -> Option<u64> {
        self.try_count(&stream.name)
    }

    fn events(&self, stream: &Stream) -> Option<Vec<String>> {
        self.try_messages(&stream.name)
    }

    fn acknowledged(&self, stream: &Stream) -> u64 {
        self.consumer(&stream.name, "c").map_or(0, |info| info.ack_floor.stream_sequence)
    }

    fn leader(&self, stream: &Stream) -> Option<u32> {
        self.leader(&stream.name)
    }

    fn is_divided(&self, stream: &Stream, _: [&Flow; 2]) -> bool {
        self.consumer(&stream.name, "c").is_some_and(|info| info.num_waiting >= 2)
    }

    fn consumer(&self, Stream { name, .. }: &Stream) -> String {
        let address = self.address();
        format!(
            "{{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], stream: {name}, \
             consumer: c, ack_wait: 2s, prefetch: 10 }} }}"
        )
    }

    fn producer(address: &str, Stream { name, .. }: &Stream, keys: &str) -> String {
        format!(
            "{{ type: nats_producer, codec: json, in_flight: 4, config: {{ servers: ['{address}'], \
             subject: {name}.a, timeout: 2s, {keys} }} }}"
        )
    }

    fn given_up(producer: &Flow) -> usize {
        let says = ["did not confirm", "did not answer within", Self::LOST];
        says.iter().map(|it| producer.log().matches(it).count()).sum()
    }

    fn fills_disk(producer: &Flow, broker: &mut Broker) {
        eventually(format_args!("a full disk\n{producer}"), || {
            let says = ["rejected the message temporarily", "did not confirm the message"];
            says.iter().any(|it| producer.log().contains(it)).then_some(())
        });
        // Stop the server: JetStream has disabled itself because its disk is full.
        broker.order("stop 1");
    }
}
