//! Writes and reads 1,000,000 records of 600 bytes with rskafka: `rsk ADDRESS TOPIC`. 1,000 records a request, five
//! requests at a time, as librdkafka has them; without numbers of records, which it does not know.
use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures::{StreamExt, stream};
use rskafka::{
    client::{
        ClientBuilder,
        partition::{Compression, UnknownTopicHandling},
    },
    record::Record,
};

const COUNT: u64 = 1_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (address, topic) = (arguments.next().unwrap(), arguments.next().unwrap());
    let client = ClientBuilder::new(vec![address]).build().await.unwrap();
    let partition =
        Arc::new(client.partition_client(topic, 0, UnknownTopicHandling::Retry).await.unwrap());
    let payload = vec![b'x'; 600];
    let start = Instant::now();
    stream::iter(0..COUNT / 1_000)
        .map(|_| {
            let records = (0..1_000)
                .map(|_| Record {
                    key: None,
                    value: Some(payload.clone()),
                    headers: BTreeMap::new(),
                    timestamp: chrono::Utc::now(),
                })
                .collect();
            let partition = partition.clone();
            async move { partition.produce(records, Compression::NoCompression).await.unwrap() }
        })
        .buffered(5)
        .for_each(|_| async {})
        .await;
    report("produce", start);
    let start = Instant::now();
    let mut next = 0;
    while next < COUNT as i64 {
        let (records, _) = partition.fetch_records(next, 1..1_000_000, 1_000).await.unwrap();
        next = records.last().map_or(next, |it| it.offset + 1);
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
