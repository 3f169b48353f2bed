//! The partitions that are assigned to this member: what was read of each, up to which offset that is acknowledged, and
//! what of that is committed.

use std::{
    collections::HashMap,
    future::Future,
    pin::pin,
    task::{Context, Poll},
};

use tremor_pdk::{Progress, Rewind, Watermarks};

use super::context::Name;

/// A place in a partition: everything before it is acknowledged, or it is read from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) name: Name,
    pub(super) offset: i64,
}

/// They.
#[derive(Default)]
pub(super) struct Partitions {
    list: Vec<Partition>,
    watermarks: Watermarks<i64>,
    /// Stream of each partition that was ever assigned.
    streams: HashMap<Name, u64>,
}

struct Partition {
    name: Name,
    stream: u64,
    /// Where it is read from, if that is known when it is assigned.
    begin: Option<i64>,
    /// First offset that was read since the assignment, or since the offsets began anew.
    first: Option<i64>,
    /// Offset after the last one that was read since then.
    next: Option<i64>,
    /// Up to where it is acknowledged.
    mark: Option<i64>,
    /// Up to where it is committed.
    committed: Option<i64>,
    /// Revoked: nothing more is brought of it.
    is_leaving: bool,
    /// librdkafka reads it no more: it is to begin with the oldest record.
    has_stopped: bool,
}

