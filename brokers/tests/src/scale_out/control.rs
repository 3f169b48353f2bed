//! The control of a measurement: a client without a group. The pauses of this client are caused by the broker or the
//! machine and not by a flow.

use std::sync::{Arc, Mutex};

use rdkafka::{Message, producer::BaseRecord};

use crate::{
    kafka::{Kafka, unique},
    scale_out::{
        counts::{Counts, OutputRecord},
        processes::{Reader, STAMPED, number, time},
    },
};

/// A client that copies records from a topic of one partition to another.
pub(super) struct Control {
    pub(super) from: String,
    counts: Arc<Mutex<Counts>>,
    _copies: Reader,
    _reader: Reader,
}

impl Control {
    /// Starts the client.
    pub(super) fn start(kafka: &Arc<Kafka>) -> Self {
        let (from, to) = (kafka.topic("control", 1), unique("controlled"));
        kafka.make_topic_with(&to, 1, STAMPED);
        let (own, target) = (kafka.clone(), to.clone());
        let copies = Reader::start(kafka, &from, 1, move |record| {
            let payload = std::str::from_utf8(record.payload().unwrap()).unwrap();
            own.send(BaseRecord::to(&target).payload(payload));
        });
        let counts = Arc::new(Mutex::new(Counts::new(1)));
        let own = counts.clone();
        let reader = Reader::start(kafka, &to, 1, move |record| {
            let record = OutputRecord {
                partition: 0,
                number: number(record),
                process: 0,
                time: time(record),
            };
            own.lock().unwrap().add(record);
        });
        Self { from, counts, _copies: copies, _reader: reader }
    }

    /// Counts only pauses that begin at `time`, in ms since 1970, or later.
    pub(super) fn pauses_from(&self, time: i64) {
        self.counts.lock().unwrap().pauses_from(time);
    }

    /// Returns the longest time between two written records, in ms.
    pub(super) fn pause(&self) -> i64 {
        self.counts.lock().unwrap().total().pause
    }
}
