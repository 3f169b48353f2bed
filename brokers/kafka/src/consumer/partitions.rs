//! The partitions that are ours: what was brought of each, up to where it is acknowledged, and what of that is
//! committed.

use std::{
    collections::HashMap,
    future::Future,
    pin::pin,
    task::{Context, Poll},
};

use tremor_pdk::{Progress, Unacknowledged, Watermarks};

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
    /// How often a partition was assigned or read again: each time it is another stream to the watermarks, so
    /// that what is heard late of an earlier one changes nothing.
    epochs: u64,
    /// The stream of each partition that ever was ours: its events are of the same one in every epoch.
    streams: HashMap<Name, u64>,
}

struct Partition {
    name: Name,
    stream: u64,
    epoch: u64,
    /// The offset that was brought first in this epoch.
    first: Option<i64>,
    /// Up to where it is acknowledged.
    mark: Option<i64>,
    /// Up to where it is committed.
    committed: Option<i64>,
    /// Revoked: nothing more is brought of it.
    is_leaving: bool,
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
            self.epochs += 1;
            self.list.push(Partition {
                name: name.clone(),
                stream,
                epoch: self.epochs,
                first: None,
                mark: None,
                committed: None,
                is_leaving: false,
            });
        }
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

    /// This pull has brought records of it, from the first of these offsets to before the second.
    pub(super) fn brought(&mut self, pull: u64, Place(place): Place, from: i64, to: i64) {
        let partition = &mut self.list[place];
        partition.first.get_or_insert(from);
        self.watermarks.brought(pull, partition.epoch, to);
    }

    /// Hears what has become of pulls. Gives the places from where partitions are to be read again, which
    /// begins another epoch of each.
    pub(super) fn hear(&mut self) -> Vec<Position> {
        let progress = self.watermarks.take();
        self.apply(progress)
    }

    /// Waits until something has become of pulls, and hears of that as [`Partitions::hear`] does.
    pub(super) fn poll_hear(&mut self, context: &mut Context<'_>) -> Poll<Vec<Position>> {
        // Polled where nobody else takes progress: it is to be applied in its order.
        let progress = pin!(self.watermarks.progress()).poll(context);
        progress.map(|progress| self.apply(progress))
    }

    fn apply(&mut self, progress: Progress<i64>) -> Vec<Position> {
        let Progress { acknowledged, again } = progress;
        let mut places = Vec::new();
        // First: what is acknowledged of the same epoch may have been brought after what has failed.
        for Unacknowledged { stream: epoch, from } in again {
            self.watermarks.forget(epoch);
            let Some(partition) = self.list.iter_mut().find(|it| it.epoch == epoch) else {
                continue;
            };
            partition.mark = from.or(partition.mark);
            let from = from.or(partition.first);
            self.epochs += 1;
            partition.epoch = self.epochs;
            partition.first = None;
            if let Some(offset) = from.filter(|_| !partition.is_leaving) {
                places.push(Position { name: partition.name.clone(), offset });
            }
        }
        for (epoch, mark) in acknowledged {
            if let Some(partition) = self.list.iter_mut().find(|it| it.epoch == epoch) {
                partition.mark = Some(mark);
            }
        }
        places
    }

    /// These were revoked: nothing more is brought of them.
    pub(super) fn leave(&mut self, names: &[Name]) {
        let leaving = self.list.iter_mut().filter(|it| names.contains(&it.name));
        leaving.for_each(|it| it.is_leaving = true);
    }

    /// Whether what was brought of these has ended.
    pub(super) fn are_settled(&self, names: &[Name]) -> bool {
        let mut those = self.list.iter().filter(|it| names.contains(&it.name));
        those.all(|it| self.watermarks.is_settled(it.epoch))
    }

    /// These are ours no more: what is heard of them from here on changes nothing. Gives what is acknowledged of
    /// them and not committed.
    pub(super) fn release(&mut self, names: &[Name]) -> Vec<Position> {
        let (gone, kept) = std::mem::take(&mut self.list)
            .into_iter()
            .partition::<Vec<_>, _>(|it| names.contains(&it.name));
        self.list = kept;
        gone.iter().for_each(|it| _ = self.watermarks.forget(it.epoch));
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

/// A name, of its parts.
#[cfg(test)]
pub(super) fn name(topic: &str, number: i32) -> Name {
    (topic.into(), number)
}