/// A partition that is ours, until the list of them changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Partitions {
    /// What hears of acknowledgements.
    pub(super) fn watermarks(&self) -> &Watermarks<i64> {
        &self.watermarks
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// These are ours from here on.
    pub(super) fn assign(&mut self, names: &[Name]) {
        // What was known of them is of an earlier assignment.
        self.release(names);
        for name in names {
            let next = self.streams.len() as u64;
            let stream = *self.streams.entry(name.clone()).or_insert(next);
            self.list.push(Partition {
                name: name.clone(),
                stream,
                begin: None,
                first: None,
                next: None,
                mark: None,
                committed: None,
                is_leaving: false,
                has_stopped: false,
            });
        }
    }

    /// This one is read from there on.
    pub(super) fn begins(&mut self, topic: &str, number: i32, offset: i64) {
        let is_it = |it: &&mut Partition| it.name.1 == number && &*it.name.0 == topic;
        self.list.iter_mut().filter(is_it).for_each(|it| it.begin = Some(offset));
    }

    /// How many records are not acknowledged of those that are in them, by what is known of each: its oldest offset,
    /// and the one after the newest.
    pub(super) fn lag(&self, known: impl Fn(&Name) -> Option<(i64, i64)>) -> i64 {
        let of = |it: &Partition| {
            let (oldest, end) = known(&it.name)?;
            let acknowledged = it.mark.or(it.begin).unwrap_or(oldest);
            Some((end - acknowledged.max(oldest)).max(0))
        };
        self.list.iter().filter_map(of).sum()
    }

    /// The one of this name, if more is to be brought of it.
    pub(super) fn find(&self, topic: &str, number: i32) -> Option<Place> {
        let is_it = |it: &Partition| it.name.1 == number && &*it.name.0 == topic && !it.is_leaving;
        self.list.iter().position(is_it).map(Place)
    }

    /// The number of its stream.
    pub(super) fn stream(&self, Place(place): Place) -> u64 {
        self.list[place].stream
    }

    /// Whether a record of it was brought already. librdkafka fetches some twice where it goes on after a pause.
    pub(super) fn has(&self, Place(place): Place, offset: i64) -> bool {
        self.list[place].next.is_some_and(|next| offset < next)
    }

    /// Notes that the partition has no record where it was read, and that librdkafka has stopped reading it. Its records
    /// are others from here on, so that the ends of earlier pulls change nothing.
    pub(super) fn stop(&mut self, Place(place): Place) {
        let partition = &mut self.list[place];
        self.watermarks.forget(partition.stream);
        // The offsets are of what is there no more, those that are committed as well.
        (partition.first, partition.next) = (None, None);
        (partition.mark, partition.committed, partition.begin) = (None, None, None);
        partition.has_stopped = true;
    }

    /// Those that have stopped and were not revoked, once.
    pub(super) fn take_stopped(&mut self) -> Vec<Name> {
        let stopped = self.list.iter_mut().filter(|it| it.has_stopped && !it.is_leaving);
        let names = stopped.map(|it| {
            it.has_stopped = false;
            it.name.clone()
        });
        names.collect()
    }

    /// Notes that records of the partition were read, from the offset `from` to before `to`.
    pub(super) fn set_read(&mut self, Place(place): Place, from: i64, to: i64) {
        let partition = &mut self.list[place];
        partition.first.get_or_insert(from);
        partition.next = Some(to);
    }

    /// Applies acknowledgements. Returns whether a pull has failed.
    pub(super) fn hear(&mut self) -> bool {
        let progress = self.watermarks.take();
        self.apply(progress)
    }

    /// Waits until pulls have ended, and applies that as [`Partitions::hear`] does.
    pub(super) fn poll_hear(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        // Polled where nobody else takes progress: it is to be applied in its order.
        let progress = pin!(self.watermarks.progress()).poll(context);
        progress.map(|progress| self.apply(progress))
    }

    fn apply(&mut self, Progress { acknowledged, has_failed }: Progress<i64>) -> bool {
        for (stream, mark) in acknowledged {
            if let Some(partition) = self.list.iter_mut().find(|it| it.stream == stream) {
                partition.mark = Some(mark);
            }
        }
        has_failed
    }

    /// Goes back in partitions of which pulls have failed. Returns the positions from which they are to be read again.
    pub(super) fn rewind(&mut self, streams: Vec<Rewind<i64>>) -> Vec<Position> {
        let mut positions = Vec::new();
        for Rewind { stream, from } in streams {
            let Some(partition) = self.list.iter_mut().find(|it| it.stream == stream) else {
                continue;
            };
            // Earlier pulls may be in flight: they end as before.
            let from = from.or(partition.first);
            partition.next = from;
            if let Some(offset) = from.filter(|_| !partition.is_leaving) {
                positions.push(Position { name: partition.name.clone(), offset });
            }
        }
        positions
    }

    /// These were revoked: nothing more is brought of them.
    pub(super) fn leave(&mut self, names: &[Name]) {
        let leaving = self.list.iter_mut().filter(|it| names.contains(&it.name));
        leaving.for_each(|it| it.is_leaving = true);
    }

    /// The names of those that were not revoked.
    pub(super) fn staying(&self) -> Vec<Name> {
        self.list.iter().filter(|it| !it.is_leaving).map(|it| it.name.clone()).collect()
    }

    /// Returns whether all pulls of these partitions have ended.
    pub(super) fn are_settled(&self, names: &[Name]) -> bool {
        let mut those = self.list.iter().filter(|it| names.contains(&it.name));
        !those.any(|it| self.watermarks.has_in_flight(it.stream))
    }

    /// These are ours no more: what is heard of them from here on changes nothing. Gives what is acknowledged of
    /// them and not committed.
    pub(super) fn release(&mut self, names: &[Name]) -> Vec<Position> {
        let (gone, kept) = std::mem::take(&mut self.list)
            .into_iter()
            .partition::<Vec<_>, _>(|it| names.contains(&it.name));
        self.list = kept;
        gone.iter().for_each(|it| _ = self.watermarks.forget(it.stream));
        gone.iter().filter_map(Partition::uncommitted).collect()
    }

    /// What is acknowledged of all and not committed.
    pub(super) fn uncommitted(&self) -> Vec<Position> {
        self.list.iter().filter_map(Partition::uncommitted).collect()
    }

    /// These are committed.
    pub(super) fn committed(&mut self, positions: &[Position]) {
        for Position { name, offset } in positions {
            if let Some(partition) = self.list.iter_mut().find(|it| it.name == *name) {
                partition.committed = Some(*offset);
            }
        }
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<Name> {
        self.list.iter().map(|it| it.name.clone()).collect()
    }
}

impl Partition {
    fn uncommitted(&self) -> Option<Position> {
        let offset = self.mark.filter(|mark| self.committed != Some(*mark))?;
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

    /// Partitions 0 and 1, of which pulls 1 and 2 have brought the offsets 0 to 9.
    fn two() -> (Partitions, Watermarks<i64>) {
        let mut partitions = Partitions::default();
        partitions.assign(&[name(0), name(1)]);
        for number in [0, 1] {
            let place = partitions.find("t", number).unwrap();
            read(&mut partitions, u64::from(number.cast_unsigned()) + 1, place, 0, 10);
        }
        let acks = partitions.watermarks().clone();
        (partitions, acks)
    }

    /// A pull that reads records of a partition, from the offset `from` to before `to`.
    fn read(partitions: &mut Partitions, pull: u64, place: Place, from: i64, to: i64) {
        let mut batch = RawBatch::new();
        batch.set_pull(pull);
        let stream = partitions.stream(place);
        match partitions.watermarks().begin(&mut batch) {
            Begin::Write(mut writer) => writer.push_message(stream, to, b""),
            Begin::Rewind(streams) => panic!("{streams:?}"),
        }
        partitions.set_read(place, from, to);
    }

    /// Returns the positions from which partitions are to be read again.
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
    fn what_is_acknowledged_is_uncommitted_until_it_is_committed() {
        let (mut partitions, mut acks) = two();
        acks.ack(2).unwrap();
        assert!(!partitions.hear());
        assert_eq!(partitions.uncommitted(), [at(1, 10)]);
        partitions.committed(&[at(1, 10)]);
        assert_eq!(partitions.uncommitted(), []);
    }

    #[test]
    fn a_partition_that_has_left_brings_nothing_and_is_settled_once_its_pulls_have_ended() {
        let (mut partitions, mut acks) = two();
        partitions.leave(&[name(0)]);
        assert!(partitions.find("t", 0).is_none() && partitions.find("t", 1).is_some());
        assert_eq!(partitions.staying(), [name(1)]);
        assert!(!partitions.are_settled(&[name(0)]));
        acks.ack(1).unwrap();
        partitions.hear();
        assert!(partitions.are_settled(&[name(0)]));
        assert_eq!(partitions.release(&[name(0)]), [at(0, 10)]);
    }

    #[test]
    fn one_that_fails_while_it_leaves_is_settled_and_not_read_again() {
        let (mut partitions, mut acks) = two();
        partitions.leave(&[name(0)]);
        acks.fail(1, &[]).unwrap();
        assert!(partitions.hear());
        assert!(partitions.are_settled(&[name(0)]));
        assert_eq!(partitions.release(&[name(0)]), []);
    }

    #[test]
    fn what_is_heard_of_a_partition_after_its_release_changes_nothing() {
        let (mut partitions, mut acks) = two();
        assert_eq!(partitions.release(&[name(0)]), []);
        acks.ack(1).unwrap();
        partitions.hear();
        assert_eq!(partitions.uncommitted(), []);
        // The same when it is ours again.
        partitions.assign(&[name(0)]);
        assert_eq!(partitions.uncommitted(), []);
        let place = partitions.find("t", 0).unwrap();
        read(&mut partitions, 3, place, 50, 60);
        acks.ack(1).unwrap();
        assert_eq!((partitions.hear(), partitions.uncommitted()), (false, vec![]));
        acks.ack(3).unwrap();
        partitions.hear();
        assert_eq!(partitions.uncommitted(), [at(0, 60)]);
    }

    #[test]
    fn a_partition_that_is_assigned_again_goes_on_as_the_same_stream() {
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
    fn what_has_failed_is_read_again_from_what_was_acknowledged_or_from_its_first_record() {
        let (mut partitions, mut acks) = two();
        let place = partitions.find("t", 0).unwrap();
        read(&mut partitions, 3, place, 10, 20);
        acks.ack(1).unwrap();
        acks.fail(3, &[]).unwrap();
        acks.fail(2, &[]).unwrap();
        assert!(partitions.hear());
        let mut places = rewind(&mut partitions);
        places.sort_by_key(|it| it.name.1);
        assert_eq!(places, [at(0, 10), at(1, 0)]);
        assert_eq!(partitions.uncommitted(), [at(0, 10)]);
        assert!(!partitions.has(place, 10), "the record is read again");
    }

    #[test]
    fn a_partition_whose_offsets_begin_anew_brings_all_and_commits_nothing_of_before() {
        let (mut partitions, mut acks) = two();
        let place = partitions.find("t", 0).unwrap();
        partitions.stop(place);
        assert_eq!(partitions.take_stopped(), [name(0)]);
        assert_eq!(partitions.take_stopped(), []);
        assert!(!partitions.has(place, 0));
        acks.ack(1).unwrap();
        assert_eq!((partitions.hear(), partitions.uncommitted()), (false, vec![]));
        read(&mut partitions, 3, place, 0, 5);
        acks.ack(3).unwrap();
        assert_eq!((partitions.hear(), partitions.uncommitted()), (false, vec![at(0, 5)]));
    }

    #[test]
    fn a_partition_that_has_stopped_and_was_revoked_is_not_begun_again() {
        let (mut partitions, _) = two();
        partitions.stop(partitions.find("t", 0).unwrap());
        partitions.leave(&[name(0)]);
        assert_eq!(partitions.take_stopped(), []);
        partitions.assign(&[name(0)]);
        assert_eq!(partitions.take_stopped(), []);
    }

    #[test]
    fn the_lag_is_what_is_not_acknowledged_of_what_is_there() {
        let (mut partitions, mut acks) = two();
        let known = |(_, number): &Name| (*number == 0).then_some((0, 100));
        assert_eq!(partitions.lag(known), 100);
        partitions.begins("t", 0, 40);
        assert_eq!(partitions.lag(known), 60);
        acks.ack(1).unwrap();
        partitions.hear();
        assert_eq!(partitions.lag(known), 90);
        // What was not read has expired.
        assert_eq!(partitions.lag(|_| Some((30, 50))), 20 + 20);
        partitions.release(&[name(0), name(1)]);
        assert_eq!(partitions.lag(known), 0);
    }

    #[test]
    fn a_record_that_is_fetched_twice_is_known() {
        let (mut partitions, _) = two();
        let place = partitions.find("t", 0).unwrap();
        assert!(partitions.has(place, 9) && !partitions.has(place, 10));
        partitions.assign(&[name(0)]);
        let place = partitions.find("t", 0).unwrap();
        assert!(!partitions.has(place, 0), "nothing was brought of this assignment");
    }
}
