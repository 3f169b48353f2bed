//! Up to where a stream is acknowledged: what a transactional source commits.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
    task::{Poll, Waker},
};

use crate::{Acks, Result, lock::lock};

/// Turns pulls, which end in any order, into the position of each stream up to which everything is
/// acknowledged: an offset of a partition, a place in a file.
///
/// Cheap to clone: the source has one to say what it has brought, the runtime has one to tell how that
/// ended ([`Source::acks`](crate::Source::acks)), and a task may have one to commit.
///
/// ```
/// # use tremor_pdk::{Acks, Result, Watermarks};
/// # fn main() -> Result<()> {
/// let watermarks = Watermarks::new();
/// // In `pull`, for each stream: the position after the last event that it brought.
/// watermarks.brought(1, 7, 100);
/// watermarks.brought(2, 7, 200);
/// // In `acks`, for the runtime.
/// let mut acks: Box<dyn Acks> = Box::new(watermarks.clone());
/// // What to commit then.
/// acks.ack(2)?;
/// assert_eq!(watermarks.take().acknowledged, []);
/// acks.ack(1)?;
/// assert_eq!(watermarks.take().acknowledged, [(7, 200)]);
/// # Ok(())
/// # }
/// ```
pub struct Watermarks<P> {
    shared: Arc<Mutex<Shared<P>>>,
    most_in_flight: usize,
}

/// What has become of streams since it was last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<P> {
    /// The streams of which more is acknowledged than before, each with the position up to where it is.
    pub acknowledged: Vec<(u64, P)>,
    /// The streams of which a pull has failed: they are to be read again.
    pub again: Vec<Unacknowledged<P>>,
}

/// A stream of which something has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unacknowledged<P> {
    /// The stream.
    pub stream: u64,
    /// Position from which the stream is to be read again: the end of what was brought before the pull that
    /// failed. Earlier pulls may still be in flight, so that less may be acknowledged. `None` stands for the
    /// start of the stream.
    pub from: Option<P>,
}

struct Shared<P> {
    marks: Marks<P>,
    progress: Progress<P>,
    /// Of the task that waits for progress.
    waiting: Option<Waker>,
}

impl<P: Clone> Watermarks<P> {
    /// Of no stream yet.
    pub fn new() -> Self {
        let marks = Marks { streams: HashMap::new(), pulls: HashMap::new() };
        let shared = Shared { marks, progress: Progress::default(), waiting: None };
        Self { shared: Arc::new(Mutex::new(shared)), most_in_flight: usize::MAX }
    }

    /// The same with at most so many pulls that have not ended: see [`Acks::most_in_flight`].
    #[must_use]
    pub fn at_most(self, most_in_flight: usize) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Says that this pull has brought events of this stream, up to this position. Of several positions of
    /// one pull the last counts.
    ///
    /// While a failure of the stream was not taken yet ([`Progress::again`]), the call does nothing: the source
    /// has read on behind the failure, and reads the same events again after it has learned of it.
    pub fn brought(&self, pull: u64, stream: u64, position: P) {
        let Shared { marks, progress, .. } = &mut *self.lock();
        if progress.again.iter().all(|again| again.stream != stream) {
            marks.brought(pull, stream, position);
        }
    }

    /// What has become of streams since this was last asked; of several changes of one stream, the last.
    pub fn take(&self) -> Progress<P> {
        std::mem::take(&mut self.lock().progress)
    }

