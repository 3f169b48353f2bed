//! Writes and reads 1,000,000 records of 600 bytes with rdkafka: `rdk ADDRESS TOPIC`.
use std::time::{Duration, Instant};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    producer::{BaseProducer, BaseRecord, Producer},
};

const COUNT: u64 = 1_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (address, topic) = (arguments.next().unwrap(), arguments.next().unwrap());
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &address).set("group.id", "g");
    config.set("queue.buffering.max.kbytes", "65536").set("queue.buffering.max.messages", "0");
    let producer: BaseProducer =
        {
            let mut own = config.clone();
            own.set("enable.idempotence", "true").set("linger.ms", "1");
            for pair in std::env::args().skip(3) {
                let (key, value) = pair.split_once('=').unwrap();
                own.set(key, value);
            }
            own.create().unwrap()
        };
    let payload = vec![b'x'; 600];
    let start = Instant::now();
    for _ in 0..COUNT {
        while producer
            .send(BaseRecord::<(), [u8]>::to(&topic).payload(&payload).partition(0))
            .is_err()
        {
            // A longer `poll` spins for its last millisecond.
            std::thread::sleep(Duration::from_micros(200));
            for _ in 0..100 {
                producer.poll(Duration::ZERO);
            }
        }
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    report("produce", start);
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let start = Instant::now();
    let mut read = 0;
    while read < COUNT {
        if let Some(Ok(_)) = consumer.poll(Duration::from_secs(1)) {
            read += 1;
        }
    }
    report("fetch", start);
}

fn report(what: &str, start: Instant) {
    let took = start.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> =
        stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2).map(|it| it.parse().unwrap()).collect();
    let cpu = (fields[0] + fields[1]) as f64 / 100.0;
    println!("{what} {:.0} records/s, {cpu:.2} s of processor so far", COUNT as f64 / took);
}
