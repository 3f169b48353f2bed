//! What came out of each partition: of which process, when, how often, in which order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A record that came out, as the broker has it.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The partition.
    pub partition: usize,
    /// Its number among those that went into the partition.
    pub number: usize,
    /// The process that has written it.
    pub process: usize,
    /// When the broker got it, in ms since 1970.
    pub time: i64,
}

/// What came out of all partitions.
#[derive(Debug)]
pub struct Books {
    partitions: Vec<Partition>,
    /// The processes that have ended, or lost their partitions, without committing what they had written.
    killed: BTreeSet<usize>,
    /// Pauses that begin earlier do not count, in ms since 1970.
    pauses_from: i64,
}

/// What came out of a partition.
#[derive(Debug, Default)]
pub struct Partition {
    /// Which process has last written the record of each number.
    writers: Vec<Option<usize>>,
    last: Option<Came>,
    /// How many records came, each counted once.
    pub came: u64,
    /// How often one came again, by the process that had written it before.
    again: BTreeMap<usize, u64>,
    /// How many came for the first time after a later one.
    pub overtaken: u64,
    /// How often the partition went from process to process.
    pub moves: u64,
    /// The longest time between two records of one process, in ms.
    pub pause: i64,
    /// The longest time between the last of one process and the first of another, in ms.
    pub pause_of_moves: i64,
}

impl Books {
    /// Those of so many partitions.
    pub fn new(partitions: usize) -> Self {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Self { partitions, killed: BTreeSet::new(), pauses_from: 0 }
    }

    /// This process is killed, or the group holds it for dead: it may not have committed what it has written.
    pub fn killed(&mut self, process: usize) {
        self.killed.insert(process);
    }

    /// Pauses count that begin now, in ms since 1970, or later.
    pub fn pauses_from(&mut self, time: i64) {
        self.pauses_from = time;
    }

    /// Enters a record. They come in the order of their partition.
    pub fn came(&mut self, came: Came) {
        let Came { partition, number, process, time } = came;
        let of = &mut self.partitions[partition];
        if let Some(before) = of.last.replace(came) {
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
                of.came += 1;
                of.overtaken += u64::from(number < next);
            }
            Some(writer) => *of.again.entry(writer).or_default() += 1,
        }
    }

    /// Whether one has come of each partition since then, in ms since 1970.
    pub fn have_come_since(&self, time: i64) -> bool {
        self.partitions.iter().all(|of| of.last.is_some_and(|last| last.time > time))
    }

    /// How many of the first so many records of each partition have not come.
    pub fn lost(&self, each: usize) -> u64 {
        self.partitions.iter().map(|of| of.lost(each)).sum()
    }

    /// What came out of each partition.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// All partitions together; of pauses the longest.
    pub fn total(&self) -> Partition {
        self.partitions.iter().fold(Partition::default(), |sum, of| Partition {
            came: sum.came + of.came,
            overtaken: sum.overtaken + of.overtaken,
            moves: sum.moves + of.moves,
            pause: sum.pause.max(of.pause),
            pause_of_moves: sum.pause_of_moves.max(of.pause_of_moves),
            ..Partition::default()
        })
    }

    /// How often records of a partition, or of all, came again that a killed process had written before, and how often
    /// others did.
    pub fn again(&self, partition: Option<usize>) -> (u64, u64) {
        let all = partition.map_or(&self.partitions[..], |it| &self.partitions[it..=it]);
        let (mut killed, mut others) = (0, 0);
        for (process, count) in all.iter().flat_map(|of| &of.again) {
            *(if self.killed.contains(process) { &mut killed } else { &mut others }) += count;
        }
        (killed, others)
    }

    /// A table, where so many records went into each partition.
    pub fn table(&self, each: usize) -> Table<'_> {
        Table { books: self, each }
    }
}

/// What came out of each partition, and of all.
#[derive(Debug)]
pub struct Table<'b> {
    books: &'b Books,
    each: usize,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { books, each } = self;
        writeln!(
            f,
            "partition        in       out   lost  again, kills  again  overtaken  moves  pause ms  of moves, ms"
        )?;
        let mut row = |name: &str, in_all: usize, lost: u64, of: &Partition, again: (u64, u64)| {
            let (Partition { came, overtaken, moves, .. }, (of_kills, again)) = (of, again);
            writeln!(
                f,
                "{name:>9} {in_all:>9} {came:>9} {lost:>6} {of_kills:>13} {again:>6} {overtaken:>10} {moves:>6} \
                 {:>9} {:>13}",
                of.pause, of.pause_of_moves
            )
        };
        for (number, of) in books.partitions.iter().enumerate() {
            row(&number.to_string(), *each, of.lost(*each), of, books.again(Some(number)))?;
        }
        row(
            "all",
            each * books.partitions.len(),
            books.lost(*each),
            &books.total(),
            books.again(None),
        )
    }
}

impl Partition {
    fn lost(&self, each: usize) -> u64 {
        let came = self.writers.iter().take(each).flatten().count();
        (each - came) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Books, Came};

    fn books(came: &[(usize, usize, i64)]) -> Books {
        let mut books = Books::new(1);
        for &(number, process, time) in came {
            books.came(Came { partition: 0, number, process, time });
        }
        books
    }

    #[test]
    fn what_has_not_come_is_lost() {
        let books = books(&[(0, 1, 10), (2, 1, 30)]);
        assert_eq!((books.lost(3), books.lost(5), books.total().came), (1, 3, 2));
    }

    #[test]
    fn a_record_that_comes_again_is_of_a_kill_where_the_one_before_was_of_a_killed_process() {
        let mut books = books(&[(0, 1, 10), (1, 1, 20)]);
        books.killed(1);
        for (number, process) in [(1, 2), (2, 2), (2, 3)] {
            books.came(Came { partition: 0, number, process, time: 30 });
        }
        let total = books.total();
        assert_eq!((books.again(None), total.moves), ((1, 1), 2));
        assert_eq!(books.again(Some(0)), (1, 1));
    }

    #[test]
    fn one_that_comes_first_after_a_later_one_was_overtaken_and_one_that_comes_again_was_not() {
        let books = books(&[(0, 1, 0), (2, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0)]);
        assert_eq!(books.total().overtaken, 1);
    }

    #[test]
    fn a_pause_is_of_one_process_or_of_a_move_and_counts_from_some_time_on() {
        let mut books = books(&[]);
        books.pauses_from(3);
        for (number, process, time) in [(0, 1, 2), (1, 1, 30), (2, 1, 45), (3, 2, 105), (4, 2, 110)]
        {
            books.came(Came { partition: 0, number, process, time });
        }
        let total = books.total();
        assert_eq!((total.pause, total.pause_of_moves), (15, 60));
        assert!(books.have_come_since(109) && !books.have_come_since(110));
    }
}
