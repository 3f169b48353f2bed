//! The set of settled numbers.

use crate::layout::{SHEET_HEADER, Sheet, put, read_sheet, seal, sheet, u32_at, u64_at};

const MAGIC: [u8; 4] = *b"TRLP";

/// Bytes of one range on disk.
const RANGE: usize = 16;

/// A position, up to which all numbers are settled, and the ranges of settled numbers above it.
///
/// Ranges are ascending, and there is at least one number between two of them, and between the position and the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    position: u64,
    ranges: Vec<(u64, u64)>,
}

impl Settled {
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.covers(number, number)
    }

    /// Returns whether all numbers from `first` to `last` are settled. An empty range is.
    pub(crate) fn covers(&self, first: u64, last: u64) -> bool {
        let first = first.max(self.position + 1);
        first > last || {
            let next = self.ranges.partition_point(|range| range.1 < first);
            self.ranges.get(next).is_some_and(|range| range.0 <= first && last <= range.1)
        }
    }

    /// Returns the ranges of settled numbers from `first` to `last`, in ascending order.
    pub(crate) fn within(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let from = self.ranges.partition_point(|range| range.1 < first);
        let ranges = self.ranges[from..].iter().take_while(|range| range.0 <= last);
        let all = std::iter::once((0, self.position)).chain(ranges.copied());
        let within = all.map(|range| (range.0.max(first), range.1.min(last)));
        within.filter(|range| range.0 <= range.1).collect()
    }

    /// Settles the numbers from `first` to `last`.
    pub(crate) fn insert(&mut self, first: u64, last: u64) {
        let first = first.max(self.position + 1);
        if first > last {
            return;
        }
        // The ranges that touch the new one.
        let from = self.ranges.partition_point(|range| range.1 < first.saturating_sub(1));
        let to = self.ranges.partition_point(|range| range.0 <= last.saturating_add(1));
        let mut merged = (first, last);
        if let (Some(lowest), Some(highest)) =
            (self.ranges.get(from), self.ranges.get(to.wrapping_sub(1)))
            && from < to
        {
            merged = (first.min(lowest.0), last.max(highest.1));
        }
        self.ranges.splice(from..to, [merged]);
        if self.ranges[0].0 <= self.position + 1 {
            self.position = self.ranges.remove(0).1;
        }
    }

    /// Returns the set with at most `max` ranges: the lowest ones.
    pub(crate) fn lowest(&self, max: usize) -> Self {
        let ranges = self.ranges[..self.ranges.len().min(max)].to_vec();
        Self { position: self.position, ranges }
    }
}

/// Bytes of a block of positions with up to `ranges` ranges, a multiple of 4 KiB.
pub(crate) fn positions_len(ranges: usize) -> usize {
    (SHEET_HEADER + ranges * RANGE).next_multiple_of(crate::layout::BLOCK as usize)
}

/// Returns a block of positions. `is_closed` is set if no record was appended after the settled ones became durable.
pub(crate) fn encode(settled: &Settled, counter: u64, is_closed: bool) -> Vec<u8> {
    let mut bytes = sheet(MAGIC, SHEET_HEADER + settled.ranges.len() * RANGE);
    put(&mut bytes, 16, &counter.to_le_bytes());
    put(&mut bytes, 24, &settled.position.to_le_bytes());
    put(&mut bytes, 32, &(settled.ranges.len() as u32).to_le_bytes());
    put(&mut bytes, 36, &u32::from(is_closed).to_le_bytes());
    for (index, (first, last)) in settled.ranges.iter().enumerate() {
        put(&mut bytes, SHEET_HEADER + index * RANGE, &first.to_le_bytes());
        put(&mut bytes, SHEET_HEADER + index * RANGE + 8, &last.to_le_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// A block of positions that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    Valid { counter: u64, settled: Settled, is_closed: bool },
    Newer(u16),
    Invalid,
}

pub(crate) fn decode(bytes: &[u8]) -> Positions {
    let bytes = match read_sheet(bytes, MAGIC) {
        Sheet::Valid(bytes) => bytes,
        Sheet::Newer(version) => return Positions::Newer(version),
        Sheet::Invalid => return Positions::Invalid,
    };
    let count = u32_at(bytes, 32) as usize;
    if bytes.len() != SHEET_HEADER + count * RANGE {
        return Positions::Invalid;
    }
    let mut settled = Settled { position: u64_at(bytes, 24), ranges: Vec::with_capacity(count) };
    for range in bytes[SHEET_HEADER..].chunks_exact(RANGE) {
        let range = (u64_at(range, 0), u64_at(range, 8));
        let previous = settled.ranges.last().map_or(settled.position, |it| it.1);
        if range.0 <= previous.saturating_add(1) || range.1 < range.0 {
            return Positions::Invalid;
        }
        settled.ranges.push(range);
    }
    Positions::Valid { counter: u64_at(bytes, 16), settled, is_closed: u32_at(bytes, 36) == 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn set_equals_a_set_of_single_numbers() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (mut settled, mut numbers) = (Settled::default(), BTreeSet::new());
            for _ in 0..30 {
                let first = random.u64(1..60);
                let last = first + random.u64(0..4);
                settled.insert(first, last);
                numbers.extend(first..=last);
                for number in 1..70 {
                    assert_eq!(settled.contains(number), numbers.contains(&number));
                }
                let is_covered = (first..=last + 2).all(|it| numbers.contains(&it));
                assert_eq!(settled.covers(first, last + 2), is_covered);
                let within = settled.within(first, last + 9);
                let within: Vec<_> = within.into_iter().flat_map(|it| it.0..=it.1).collect();
                let expected: Vec<_> = numbers.range(first..=last + 9).copied().collect();
                assert_eq!(within, expected);
                let bytes = encode(&settled, 5, true);
                let expected =
                    Positions::Valid { counter: 5, settled: settled.clone(), is_closed: true };
                assert_eq!(decode(&bytes), expected);
            }
        }
    }

    #[test]
    fn highest_ranges_are_left_out() {
        let mut settled = Settled::default();
        for number in [2, 4, 6] {
            settled.insert(number, number);
        }
        assert_eq!(settled.lowest(2).ranges(), [(2, 2), (4, 4)]);
    }
}
