//! The events of a batch, grouped by the files that they name.

use std::{collections::HashMap, ops::Range, sync::Arc};

use tremor_pdk::{Exceptions, Memory, RawBatch, RawEvent, Result};

use super::names::Namer;

/// Group of an event that has no valid file name.
const NO_GROUP: u32 = u32::MAX;

/// The events of a batch, grouped by file. The events of a group keep their order.
#[derive(Debug)]
pub(super) struct Groups {
    list: Vec<Group>,
    /// Ranges of the batch's bytes, ordered by group.
    runs: Vec<Range<usize>>,
    /// Index of the group of each event, in the order of the batch.
    of_events: Vec<u32>,
    /// Counts the memory of the groups.
    memory: Memory,
}

#[derive(Debug)]
struct Group {
    /// Name of the file below the fixed start of the path.
    name: Arc<str>,
    events: usize,
    /// Range of the group in [`Groups::runs`].
    runs: Range<usize>,
}

impl Groups {
    /// Groups the events of a batch. Events without a valid file name are added to `exceptions`. `memory` counts the
    /// memory of the groups.
    ///
    /// # Errors
    /// Returns the error with which `check` rejects an event. It is returned before anything is written, and concerns
    /// the whole batch.
    pub(super) fn of<'b>(
        batch: &'b RawBatch,
        namer: &mut Namer,
        exceptions: &mut Exceptions,
        memory: Memory,
        check: impl Fn(RawEvent<'b>) -> Result<()>,
    ) -> Result<Self> {
        let mut groups: Vec<Group> = Vec::new();
        let mut of_events = Vec::with_capacity(batch.len());
        let mut index: HashMap<Arc<str>, u32> = HashMap::new();
        let mut last = NO_GROUP;
        for event in batch {
            check(event)?;
            // Events of one file often follow each other.
            let known = namer.render(event.into()).map(|name| {
                let is_last = groups.get(last as usize).is_some_and(|group| *group.name == *name);
                if is_last { Some(last) } else { index.get(name).copied() }
            });
            let number = match known {
                Ok(Some(number)) => Ok(number),
                Ok(None) => namer.check().map(|name| {
                    let (name, number) = (Arc::<str>::from(name), narrow(groups.len()));
                    index.insert(name.clone(), number);
                    groups.push(Group { name, events: 0, runs: 0..0 });
                    number
                }),
                Err(error) => Err(error),
            };
            last = number.unwrap_or_else(|error| {
                exceptions.reject(event, error);
                NO_GROUP
            });
            if let Some(group) = groups.get_mut(last as usize) {
                group.events += 1;
            }
            of_events.push(last);
        }
        let mut this = Self { list: groups, runs: Vec::new(), of_events, memory };
        this.collect_runs(batch);
        let names: usize = this.list.iter().map(|group| group.name.len()).sum();
        this.memory.grow(
            size_of_val(&*this.list)
                + size_of_val(&*this.runs)
                + size_of_val(&*this.of_events)
                + names,
        );
        Ok(this)
    }

    /// Orders the payloads by group. Payloads that are adjacent in memory are joined to one range.
    fn collect_runs(&mut self, batch: &RawBatch) {
        let mut begin = 0;
        for group in &mut self.list {
            group.runs = begin..begin;
            begin += group.events;
        }
        self.runs = vec![0..0; begin];
        let buffer = batch.bytes().as_ptr().addr();
        for (event, number) in batch.iter().zip(&self.of_events) {
            let (payload, group) = (event.raw(), self.list.get_mut(*number as usize));
            let Some(group) = group.filter(|_| !payload.is_empty()) else { continue };
            let start = payload.as_ptr().addr() - buffer;
            let end = start + payload.len();
            match self.runs[group.runs.clone()].last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => {
                    self.runs[group.runs.end] = start..end;
                    group.runs.end += 1;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the name of a group's file.
    pub(super) fn name(&self, group: usize) -> &Arc<str> {
        &self.list[group].name
    }

    /// Returns the ranges of a group in the batch's bytes.
    pub(super) fn runs(&self, group: usize) -> &[Range<usize>] {
        &self.runs[self.list[group].runs.clone()]
    }

    /// Returns the events of a batch with the indices of their groups. `batch` has to be the batch of
    /// [`Groups::of`]. Skips events without a valid file name.
    pub(super) fn events<'b>(
        &self,
        batch: &'b RawBatch,
    ) -> impl Iterator<Item = (RawEvent<'b>, usize)> {
        let events = batch.iter().zip(&self.of_events);
        events.filter(|(_, group)| **group != NO_GROUP).map(|(event, it)| (event, *it as usize))
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NO_GROUP)
}
