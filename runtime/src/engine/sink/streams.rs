//! The assignment of streams to the lanes of a sink. Deliveries within a lane are made one after the other; different
//! lanes are independent.

use hashbrown::HashMap;
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, StreamKey};

/// The lane of each stream that has events waiting or in flight. A stream without such events may be assigned to a new
/// lane.
#[derive(Default)]
pub(super) struct Streams {
    homes: HashMap<StreamKey, Home>,
    /// Number of entries above which entries that are not used are removed.
    most: usize,
}

struct Home {
    lane: usize,
    /// Sequence number of the last batch with events of the stream.
    last: u64,
}

/// The load of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Sequence number of the first delivery that is waiting or in flight.
    pub(super) first: Option<u64>,
    /// Number of events that are waiting or in flight.
    pub(super) events: usize,
    /// `true` if a delivery is in flight.
    pub(super) is_busy: bool,
}

impl Load {
    /// Adds `events` events of the batch `sequence`.
    pub(super) fn add(&mut self, sequence: u64, events: usize) {
        self.first = Some(self.first.map_or(sequence, |first| first.min(sequence)));
        self.events += events;
    }
}

impl Streams {
    /// Assigns each event of a batch to a lane. Returns the lanes, each with the positions of its events in ascending
    /// order.
    pub(super) fn assign(
        &mut self,
        batch: &Batch,
        sequence: u64,
        loads: &mut [Load],
    ) -> Vec<(usize, Vec<usize>)> {
        let mut assigned: Vec<(usize, Vec<usize>)> = Vec::new();
        // Consecutive events mostly belong to the same stream, so the last result is reused.
        let mut last: Option<(StreamKey, usize)> = None;
        for (position, event) in batch.events().iter().enumerate() {
            let stream = event.stream_key();
            let at = match last {
                Some((other, at)) if other == stream => at,
                _ => {
                    let lane = self.lane(stream, sequence, loads);
                    assigned.iter().position(|(other, _)| *other == lane).unwrap_or_else(|| {
                        assigned.push((lane, Vec::new()));
                        assigned.len() - 1
                    })
                }
            };
            last = Some((stream, at));
            let (lane, positions) = &mut assigned[at];
            loads[*lane].add(sequence, 1);
            positions.push(position);
        }
        if self.homes.len() > self.most {
            self.homes.retain(|_, home| home.is_used(loads));
            self.most = (2 * self.homes.len()).max(1_024);
        }
        assigned
    }

    /// Returns the current lane of the stream. If there is none, assigns the stream to the lane with the fewest events.
    fn lane(&mut self, stream: StreamKey, sequence: u64, loads: &[Load]) -> usize {
        let least = || (0..loads.len()).min_by_key(|lane| loads[*lane].events).unwrap_or_default();
        let home =
            self.homes.entry(stream).or_insert_with(|| Home { lane: least(), last: sequence });
        if !home.is_used(loads) {
            home.lane = least();
        }
        home.last = sequence;
        home.lane
    }
}

impl Home {
    /// Returns whether the lane may still contain events of the stream.
    fn is_used(&self, loads: &[Load]) -> bool {
        loads[self.lane].first.is_some_and(|first| first <= self.last)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::Batch;

    use super::{Load, Streams};

    fn lanes(
        streams: &mut Streams,
        batch: &[u64],
        sequence: u64,
        loads: &mut [Load],
    ) -> Vec<usize> {
        let mut events = Batch::new();
        batch.iter().for_each(|stream| events.stream(*stream).push_message(b""));
        let mut lanes = vec![usize::MAX; batch.len()];
        for (lane, positions) in streams.assign(&events, sequence, loads) {
            assert!(positions.is_sorted());
            positions.into_iter().for_each(|position| lanes[position] = lane);
        }
        lanes
    }

    #[test]
    fn stream_with_batches_keeps_its_lane_and_loads_are_balanced() {
        let mut streams = Streams::default();
        let mut loads = [Load::default(); 3];
        assert_eq!(lanes(&mut streams, &[7, 7, 8, 9, 8, 7], 0, &mut loads), [0, 0, 1, 2, 1, 0]);
        assert_eq!(lanes(&mut streams, &[5, 8], 1, &mut loads), [2, 1]);
        // The first lane has become empty, and the last lane still contains its second batch.
        loads[0] = Load::default();
        loads[2] = Load { first: Some(1), events: 1, is_busy: true };
        assert_eq!(lanes(&mut streams, &[5, 9, 9, 7], 2, &mut loads), [2, 0, 0, 0]);
    }

    #[test]
    fn streams_without_events_are_removed() {
        let mut streams = Streams::default();
        for batch in 0..100 {
            let some: Vec<u64> = (100 * batch..100 * (batch + 1)).collect();
            lanes(&mut streams, &some, batch, &mut [Load::default(); 4]);
            assert!(streams.homes.len() <= 1_124);
        }
    }
}
