//! Which streams share a lane of a sink: in a lane one delivery is made after the other, and lanes go side
//! by side.

use hashbrown::HashMap;
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, StreamKey};

/// The lane of each stream of which something waits or is under way. What has nothing there may take
/// another one.
#[derive(Default)]
pub(super) struct Streams {
    homes: HashMap<StreamKey, Home>,
    /// Where there are more, those that have nothing are forgotten.
    most: usize,
}

struct Home {
    lane: usize,
    /// The place of the last batch with something of it.
    last: u64,
}

/// How much there is to do in a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// The place of the first delivery that waits or is under way.
    pub(super) first: Option<u64>,
    pub(super) events: usize,
    /// A delivery is under way.
    pub(super) is_busy: bool,
}

impl Load {
    /// There is another delivery.
    pub(super) fn add(&mut self, place: u64, events: usize) {
        self.first = Some(self.first.map_or(place, |first| first.min(place)));
        self.events += events;
    }
}

impl Streams {
    /// Finds a lane for each event of a batch; the positions of those of one lane, in order.
    pub(super) fn assign(
        &mut self,
        batch: &Batch,
        place: u64,
        loads: &mut [Load],
    ) -> Vec<(usize, Vec<usize>)> {
        let mut assigned: Vec<(usize, Vec<usize>)> = Vec::new();
        // Events of one stream mostly follow each other.
        let mut last: Option<(StreamKey, usize)> = None;
        for (position, event) in batch.events().iter().enumerate() {
            let stream = event.stream_key();
            let at = match last {
                Some((other, at)) if other == stream => at,
                _ => {
                    let lane = self.lane(stream, place, loads);
                    assigned.iter().position(|(other, _)| *other == lane).unwrap_or_else(|| {
                        assigned.push((lane, Vec::new()));
                        assigned.len() - 1
                    })
                }
            };
            last = Some((stream, at));
            let (lane, positions) = &mut assigned[at];
            loads[*lane].add(place, 1);
            positions.push(position);
        }
        if self.homes.len() > self.most {
            self.homes.retain(|_, home| home.is_used(loads));
            self.most = (2 * self.homes.len()).max(1_024);
        }
        assigned
    }

    /// That which it has, or the one with the least to do.
    fn lane(&mut self, stream: StreamKey, place: u64, loads: &[Load]) -> usize {
        let least = || (0..loads.len()).min_by_key(|lane| loads[*lane].events).unwrap_or_default();
        let home = self.homes.entry(stream).or_insert_with(|| Home { lane: least(), last: place });
        if !home.is_used(loads) {
            home.lane = least();
        }
        home.last = place;
        home.lane
    }
}

impl Home {
    /// Whether something of the stream may still be in the lane.
    fn is_used(&self, loads: &[Load]) -> bool {
        loads[self.lane].first.is_some_and(|first| first <= self.last)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::Batch;

    use super::{Load, Streams};

    fn lanes(streams: &mut Streams, batch: &[u64], place: u64, loads: &mut [Load]) -> Vec<usize> {
        let mut events = Batch::new();
        batch.iter().for_each(|stream| events.stream(*stream).push_message(b""));
        let mut lanes = vec![usize::MAX; batch.len()];
        for (lane, positions) in streams.assign(&events, place, loads) {
            assert!(positions.is_sorted());
            positions.into_iter().for_each(|position| lanes[position] = lane);
        }
        lanes
    }

    #[test]
    fn a_stream_keeps_its_lane_while_there_is_something_of_it_and_lanes_have_equally_much() {
        let mut streams = Streams::default();
        let mut loads = [Load::default(); 3];
        assert_eq!(lanes(&mut streams, &[7, 7, 8, 9, 8, 7], 0, &mut loads), [0, 0, 1, 2, 1, 0]);
        assert_eq!(lanes(&mut streams, &[5, 8], 1, &mut loads), [2, 1]);
        // The first lane has become empty, and the last has its second batch left.
        loads[0] = Load::default();
        loads[2] = Load { first: Some(1), events: 1, is_busy: true };
        assert_eq!(lanes(&mut streams, &[5, 9, 9, 7], 2, &mut loads), [2, 0, 0, 0]);
    }

    #[test]
    fn streams_of_which_there_is_nothing_left_are_forgotten() {
        let mut streams = Streams::default();
        for place in 0..100 {
            let some: Vec<u64> = (100 * place..100 * (place + 1)).collect();
            lanes(&mut streams, &some, place, &mut [Load::default(); 4]);
            assert!(streams.homes.len() <= 1_124);
        }
    }
}
