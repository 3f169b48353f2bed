//! The partitions that are assigned to this member. For each partition, the offsets up to which records were read,
//! acknowledged and committed.

use std::{
    collections::HashMap,
    future::Future,
    pin::pin,
    task::{Context, Poll},
};

use tremor_pdk::{Progress, Rewind, Watermarks};

use super::context::Name;

/// An offset of a partition, to commit or to read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) name: Name,
    pub(super) offset: i64,
}

/// The assigned partitions.
#[derive(Default)]
pub(super) struct Partitions {
    list: Vec<Partition>,
    watermarks: Watermarks<i64>,
    /// Stream number of each partition that was ever assigned during this connection.
    streams: HashMap<Name, u64>,
}

struct Partition {
    name: Name,
    stream: u64,
    /// Start offset of the assignment, if it is known.
    start: Option<i64>,
    /// First offset that was read since the assignment, or since the partition restarted.
    first: Option<i64>,
    /// Offset after the last record that was read since `first`; after a failed pull, the offset to read next.
    next: Option<i64>,
    /// Offset before which all records are acknowledged.
    acknowledged: Option<i64>,
    /// Offset that was committed last.
    committed: Option<i64>,
    /// `true` once the partition was revoked. No more of its records are delivered.
    is_leaving: bool,
    /// `true` if librdkafka has stopped reading the partition. The partition has to restart with its oldest record.
    is_stopped: bool,
}

/// Index of an assigned partition, valid until the assignment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index(usize);

impl Partitions {
    /// Returns the watermarks, which receive the acknowledgements.
    pub(super) fn watermarks(&self) -> &Watermarks<i64> {
        &self.watermarks
    }

    /// Returns the number of assigned partitions.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds newly assigned partitions.
    pub(super) fn assign(&mut self, names: &[Name]) {
        // Remove earlier assignments of the same partitions first.
        self.release(names);
        for name in names {
            let next = self.streams.len() as u64;
            let stream = *self.streams.entry(name.clone()).or_insert(next);
            self.list.push(Partition {
                name: name.clone(),
                stream,
                start: None,
                first: None,
                next: None,
                acknowledged: None,
                committed: None,
                is_leaving: false,
                is_stopped: false,
            });
        }
    }

    /// Sets the start offset of a partition.
    pub(super) fn set_start(&mut self, topic: &str, number: i32, offset: i64) {
        let is_it = |it: &&mut Partition| it.name.1 == number && &*it.name.0 == topic;
        self.list.iter_mut().filter(is_it).for_each(|it| it.start = Some(offset));
    }

    /// Returns the number of records that are not acknowledged, in all partitions. `known` returns the oldest
    /// offset of a partition and the offset after the newest record; partitions for which it returns `None` are
    /// not counted.
    pub(super) fn lag(&self, known: impl Fn(&Name) -> Option<(i64, i64)>) -> i64 {
        let of = |it: &Partition| {
            let (oldest, end) = known(&it.name)?;
            let acknowledged = it.acknowledged.or(it.start).unwrap_or(oldest);
            Some((end - acknowledged.max(oldest)).max(0))
        };
        self.list.iter().filter_map(of).sum()
    }

    /// Returns the partition, unless it is not assigned or was revoked.
    pub(super) fn find(&self, topic: &str, number: i32) -> Option<Index> {
        let is_it = |it: &Partition| it.name.1 == number && &*it.name.0 == topic && !it.is_leaving;
        self.list.iter().position(is_it).map(Index)
    }

    /// Returns the stream number of a partition.
    pub(super) fn stream(&self, Index(index): Index) -> u64 {
        self.list[index].stream
    }

    /// Returns whether the record at `offset` was read before. After a pause, librdkafka delivers some records twice.
    pub(super) fn was_read(&self, Index(index): Index, offset: i64) -> bool {
        self.list[index].next.is_some_and(|next| offset < next)
    }

