//! Up to where a stream is acknowledged: what a transactional source commits.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

/// Turns pulls, which end in any order, into the position of each stream up to which everything is
/// acknowledged: an offset of a partition, a place in a file.
///
/// ```
/// # use tremor_pdk::Watermarks;
/// let mut watermarks = Watermarks::new();
/// // In `pull`, for each stream: the position after the last event that it brought.
/// watermarks.brought(1, 7, 100);
/// watermarks.brought(2, 7, 200);
/// // In `ack`: where to commit now.
/// assert_eq!(watermarks.ack(2), []);
/// assert_eq!(watermarks.ack(1), [(7, 200)]);
/// ```
#[derive(Clone, Debug)]
pub struct Watermarks<P> {
    streams: HashMap<u64, Stream<P>>,
    /// The streams of each pull that has not ended.
    pulls: HashMap<u64, Vec<u64>>,
}

/// A stream of which something has not been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unacknowledged<P> {
    /// The stream.
    pub stream: u64,
    /// Up to where it is acknowledged: from there on it is to be read again. None: from its start.
    pub from: Option<P>,
}

#[derive(Clone, Debug)]
struct Stream<P> {
    /// Up to where it is acknowledged.
    mark: Option<P>,
    /// What was brought after that, by the numbers of pulls, which grow.
    open: VecDeque<Open<P>>,
}

#[derive(Clone, Debug)]
struct Open<P> {
    pull: u64,
    position: P,
    ended: bool,
}

impl<P: Clone> Watermarks<P> {
    /// Of no stream yet.
    pub fn new() -> Self {
        Self { streams: HashMap::new(), pulls: HashMap::new() }
    }

    /// Says that this pull has brought events of this stream, up to this position. Of several positions of
    /// one pull the last counts.
    pub fn brought(&mut self, pull: u64, stream: u64, position: P) {
        let Stream { open, .. } = self
            .streams
            .entry(stream)
            .or_insert_with(|| Stream { mark: None, open: VecDeque::new() });
        match open.back_mut() {
            Some(last) if last.pull == pull => last.position = position,
            _ => {
                open.push_back(Open { pull, position, ended: false });
                self.pulls.entry(pull).or_default().push(stream);
            }
        }
    }

    /// A pull was acknowledged. Gives the streams of which more is acknowledged now than before, and up to
    /// where.
    pub fn ack(&mut self, pull: u64) -> Vec<(u64, P)> {
        let mut moved = Vec::new();
        for id in self.pulls.remove(&pull).unwrap_or_default() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if let Ok(at) = stream.open.binary_search_by_key(&pull, |open| open.pull) {
                stream.open[at].ended = true;
            }
            let mut mark = None;
            while let Some(open) = stream.open.pop_front_if(|open| open.ended) {
                mark = Some(open.position);
            }
            if let Some(mark) = mark {
                stream.mark = Some(mark.clone());
                moved.push((id, mark));
            }
        }
        moved
    }

    /// A pull has failed. Gives its streams, each with the place from where it is to be read again. What
    /// else was brought of them after that place is forgotten: it comes again as well, and what is heard of
    /// it from now on changes nothing.
    pub fn fail(&mut self, pull: u64) -> Vec<Unacknowledged<P>> {
        let streams = self.pulls.remove(&pull).unwrap_or_default();
        let again = |id| {
            let stream = self.streams.get_mut(&id)?;
            let failed = stream.open.binary_search_by_key(&pull, |open| open.pull).is_ok();
            stream.open.clear();
            failed.then(|| Unacknowledged { stream: id, from: stream.mark.clone() })
        };
        streams.into_iter().filter_map(again).collect()
    }

    /// Up to where a stream is acknowledged.
    pub fn of(&self, stream: u64) -> Option<&P> {
        self.streams.get(&stream)?.mark.as_ref()
    }

    /// Whether all that was brought of a stream is acknowledged.
    pub fn is_settled(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.open.is_empty())
    }

    /// Forgets a stream, as of a partition that another process has got. Gives up to where it was
    /// acknowledged. What is heard of its pulls from now on changes nothing.
    pub fn forget(&mut self, stream: u64) -> Option<P> {
        match self.streams.entry(stream) {
            Entry::Occupied(stream) => stream.remove().mark,
            Entry::Vacant(_) => None,
        }
    }
}

impl<P: Clone> Default for Watermarks<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Unacknowledged, Watermarks};

    /// Pulls 1 to 3 of streams 0 and 1; the position is ten times the pull.
    fn three() -> Watermarks<u64> {
        let mut watermarks = Watermarks::new();
        for pull in 1..=3 {
            for stream in [0, 1] {
                watermarks.brought(pull, stream, pull);
                watermarks.brought(pull, stream, pull * 10);
            }
        }
        watermarks
    }

    #[test]
    fn in_whatever_order_pulls_end_the_mark_is_where_all_before_it_have() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut watermarks = three();
            let mut ended = Vec::new();
            for pull in order {
                let moved = watermarks.ack(pull);
                ended.push(pull);
                let whole = (1..=3).take_while(|pull| ended.contains(pull)).last();
                assert_eq!(watermarks.of(1).copied(), whole.map(|pull| pull * 10), "{order:?}");
                let mark = watermarks.of(0).copied();
                assert!(moved.iter().all(|&(_, position)| Some(position) == mark));
                assert_eq!(moved.is_empty(), whole.is_none_or(|whole| whole < pull));
            }
            assert!(watermarks.is_settled(0) && watermarks.is_settled(1));
        }
    }

    #[test]
    fn a_stream_is_read_again_from_its_mark_and_late_acknowledgements_of_it_change_nothing() {
        let mut watermarks = three();
        watermarks.ack(1);
        let from_ten = |stream| Unacknowledged { stream, from: Some(10) };
        assert_eq!(watermarks.fail(2), [from_ten(0), from_ten(1)]);
        assert_eq!(watermarks.ack(3), []);
        assert_eq!(watermarks.fail(2), []);
        watermarks.brought(4, 0, 20);
        assert_eq!(watermarks.ack(4), [(0, 20)]);
        assert_eq!((watermarks.of(0), watermarks.of(1)), (Some(&20), Some(&10)));
    }

    #[test]
    fn a_stream_that_is_forgotten_is_not_heard_of_again() {
        let mut watermarks = three();
        watermarks.ack(1);
        assert_eq!(watermarks.forget(0), Some(10));
        assert_eq!(watermarks.forget(0), None);
        assert_eq!(watermarks.ack(2), [(1, 20)]);
        assert_eq!(watermarks.fail(3), [Unacknowledged { stream: 1, from: Some(20) }]);
        assert_eq!(watermarks.of(0), None);
    }

    #[test]
    fn a_stream_of_which_nothing_was_acknowledged_is_read_from_its_start() {
        let mut watermarks = Watermarks::<u64>::new();
        watermarks.brought(1, 5, 3);
        assert_eq!(watermarks.fail(1), [Unacknowledged { stream: 5, from: None }]);
    }
}
