//! Detection of entries that are missing in the journal, for example because journald has deleted them before they were
//! read.

use std::collections::HashMap;

/// Sequence numbers of the entries that were read.
///
/// journald numbers its entries without gaps, across files and restarts, and the numbers serve to detect lost entries:
/// see `sd_journal_get_seqnum(3)`.
#[derive(Default)]
pub(crate) struct SequenceNumbers {
    /// The largest number that was read, for each identifier of a series. An instance of journald has one series.
    last: HashMap<Box<str>, u64>,
}

impl SequenceNumbers {
    /// Adds the number of an entry that was read. Returns the number of entries that are missing before this entry.
    /// `cursor` is `None` if the cursor of the entry is unknown.
    pub(crate) fn add(&mut self, cursor: Option<&str>) -> u64 {
        let Some((series, number)) = cursor.and_then(number) else {
            // The entry may belong to any series, so the next numbers are not known.
            self.last.clear();
            return 0;
        };
        match self.last.get_mut(series) {
            Some(last) => {
                // An entry that is read again has a smaller number.
                let missing = number.saturating_sub(*last).saturating_sub(1);
                *last = number.max(*last);
                missing
            }
            None => {
                self.last.insert(series.into(), number);
                0
            }
        }
    }
}

/// Returns the identifier of the series and the sequence number, from a cursor such as `s=9ba4…;i=1c3;b=…`.
fn number(cursor: &str) -> Option<(&str, u64)> {
    let part = |name: &str| cursor.split(';').find_map(|part| part.strip_prefix(name));
    Some((part("s=")?, u64::from_str_radix(part("i=")?, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::SequenceNumbers;

    #[test]
    fn missing_numbers_of_a_series_are_counted_once() {
        let mut numbers = SequenceNumbers::default();
        for (cursor, missing) in [
            (Some("s=a;i=9;b=1;m=2"), 0),
            (Some("s=a;i=a;b=1;m=2"), 0),
            (Some("s=b;i=1;b=1;m=2"), 0),
            (Some("s=a;i=f;b=2;m=1"), 4),
            // These entries are read again.
            (Some("s=a;i=a"), 0),
            (Some("s=a;i=f"), 0),
            (Some("s=a;i=10"), 0),
            (Some("s=b;i=3"), 1),
            // After an unknown number, the next one proves nothing.
            (None, 0),
            (Some("s=a;i=20"), 0),
            (Some("s=a;i=ffffffffffffffff"), u64::MAX - 0x21),
            (Some("s=a"), 0),
            (Some("i=1;s=a"), 0),
        ] {
            assert_eq!(numbers.add(cursor), missing, "{cursor:?}");
        }
    }
}