    /// Marks a partition that librdkafka has stopped reading because it has no record at its offset. The partition will
    /// restart with other offsets, so the results of earlier pulls are ignored from now on.
    pub(super) fn stop(&mut self, Index(index): Index) {
        let partition = &mut self.list[index];
        self.watermarks.forget(partition.stream);
        // The stored offsets, including the committed one, refer to records that no longer exist.
        (partition.first, partition.next) = (None, None);
        (partition.acknowledged, partition.committed, partition.start) = (None, None, None);
        partition.is_stopped = true;
    }

    /// Returns the partitions that have stopped and were not revoked. Returns each partition only once after it has
    /// stopped.
    pub(super) fn take_stopped(&mut self) -> Vec<Name> {
        let stopped = self.list.iter_mut().filter(|it| it.is_stopped && !it.is_leaving);
        let names = stopped.map(|it| {
            it.is_stopped = false;
            it.name.clone()
        });
        names.collect()
    }

    /// Stores that the records from offset `from` up to, but not including, `to` were read.
    pub(super) fn set_read(&mut self, Index(index): Index, from: i64, to: i64) {
        let partition = &mut self.list[index];
        partition.first.get_or_insert(from);
        partition.next = Some(to);
    }

    /// Applies acknowledgements. Returns whether a pull has failed.
    pub(super) fn apply_acks(&mut self) -> bool {
        let progress = self.watermarks.take();
        self.apply(progress)
    }

    /// Waits for results of pulls, and applies them like [`Partitions::apply_acks`].
    pub(super) fn poll_acks(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        // Create and poll the future under the caller's lock, so that progress is applied in order.
        let progress = pin!(self.watermarks.progress()).poll(context);
        progress.map(|progress| self.apply(progress))
    }

    fn apply(&mut self, Progress { acknowledged, has_failed }: Progress<i64>) -> bool {
        for (stream, mark) in acknowledged {
            if let Some(partition) = self.list.iter_mut().find(|it| it.stream == stream) {
                partition.acknowledged = Some(mark);
            }
        }
        has_failed
    }

    /// Moves back the read offset of the partitions with failed pulls. Returns the positions from which the partitions
    /// have to be read again.
    pub(super) fn rewind(&mut self, streams: Vec<Rewind<i64>>) -> Vec<Position> {
        let mut positions = Vec::new();
        for Rewind { stream, from } in streams {
            let Some(partition) = self.list.iter_mut().find(|it| it.stream == stream) else {
                continue;
            };
            // Pulls before the failed one may still be in flight. Their results still count.
            let from = from.or(partition.first);
            partition.next = from;
            if let Some(offset) = from.filter(|_| !partition.is_leaving) {
                positions.push(Position { name: partition.name.clone(), offset });
            }
        }
        positions
    }

    /// Marks partitions as revoked. No more of their records are delivered.
    pub(super) fn mark_leaving(&mut self, names: &[Name]) {
        let leaving = self.list.iter_mut().filter(|it| names.contains(&it.name));
        leaving.for_each(|it| it.is_leaving = true);
    }

    /// Returns the partitions that were not revoked.
    pub(super) fn staying(&self) -> Vec<Name> {
        self.list.iter().filter(|it| !it.is_leaving).map(|it| it.name.clone()).collect()
    }

    /// Returns whether all pulls of these partitions have ended.
    pub(super) fn are_settled(&self, names: &[Name]) -> bool {
        let mut those = self.list.iter().filter(|it| names.contains(&it.name));
        !those.any(|it| self.watermarks.has_in_flight(it.stream))
    }

    /// Removes partitions, and returns their acknowledged positions that are not committed. Later acknowledgements of
    /// these partitions are ignored.
    pub(super) fn release(&mut self, names: &[Name]) -> Vec<Position> {
        let (gone, kept) = std::mem::take(&mut self.list)
            .into_iter()
            .partition::<Vec<_>, _>(|it| names.contains(&it.name));
        self.list = kept;
        gone.iter().for_each(|it| _ = self.watermarks.forget(it.stream));
        gone.iter().filter_map(Partition::uncommitted).collect()
    }

    /// Returns, for all partitions, the acknowledged positions that are not committed.
    pub(super) fn uncommitted(&self) -> Vec<Position> {
        self.list.iter().filter_map(Partition::uncommitted).collect()
    }

