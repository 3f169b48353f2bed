//! A client that is in no group, beside the processes: what it waits for is the broker's doing, or the machine's.

use std::sync::{Arc, Mutex};

use rdkafka::{Message, producer::BaseRecord};

use crate::{
    kafka::{Kafka, unique},
    scale_out::{
        books::{Books, Came},
        processes::{Reader, STAMPED, number, time},
    },
};

/// It, with a topic of one partition that it reads, and another that it writes to.
pub(super) struct Control {
    pub(super) from: String,
    books: Arc<Mutex<Books>>,
    _copies: Reader,
    _looks: Reader,
}

impl Control {
    /// Starts it.
    pub(super) fn start(kafka: &Arc<Kafka>) -> Self {
        let (from, to) = (kafka.topic("control", 1), unique("controlled"));
        kafka.make_topic_with(&to, 1, STAMPED);
        let (own, target) = (kafka.clone(), to.clone());
        let copies = Reader::start(kafka, &from, 1, move |record| {
            let payload = std::str::from_utf8(record.payload().unwrap()).unwrap();
            own.send(BaseRecord::to(&target).payload(payload));
        });
        let books = Arc::new(Mutex::new(Books::new(1)));
        let own = books.clone();
        let looks = Reader::start(kafka, &to, 1, move |record| {
            let came =
                Came { partition: 0, number: number(record), process: 0, time: time(record) };
            own.lock().unwrap().came(came);
        });
        Self { from, books, _copies: copies, _looks: looks }
    }

    /// Pauses count that begin now, in ms since 1970, or later.
    pub(super) fn pauses_from(&self, time: i64) {
        self.books.lock().unwrap().pauses_from(time);
    }

    /// The longest time between two records that it has written, in ms.
    pub(super) fn pause(&self) -> i64 {
        self.books.lock().unwrap().total().pause
    }
}
