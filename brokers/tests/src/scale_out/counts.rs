//! Counts, for each output partition, the records that were lost, repeated and overtaken, and measures pauses.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A record of the output topic.
#[derive(Clone, Copy, Debug)]
pub struct OutputRecord {
    /// Partition of the record.
    pub partition: usize,
    /// Number of the record among the input records of the partition.
    pub number: usize,
    /// Number of the process that wrote the record.
    pub process: usize,
    /// Time at which the broker received the record, in ms since 1970.
    pub time: i64,
}

/// Counts for all partitions.
#[derive(Debug)]
pub struct Counts {
    partitions: Vec<Partition>,
    /// Processes that were killed, or lost their partitions. They may not have committed the offsets of records that
    /// they have written.
    killed: BTreeSet<usize>,
    /// Start of the time in which pauses count, in ms since 1970.
    pauses_from: i64,
}

/// Counts for one partition.
#[derive(Debug, Default)]
pub struct Partition {
    /// For each record number, the process that wrote the last copy of the record.
    writers: Vec<Option<usize>>,
    last: Option<OutputRecord>,
    /// Number of records written, without repetitions.
    pub written: u64,
    /// Number of repeated records, by the process that wrote the previous copy.
    repeated: BTreeMap<usize, u64>,
    /// Number of records whose first copy was written after a later record.
    pub overtaken: u64,
    /// Number of times that the partition moved to another process.
    pub moves: u64,
    /// Longest time between two records of one process, in ms.
    pub pause: i64,
    /// Longest time between the last record of one process and the first of the next, in ms.
    pub pause_of_moves: i64,
}

impl Counts {
    /// Creates counts for `partitions` partitions.
    pub fn new(partitions: usize) -> Self {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Self { partitions, killed: BTreeSet::new(), pauses_from: 0 }
    }

    /// Notes that a process was killed or considered dead by the group. It may not have committed the offsets of
    /// records that it has written.
    pub fn killed(&mut self, process: usize) {
        self.killed.insert(process);
    }

    /// Counts only pauses that begin at `time`, in ms since 1970, or later.
    pub fn pauses_from(&mut self, time: i64) {
        self.pauses_from = time;
    }

    /// Adds a record. The records of a partition have to be added in order.
    pub fn add(&mut self, record: OutputRecord) {
        let OutputRecord { partition, number, process, time } = record;
        let of = &mut self.partitions[partition];
        if let Some(before) = of.last.replace(record) {
            let pause = if before.time < self.pauses_from { 0 } else { time - before.time };
            if before.process == process {
                of.pause = of.pause.max(pause);
            } else {
                of.moves += 1;
                of.pause_of_moves = of.pause_of_moves.max(pause);
            }
        }
        let next = of.writers.len();
        if of.writers.len() <= number {
            of.writers.resize(number + 1, None);
        }
        match of.writers[number].replace(process) {
            None => {
                of.written += 1;
                of.overtaken += u64::from(number < next);
            }
            Some(writer) => *of.repeated.entry(writer).or_default() += 1,
        }
    }

    /// Returns whether each partition has a record that was written after `time`, in ms since 1970.
    pub fn have_records_since(&self, time: i64) -> bool {
        self.partitions.iter().all(|of| of.last.is_some_and(|last| last.time > time))
    }

    /// Returns the number of missing records, if each partition should have `each` records.
    pub fn lost(&self, each: usize) -> u64 {
        self.partitions.iter().map(|of| of.lost(each)).sum()
    }

    /// Returns the counts of each partition.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Returns the sums of all partitions, and the longest pauses.
    pub fn total(&self) -> Partition {
        self.partitions.iter().fold(Partition::default(), |sum, of| Partition {
            written: sum.written + of.written,
            overtaken: sum.overtaken + of.overtaken,
            moves: sum.moves + of.moves,
            pause: sum.pause.max(of.pause),
            pause_of_moves: sum.pause_of_moves.max(of.pause_of_moves),
            ..Partition::default()
        })
    }