    /// Stores these positions as committed.
    pub(super) fn committed(&mut self, positions: &[Position]) {
        for Position { name, offset } in positions {
            if let Some(partition) = self.list.iter_mut().find(|it| it.name == *name) {
                partition.committed = Some(*offset);
            }
        }
    }

    /// Returns the names of all assigned partitions.
    pub(super) fn names(&self) -> Vec<Name> {
        self.list.iter().map(|it| it.name.clone()).collect()
    }
}

impl Partition {
    fn uncommitted(&self) -> Option<Position> {
        let offset = self.acknowledged.filter(|mark| self.committed != Some(*mark))?;
        Some(Position { name: self.name.clone(), offset })
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Acks, Begin, RawBatch};

    use super::*;

    fn name(number: i32) -> Name {
        ("t".into(), number)
    }

    /// Returns partitions 0 and 1. Pull 1 has read the offsets 0 to 9 of partition 0, and pull 2 the same offsets of
    /// partition 1.
    fn two() -> (Partitions, Watermarks<i64>) {
        let mut partitions = Partitions::default();
        partitions.assign(&[name(0), name(1)]);
        for number in [0, 1] {
            let index = partitions.find("t", number).unwrap();
            read(&mut partitions, u64::from(number.cast_unsigned()) + 1, index, 0, 10);
        }
        let acks = partitions.watermarks().clone();
        (partitions, acks)
    }

    /// Simulates a pull that reads the offsets from `from` up to, but not including, `to`.
    fn read(partitions: &mut Partitions, pull: u64, index: Index, from: i64, to: i64) {
        let mut batch = RawBatch::new();
        batch.set_pull(pull);
        let stream = partitions.stream(index);
        match partitions.watermarks().begin(&mut batch) {
            Begin::Write(mut writer) => writer.push_message(stream, to, b""),
            Begin::Rewind(streams) => panic!("{streams:?}"),
        }
        partitions.set_read(index, from, to);
    }

    /// Returns the positions from which partitions have to be read again.
    fn rewind(partitions: &mut Partitions) -> Vec<Position> {
        let Begin::Rewind(streams) = partitions.watermarks().begin(&mut RawBatch::new()) else {
            return Vec::new();
        };
        partitions.rewind(streams)
    }

    fn at(number: i32, offset: i64) -> Position {
        Position { name: name(number), offset }
    }

    #[test]
    fn acknowledged_offset_is_uncommitted_until_committed() {
        let (mut partitions, mut acks) = two();
        acks.ack(2).unwrap();
        assert!(!partitions.apply_acks());
        assert_eq!(partitions.uncommitted(), [at(1, 10)]);
        partitions.committed(&[at(1, 10)]);
        assert_eq!(partitions.uncommitted(), []);
    }

    #[test]
    fn leaving_partition_is_settled_once_its_pulls_ended() {
        let (mut partitions, mut acks) = two();
        partitions.mark_leaving(&[name(0)]);
        assert!(partitions.find("t", 0).is_none() && partitions.find("t", 1).is_some());
        assert_eq!(partitions.staying(), [name(1)]);
        assert!(!partitions.are_settled(&[name(0)]));
        acks.ack(1).unwrap();
        partitions.apply_acks();
        assert!(partitions.are_settled(&[name(0)]));
        assert_eq!(partitions.release(&[name(0)]), [at(0, 10)]);
    }

    #[test]
    fn leaving_partition_that_fails_is_settled_and_not_reread() {
        let (mut partitions, mut acks) = two();
        partitions.mark_leaving(&[name(0)]);
        acks.fail(1, &[]).unwrap();
        assert!(partitions.apply_acks());
        assert!(partitions.are_settled(&[name(0)]));
        assert_eq!(partitions.release(&[name(0)]), []);
    }