    /// As [`Watermarks::take`], once there is something. One task may wait.
    pub async fn progress(&self) -> Progress<P> {
        poll_fn(|context| {
            let mut shared = self.lock();
            if shared.progress.is_empty() {
                shared.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut shared.progress))
        })
        .await
    }

    /// Up to where a stream is acknowledged.
    pub fn of(&self, stream: u64) -> Option<P> {
        self.lock().marks.streams.get(&stream)?.mark.clone()
    }

    /// Whether all that was brought of a stream is acknowledged. A stream of which a pull has failed is not
    /// settled before [`Watermarks::take`] or [`Watermarks::progress`] has told that it is to be read again.
    pub fn is_settled(&self, stream: u64) -> bool {
        let shared = self.lock();
        !shared.progress.again.iter().any(|again| again.stream == stream)
            && shared.marks.streams.get(&stream).is_none_or(|stream| stream.open.is_empty())
    }

    /// Forgets a stream, as of a partition that another process has got. Gives up to where it was
    /// acknowledged. What is heard of its pulls from now on changes nothing.
    pub fn forget(&self, stream: u64) -> Option<P> {
        let mut shared = self.lock();
        shared.progress.acknowledged.retain(|(id, _)| *id != stream);
        shared.progress.again.retain(|again| again.stream != stream);
        match shared.marks.streams.entry(stream) {
            Entry::Occupied(stream) => stream.remove().mark,
            Entry::Vacant(_) => None,
        }
    }

    /// Changes the marks, and wakes the task that waits for progress.
    fn update(&self, change: impl FnOnce(&mut Marks<P>, &mut Progress<P>)) {
        let waiting = {
            let Shared { marks, progress, waiting } = &mut *self.lock();
            change(marks, progress);
            if progress.is_empty() { None } else { waiting.take() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Shared<P>> {
        lock(&self.shared)
    }
}

impl<P: Clone + Send + 'static> Acks for Watermarks<P> {
    fn most_in_flight(&self) -> usize {
        self.most_in_flight
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.update(|marks, progress| {
            let moved = marks.ack(pull);
            progress.acknowledged.retain(|(id, _)| moved.iter().all(|(moved, _)| moved != id));
            progress.acknowledged.extend(moved);
        });
        Ok(())
    }

    fn fail(&mut self, pull: u64, _events: &[Range<usize>]) -> Result<()> {
        self.update(|marks, progress| {
            let again = marks.fail(pull);
            progress.again.retain(|old| again.iter().all(|new| new.stream != old.stream));
            progress.again.extend(again);
        });
        Ok(())
    }
}

impl<P> Progress<P> {
    /// Whether nothing has become of any stream.
    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.again.is_empty()
    }
}

impl<P> Default for Progress<P> {
    fn default() -> Self {
        Self { acknowledged: Vec::new(), again: Vec::new() }
    }
}

impl<P> Clone for Watermarks<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), most_in_flight: self.most_in_flight }
    }
}

impl<P: Clone> Default for Watermarks<P> {
    fn default() -> Self {
        Self::new()
    }
}

shows!(Watermarks<P>);

/// What was brought, and up to where it is acknowledged.
struct Marks<P> {
    streams: HashMap<u64, Stream<P>>,
    /// The streams of each pull that has not ended.
    pulls: HashMap<u64, Vec<u64>>,
}

struct Stream<P> {
    /// Up to where it is acknowledged.
    mark: Option<P>,
    /// What was brought after that, by the numbers of pulls, which grow.
    open: VecDeque<Open<P>>,
}

struct Open<P> {
    pull: u64,
    position: P,
    ended: bool,
}

