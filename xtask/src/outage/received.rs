//! The records that the peer has received, with their repetitions and order.

/// Length of a record's number, in bytes.
const NUMBER: usize = 8;

/// The form of records in a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Records of this size in bytes. The number of a record is at its beginning and at its end.
    Binary(usize),
    /// Lines. The number of a line is in decimal digits between two characters `#`.
    Lines,
}

/// The records that the peer has received.
#[derive(Debug)]
pub(crate) struct Received {
    form: Form,
    /// `true` for each received record, by number.
    seen: Vec<bool>,
    /// Maximum number of a received record plus one, by stream.
    newest: Vec<u64>,
    /// Number of records that were received again.
    pub(crate) again: u64,
    /// Number of records that were first received after a later one of their stream.
    pub(crate) disordered: u64,
    /// Number of partial records, and of records that the source has not sent.
    pub(crate) torn: u64,
}

impl Received {
    /// Creates an empty list for records of this form, which belong to `streams` streams in turn.
    pub(crate) fn new(form: Form, streams: usize) -> Self {
        let newest = vec![0; streams];
        Self { form, seen: Vec::new(), newest, again: 0, disordered: 0, torn: 0 }
    }

    /// Returns how many of the first `sent` records were not received.
    pub(crate) fn missing(&self, sent: u64) -> u64 {
        let sent = usize::try_from(sent).unwrap_or(usize::MAX);
        let received = self.seen.iter().take(sent).filter(|&&seen| seen).count();
        (sent - received) as u64
    }

    /// Adds the records of a delivery.
    pub(crate) fn add(&mut self, delivery: &[u8]) {
        match self.form {
            Form::Binary(record) => {
                let records = delivery.chunks_exact(record);
                self.torn += u64::from(!records.remainder().is_empty());
                records.for_each(|record| self.add_found(number(record)));
            }
            Form::Lines => {
                delivery
                    .split_inclusive(|byte| *byte == b'\n')
                    .for_each(|line| self.add_found(marked(line)));
            }
        }
    }

    fn add_found(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.add_one(number),
            None => self.torn += 1,
        }
    }

    fn add_one(&mut self, number: u64) {
        // The source sends no number as large as that.
        let Some(index) = usize::try_from(number).ok().filter(|index| *index < 1 << 32) else {
            self.torn += 1;
            return;
        };
        if index >= self.seen.len() {
            self.seen.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.seen[index], true) {
            self.again += 1;
            return;
        }
        let stream = index % self.newest.len();
        let newest = &mut self.newest[stream];
        self.disordered += u64::from(number < *newest);
        *newest = (*newest).max(number + 1);
    }
}

/// Returns the number of a record, which is both at its beginning and at its end; `None` if they differ.
fn number(record: &[u8]) -> Option<u64> {
    let (first, last) = (record.first_chunk::<NUMBER>()?, record.last_chunk::<NUMBER>()?);
    (first == last).then(|| u64::from_le_bytes(*first))
}

/// Returns the number of a whole line; `None` if the line has no number.
fn marked(line: &[u8]) -> Option<u64> {
    let mut parts = line.strip_suffix(b"\n")?.split(|byte| *byte == b'#').skip(1);
    let number = parts.next()?;
    parts.next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Form, Received};

    fn record(number: u64) -> Vec<u8> {
        [number.to_le_bytes(), [b'.'; 8], number.to_le_bytes()].concat()
    }

    fn received(deliveries: &[&[u64]]) -> Received {
        let mut received = Received::new(Form::Binary(24), 2);
        for delivery in deliveries {
            let records: Vec<Vec<u8>> = delivery.iter().map(|number| record(*number)).collect();
            received.add(&records.concat());
        }
        received
    }

    #[test]
    fn missing_and_repeated_records_are_counted() {
        let received = received(&[&[0, 1, 3], &[3, 4]]);
        assert_eq!((received.missing(5), received.missing(9)), (1, 5));
        assert_eq!((received.again, received.disordered, received.torn), (1, 0, 0));
    }

    #[test]
    fn order_is_judged_by_stream_and_ignores_repetitions() {
        assert_eq!(
            received(&[&[1, 0, 3, 2]]).disordered,
            0,
            "lines of two streams have no common order"
        );
        assert_eq!(received(&[&[2, 4, 0]]).disordered, 1);
        assert_eq!(received(&[&[0, 2, 4], &[0, 2, 6]]).disordered, 0);
    }

    #[test]
    fn part_of_a_record_counts_as_torn() {
        let mut received = Received::new(Form::Binary(24), 2);
        received.add(&record(7)[..23]);
        received.add(&[record(1), record(2)].concat()[8..32]);
        assert_eq!((received.torn, received.missing(9)), (2, 9));
    }
    #[test]
    fn number_of_a_line_is_between_its_marks() {
        let mut received = Received::new(Form::Lines, 1);
        received.add(b"#0000000#\n#0000001# text #\n{\"MESSAGE\":\"#2#\"}\n#1#\n");
        assert_eq!((received.missing(4), received.again, received.torn), (1, 1, 0));
        received.add(b"#0000004#");
        received.add(b"no number\n#5\n");
        assert_eq!(received.torn, 3);
    }
}