    #[test]
    fn ack_after_release_changes_nothing() {
        let (mut partitions, mut acks) = two();
        assert_eq!(partitions.release(&[name(0)]), []);
        acks.ack(1).unwrap();
        partitions.apply_acks();
        assert_eq!(partitions.uncommitted(), []);
        // Acknowledgements of the previous assignment also change nothing after the partition is assigned again.
        partitions.assign(&[name(0)]);
        assert_eq!(partitions.uncommitted(), []);
        let index = partitions.find("t", 0).unwrap();
        read(&mut partitions, 3, index, 50, 60);
        acks.ack(1).unwrap();
        assert_eq!((partitions.apply_acks(), partitions.uncommitted()), (false, vec![]));
        acks.ack(3).unwrap();
        partitions.apply_acks();
        assert_eq!(partitions.uncommitted(), [at(0, 60)]);
    }

    #[test]
    fn reassigned_partition_keeps_its_stream() {
        let (mut partitions, _) = two();
        let stream = |partitions: &Partitions, number| {
            partitions.stream(partitions.find("t", number).unwrap())
        };
        let before = [stream(&partitions, 0), stream(&partitions, 1)];
        assert_ne!(before[0], before[1]);
        partitions.release(&[name(0)]);
        partitions.assign(&[name(0)]);
        assert_eq!([stream(&partitions, 0), stream(&partitions, 1)], before);
    }

    #[test]
    fn failed_pull_rewinds_to_acknowledged_or_first_offset() {
        let (mut partitions, mut acks) = two();
        let index = partitions.find("t", 0).unwrap();
        read(&mut partitions, 3, index, 10, 20);
        acks.ack(1).unwrap();
        acks.fail(3, &[]).unwrap();
        acks.fail(2, &[]).unwrap();
        assert!(partitions.apply_acks());
        let mut positions = rewind(&mut partitions);
        positions.sort_by_key(|it| it.name.1);
        assert_eq!(positions, [at(0, 10), at(1, 0)]);
        assert_eq!(partitions.uncommitted(), [at(0, 10)]);
        assert!(!partitions.was_read(index, 10), "the record is read again");
    }

    #[test]
    fn restarted_partition_ignores_earlier_offsets_and_acks() {
        let (mut partitions, mut acks) = two();
        let index = partitions.find("t", 0).unwrap();
        partitions.stop(index);
        assert_eq!(partitions.take_stopped(), [name(0)]);
        assert_eq!(partitions.take_stopped(), []);
        assert!(!partitions.was_read(index, 0));
        acks.ack(1).unwrap();
        assert_eq!((partitions.apply_acks(), partitions.uncommitted()), (false, vec![]));
        read(&mut partitions, 3, index, 0, 5);
        acks.ack(3).unwrap();
        assert_eq!((partitions.apply_acks(), partitions.uncommitted()), (false, vec![at(0, 5)]));
    }

    #[test]
    fn stopped_partition_is_not_restarted_after_revocation() {
        let (mut partitions, _) = two();
        partitions.stop(partitions.find("t", 0).unwrap());
        partitions.mark_leaving(&[name(0)]);
        assert_eq!(partitions.take_stopped(), []);
        partitions.assign(&[name(0)]);
        assert_eq!(partitions.take_stopped(), []);
    }

    #[test]
    fn lag_counts_existing_unacknowledged_records() {
        let (mut partitions, mut acks) = two();
        let known = |(_, number): &Name| (*number == 0).then_some((0, 100));
        assert_eq!(partitions.lag(known), 100);
        partitions.set_start("t", 0, 40);
        assert_eq!(partitions.lag(known), 60);
        acks.ack(1).unwrap();
        partitions.apply_acks();
        assert_eq!(partitions.lag(known), 90);
        // The records before offset 30 no longer exist, so they do not count.
        assert_eq!(partitions.lag(|_| Some((30, 50))), 20 + 20);
        partitions.release(&[name(0), name(1)]);
        assert_eq!(partitions.lag(known), 0);
    }

    #[test]
    fn record_fetched_twice_is_recognized() {
        let (mut partitions, _) = two();
        let index = partitions.find("t", 0).unwrap();
        assert!(partitions.was_read(index, 9) && !partitions.was_read(index, 10));
        partitions.assign(&[name(0)]);
        let index = partitions.find("t", 0).unwrap();
        assert!(!partitions.was_read(index, 0), "nothing was read since this assignment");
    }
}