impl<P: Clone> Marks<P> {
    fn brought(&mut self, pull: u64, stream: u64, position: P) {
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
    fn ack(&mut self, pull: u64) -> Vec<(u64, P)> {
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

    /// Ends a pull that has failed. Returns its streams, each with the position from which it is to be read again.
    ///
    /// What was brought of them later is forgotten: it comes again as well, and its acknowledgements change
    /// nothing. Earlier pulls stay open, so that their acknowledgements count.
    fn fail(&mut self, pull: u64) -> Vec<Unacknowledged<P>> {
        let streams = self.pulls.remove(&pull).unwrap_or_default();
        let again = |id| {
            let Stream { mark, open } = self.streams.get_mut(&id)?;
            // A pull that was forgotten with an earlier failure is not there any more.
            let at = open.binary_search_by_key(&pull, |open| open.pull).ok()?;
            open.truncate(at);
            let last = open.back().map(|open| open.position.clone());
            Some(Unacknowledged { stream: id, from: last.or_else(|| mark.clone()) })
        };
        streams.into_iter().filter_map(again).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{prop_assert, prop_assert_eq};

    use super::{Acks, Unacknowledged, Watermarks};

    /// Pulls 1 to 3 of streams 0 and 1; the position is ten times the pull.
    fn three() -> Watermarks<u64> {
        let watermarks = Watermarks::new();
        for pull in 1..=3 {
            for stream in [0, 1] {
                watermarks.brought(pull, stream, pull);
                watermarks.brought(pull, stream, pull * 10);
            }
        }
        watermarks
    }

    fn acked(watermarks: &mut Watermarks<u64>, pull: u64) -> Vec<(u64, u64)> {
        watermarks.ack(pull).unwrap();
        watermarks.take().acknowledged
    }

    fn failed(watermarks: &mut Watermarks<u64>, pull: u64) -> Vec<Unacknowledged<u64>> {
        watermarks.fail(pull, &[]).unwrap();
        watermarks.take().again
    }

    #[test]
    fn in_whatever_order_pulls_end_the_mark_is_where_all_before_it_have() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut watermarks = three();
            let mut ended = Vec::new();
            for pull in order {
                let moved = acked(&mut watermarks, pull);
                ended.push(pull);
                let whole = (1..=3).take_while(|pull| ended.contains(pull)).last();
                assert_eq!(watermarks.of(1), whole.map(|pull| pull * 10), "{order:?}");
                let mark = watermarks.of(0);
                assert!(moved.iter().all(|&(_, position)| Some(position) == mark));
                assert_eq!(moved.is_empty(), whole.is_none_or(|whole| whole < pull));
            }
            assert!(watermarks.is_settled(0) && watermarks.is_settled(1));
        }
    }

    #[test]
    fn a_stream_is_read_again_from_its_mark_and_late_acknowledgements_of_it_change_nothing() {
        let mut watermarks = three();
        acked(&mut watermarks, 1);
        let from_ten = |stream| Unacknowledged { stream, from: Some(10) };
        assert_eq!(failed(&mut watermarks, 2), [from_ten(0), from_ten(1)]);
        assert_eq!(acked(&mut watermarks, 3), []);
        watermarks.brought(4, 0, 20);
        assert_eq!(failed(&mut watermarks, 2), []);
        assert_eq!(acked(&mut watermarks, 4), [(0, 20)]);
        assert_eq!((watermarks.of(0), watermarks.of(1)), (Some(20), Some(10)));
    }

    #[test]
    fn failure_keeps_earlier_pulls_open() {
        let mut watermarks = three();
        let from = |stream, from| Unacknowledged { stream, from };
        assert_eq!(failed(&mut watermarks, 3), [from(0, Some(20)), from(1, Some(20))]);
        assert_eq!(acked(&mut watermarks, 2), []);
        assert!(!watermarks.is_settled(0), "the first pull is in flight");
        assert_eq!(acked(&mut watermarks, 1), [(0, 20), (1, 20)]);
        // An earlier pull that fails after a later one.
        let mut watermarks = three();
        watermarks.fail(3, &[]).unwrap();
        assert_eq!(failed(&mut watermarks, 2), [from(0, Some(10)), from(1, Some(10))]);
        assert_eq!(failed(&mut watermarks, 1), [from(0, None), from(1, None)]);
        assert!(watermarks.is_settled(0));
    }

    #[test]
    fn brought_before_failure_is_taken_counts_nothing() {
        let mut watermarks = three();
        watermarks.fail(2, &[]).unwrap();
        watermarks.brought(4, 0, 40);
        for pull in [1, 4] {
            watermarks.ack(pull).unwrap();
        }
        assert_eq!(watermarks.of(0), Some(10));
        assert_eq!(watermarks.take().again[0], Unacknowledged { stream: 0, from: Some(10) });
        watermarks.brought(5, 0, 20);
        assert_eq!(acked(&mut watermarks, 5), [(0, 20)]);
    }

    /// A source with one stream, whose pulls bring one event each.
    #[derive(Default)]
    struct Model {
        /// The next event to be read, and the number of the last pull.
        next: u64,
        pull: u64,
        /// Number and event of each pull that has not ended.
        open: Vec<(u64, u64)>,
        /// Open pulls whose events are read again.
        superseded: BTreeSet<u64>,
        /// Events that are acknowledged and not read again.
        acknowledged: BTreeSet<u64>,
        has_failed: bool,
    }

    impl Model {
        fn pull(&mut self, watermarks: &Watermarks<u64>) {
            self.pull += 1;
            watermarks.brought(self.pull, 7, self.next + 1);
            self.open.push((self.pull, self.next));
            if self.has_failed {
                self.superseded.insert(self.pull);
            }
            self.next += 1;
        }

        fn ack(&mut self, at: usize, watermarks: &mut Watermarks<u64>) {
            let (pull, event) = self.open.swap_remove(at);
            watermarks.ack(pull).unwrap();
            if !self.superseded.contains(&pull) {
                self.acknowledged.insert(event);
            }
        }

        fn fail(&mut self, at: usize, watermarks: &mut Watermarks<u64>) {
            let (pull, event) = self.open.swap_remove(at);
            watermarks.fail(pull, &[]).unwrap();
            if !self.superseded.contains(&pull) {
                self.superseded.extend(self.open.iter().map(|it| it.0).filter(|it| *it > pull));
                self.acknowledged.retain(|it| *it < event);
                self.has_failed = true;
            }
        }

        /// The source learns of failures, and goes back.
        fn take(&mut self, watermarks: &Watermarks<u64>) {
            for again in watermarks.take().again {
                self.next = again.from.unwrap_or(0);
            }
            self.has_failed = false;
        }

        /// Number of events from the first on that are acknowledged without a gap.
        fn prefix(&self) -> u64 {
            (0..).take_while(|event| self.acknowledged.contains(event)).count() as u64
        }
    }

    proptest::proptest! {
        #[test]
        fn position_is_the_acknowledged_prefix_in_any_order(
            steps in proptest::collection::vec((0..8_u8, 0..64_usize), 0..200),
        ) {
            let (mut watermarks, mut model, mut before) = (Watermarks::new(), Model::default(), 0);
            for (step, chosen) in steps {
                match (step, chosen.checked_rem(model.open.len())) {
                    (0..=2, _) => model.pull(&watermarks),
                    (3..=5, Some(at)) => model.ack(at, &mut watermarks),
                    (6, Some(at)) => model.fail(at, &mut watermarks),
                    _ => model.take(&watermarks),
                }
                let position = watermarks.of(7).unwrap_or(0);
                prop_assert_eq!(position, model.prefix());
                prop_assert!(position >= before, "it went back");
                before = position;
            }
            model.take(&watermarks);
            while !model.open.is_empty() {
                model.ack(0, &mut watermarks);
            }
            prop_assert_eq!(watermarks.of(7).unwrap_or(0), model.next, "all has ended");
        }
    }

    #[test]
    fn a_stream_that_failed_is_not_settled_before_that_is_told() {
        let mut watermarks = three();
        watermarks.fail(1, &[]).unwrap();
        assert!(!watermarks.is_settled(0) && !watermarks.is_settled(1));
        assert_eq!(watermarks.take().again.len(), 2);
        assert!(watermarks.is_settled(0), "it is known to be read again");
    }

    #[test]
    fn a_stream_that_is_forgotten_is_not_heard_of_again() {
        let mut watermarks = three();
        watermarks.ack(1).unwrap();
        assert_eq!(watermarks.forget(0), Some(10));
        assert_eq!(watermarks.forget(0), None);
        assert_eq!(watermarks.take().acknowledged, [(1, 10)]);
        assert_eq!(acked(&mut watermarks, 2), [(1, 20)]);
        assert_eq!(failed(&mut watermarks, 3), [Unacknowledged { stream: 1, from: Some(20) }]);
        assert_eq!(watermarks.of(0), None);
    }

    #[test]
    fn a_stream_of_which_nothing_was_acknowledged_is_read_from_its_start() {
        let mut watermarks = Watermarks::<u64>::new();
        watermarks.brought(1, 5, 3);
        assert_eq!(failed(&mut watermarks, 1), [Unacknowledged { stream: 5, from: None }]);
    }

    #[test]
    #[cfg(feature = "testing")]
    fn a_task_that_waits_for_progress_gets_the_last_of_each_stream() {
        let host = crate::testing::TestHost::new();
        let mut watermarks = three();
        for pull in [1, 2] {
            watermarks.ack(pull).unwrap();
        }
        let progress = host.block_on(watermarks.progress());
        assert_eq!(progress.acknowledged, [(0, 20), (1, 20)]);
        assert_eq!(watermarks.take(), super::Progress::default());
        let (acks, other) = (watermarks.clone(), watermarks.clone());
        let task = host.block_on(async move {
            let mut acks = acks;
            let mut progress = Box::pin(other.progress());
            let waker = std::task::Waker::noop();
            let mut context = std::task::Context::from_waker(waker);
            assert!(progress.as_mut().poll(&mut context).is_pending());
            acks.ack(3).unwrap();
            progress.await
        });
        assert_eq!(task.acknowledged, [(0, 30), (1, 30)]);
    }
}
