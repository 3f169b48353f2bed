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
    /// Later pulls of these streams are forgotten: their events come again as well, and their acknowledgements change
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
mod tests;