    /// Returns two numbers of repeated records of a partition, or of all partitions: records whose previous copy was
    /// written by a killed process, and records whose previous copy was written by another process.
    pub fn repeated(&self, partition: Option<usize>) -> (u64, u64) {
        let all = partition.map_or(&self.partitions[..], |it| &self.partitions[it..=it]);
        let (mut killed, mut others) = (0, 0);
        for (process, count) in all.iter().flat_map(|of| &of.repeated) {
            *(if self.killed.contains(process) { &mut killed } else { &mut others }) += count;
        }
        (killed, others)
    }

    /// Returns a table of the counts, where `each` records were written to each input partition.
    pub fn table(&self, each: usize) -> Table<'_> {
        Table { counts: self, each }
    }
}

/// A table of the counts, with a line for each partition and one for the total.
#[derive(Debug)]
pub struct Table<'b> {
    counts: &'b Counts,
    each: usize,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, each } = self;
        writeln!(
            f,
            "partition        in       out   lost  repeated by kill  repeated  overtaken  moves  pause ms  of moves, ms"
        )?;
        let mut row = |name: &str,
                       in_all: usize,
                       lost: u64,
                       of: &Partition,
                       repeated: (u64, u64)| {
            let (Partition { written, overtaken, moves, .. }, (by_killed, by_others)) =
                (of, repeated);
            writeln!(
                f,
                "{name:>9} {in_all:>9} {written:>9} {lost:>6} {by_killed:>17} {by_others:>9} {overtaken:>10} {moves:>6} \
                 {:>9} {:>13}",
                of.pause, of.pause_of_moves
            )
        };
        for (number, of) in counts.partitions.iter().enumerate() {
            row(&number.to_string(), *each, of.lost(*each), of, counts.repeated(Some(number)))?;
        }
        row(
            "all",
            each * counts.partitions.len(),
            counts.lost(*each),
            &counts.total(),
            counts.repeated(None),
        )
    }
}

impl Partition {
    fn lost(&self, each: usize) -> u64 {
        let written = self.writers.iter().take(each).flatten().count();
        (each - written) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, OutputRecord};

    fn counts(records: &[(usize, usize, i64)]) -> Counts {
        let mut counts = Counts::new(1);
        for &(number, process, time) in records {
            counts.add(OutputRecord { partition: 0, number, process, time });
        }
        counts
    }

    #[test]
    fn missing_records_are_lost() {
        let counts = counts(&[(0, 1, 10), (2, 1, 30)]);
        assert_eq!((counts.lost(3), counts.lost(5), counts.total().written), (1, 3, 2));
    }

    #[test]
    fn repeats_count_for_writer_of_the_previous_copy() {
        let mut counts = counts(&[(0, 1, 10), (1, 1, 20)]);
        counts.killed(1);
        for (number, process) in [(1, 2), (2, 2), (2, 3)] {
            counts.add(OutputRecord { partition: 0, number, process, time: 30 });
        }
        let total = counts.total();
        assert_eq!((counts.repeated(None), total.moves), ((1, 1), 2));
        assert_eq!(counts.repeated(Some(0)), (1, 1));
    }

    #[test]
    fn late_first_copy_is_overtaken_and_repeat_is_not() {
        let counts = counts(&[(0, 1, 0), (2, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0)]);
        assert_eq!(counts.total().overtaken, 1);
    }

    #[test]
    fn pauses_that_begin_before_a_time_do_not_count() {
        let mut counts = counts(&[]);
        counts.pauses_from(3);
        for (number, process, time) in [(0, 1, 2), (1, 1, 30), (2, 1, 45), (3, 2, 105), (4, 2, 110)]
        {
            counts.add(OutputRecord { partition: 0, number, process, time });
        }
        let total = counts.total();
        assert_eq!((total.pause, total.pause_of_moves), (15, 60));
        assert!(counts.have_records_since(109) && !counts.have_records_since(110));
    }
}
