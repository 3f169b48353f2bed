//! What the peer has got: which records, how often, and in which order.

/// The parts of a record that say which it is, in bytes.
const NUMBER: usize = 8;

/// The books of the peer.
#[derive(Debug)]
pub(super) struct Books {
    /// The size of a record, in bytes.
    record: usize,
    /// Which records there are, by their numbers.
    seen: Vec<bool>,
    /// Of each stream, the number after that of the last record that came for the first time.
    newest: Vec<u64>,
    /// Records that were there before.
    pub(super) again: u64,
    /// Records that came for the first time after a later one of their stream.
    pub(super) disordered: u64,
    /// Records that are none of the source's, and rests of one.
    pub(super) torn: u64,
}

impl Books {
    /// Of records of this size, which are of so many streams by turns.
    pub(super) fn new(record: usize, streams: usize) -> Self {
        let newest = vec![0; streams];
        Self { record, seen: Vec::new(), newest, again: 0, disordered: 0, torn: 0 }
    }

    /// How many of the first records that the source has sent are not there.
    pub(super) fn missing(&self, sent: u64) -> u64 {
        let sent = usize::try_from(sent).unwrap_or(usize::MAX);
        let there = self.seen.iter().take(sent).filter(|&&seen| seen).count();
        (sent - there) as u64
    }

    /// Enters the records of a delivery.
    pub(super) fn enter(&mut self, delivery: &[u8]) {
        let records = delivery.chunks_exact(self.record);
        self.torn += u64::from(!records.remainder().is_empty());
        for record in records {
            match number(record) {
                Some(number) => self.enter_one(number),
                None => self.torn += 1,
            }
        }
    }

    fn enter_one(&mut self, number: u64) {
        // A number that nobody has sent is as good as none.
        let Some(place) = usize::try_from(number).ok().filter(|place| *place < 1 << 32) else {
            self.torn += 1;
            return;
        };
        if place >= self.seen.len() {
            self.seen.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.seen[place], true) {
            self.again += 1;
            return;
        }
        let stream = place % self.newest.len();
        let newest = &mut self.newest[stream];
        self.disordered += u64::from(number < *newest);
        *newest = (*newest).max(number + 1);
    }
}

/// The number of a record: it stands at both its ends.
fn number(record: &[u8]) -> Option<u64> {
    let (first, last) = (record.first_chunk::<NUMBER>()?, record.last_chunk::<NUMBER>()?);
    (first == last).then(|| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::Books;

    fn record(number: u64) -> Vec<u8> {
        [number.to_le_bytes(), [b'.'; 8], number.to_le_bytes()].concat()
    }

    fn books(deliveries: &[&[u64]]) -> Books {
        let mut books = Books::new(24, 2);
        for delivery in deliveries {
            let records: Vec<Vec<u8>> = delivery.iter().map(|number| record(*number)).collect();
            books.enter(&records.concat());
        }
        books
    }

    #[test]
    fn what_did_not_come_is_missing_and_what_came_twice_is_counted() {
        let books = books(&[&[0, 1, 3], &[3, 4]]);
        assert_eq!((books.missing(5), books.missing(9)), (1, 5));
        assert_eq!((books.again, books.disordered, books.torn), (1, 0, 0));
    }

    #[test]
    fn order_is_that_of_a_stream_and_what_comes_again_has_none() {
        assert_eq!(books(&[&[1, 0, 3, 2]]).disordered, 0, "two streams");
        assert_eq!(books(&[&[2, 4, 0]]).disordered, 1);
        assert_eq!(books(&[&[0, 2, 4], &[0, 2, 6]]).disordered, 0);
    }

    #[test]
    fn a_part_of_a_record_is_none() {
        let mut books = Books::new(24, 2);
        books.enter(&record(7)[..23]);
        books.enter(&[record(1), record(2)].concat()[8..32]);
        assert_eq!((books.torn, books.missing(9)), (2, 9));
    }
}
