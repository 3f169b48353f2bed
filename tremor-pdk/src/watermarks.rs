//! Positions up to which streams are acknowledged: what a transactional source commits.

mod writer;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
    task::{Poll, Waker},
};

pub use self::writer::PositionWriter;
use crate::{Acks, Form, InFlight, Result, TypedBatch, lock::lock};

/// Turns pulls, which end in any order, into the position of each stream up to which everything is acknowledged: an
/// offset of a partition, an offset in a file.
///
/// Cheap to clone: the source has one to push events, the runtime has one to report how pulls end
/// ([`Source::acks`](crate::Source::acks)), and a task may have one to commit.
///
/// ```
/// # use tremor_pdk::{Acks, Begin, RawBatch, Result, Watermarks};
/// # fn main() -> Result<()> {
/// # let mut batch = RawBatch::new();
/// # batch.set_pull(1);
/// let watermarks = Watermarks::new();
/// // In `pull`, after the last `await`: each event with the position after it.
/// match watermarks.begin(&mut batch) {
///     Begin::Write(mut writer) => {
///         writer.push_message(7, 100, b"first");
///         writer.push_message(7, 200, b"second");
///     }
///     // A pull has failed: its streams are to be read again.
///     Begin::Rewind(streams) => streams.iter().for_each(|it| println!("{} from {:?}", it.stream, it.from)),
/// }
/// // In `acks`, for the runtime.
/// let mut acks: Box<dyn Acks> = Box::new(watermarks.clone());
/// acks.ack(1)?;
/// // What to commit then.
/// assert_eq!(watermarks.take().acknowledged, [(7, 200)]);
/// # Ok(())
/// # }
/// ```
pub struct Watermarks<P> {
    shared: Arc<Mutex<Shared<P>>>,
    most_in_flight: InFlight,
}

/// Changes since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<P> {
    /// Streams of which more is acknowledged than before, each with the position up to which it is.
    pub acknowledged: Vec<(u64, P)>,
    /// `true` if a pull has failed. The next [`Watermarks::begin`] returns the streams to read again, so that a task
    /// only has to wake the pull.
    pub has_failed: bool,
}

/// Result of [`Watermarks::begin`].
#[must_use]
pub enum Begin<'b, P: Clone, F: Form> {
    /// A pull has failed. The source has to go back in each of these streams before it pushes any event, and returns
    /// from the pull or begins again.
    Rewind(Vec<Rewind<P>>),
    /// Events can be pushed.
    Write(PositionWriter<'b, P, F>),
}

/// A stream that is to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewind<P> {
    /// The stream.
    pub stream: u64,
    /// Position from which the stream is to be read again: the end of what was pushed before the pull that failed.
    /// Earlier pulls may still be in flight, so that less may be acknowledged. `None` stands for the start of the
    /// stream.
    pub from: Option<P>,
}

struct Shared<P> {
    marks: Marks<P>,
    progress: Progress<P>,
    /// Streams to read again, until [`Watermarks::begin`] has returned them.
    rewinds: Vec<Rewind<P>>,
    /// Streams that [`Watermarks::begin`] has returned to be read again, until events can be pushed.
    rewinding: Vec<u64>,
    /// Waker of the task that waits for progress.
    waiting: Option<Waker>,
}

impl<P: Clone> Watermarks<P> {
    /// Makes watermarks without a stream.
    pub fn new() -> Self {
        let marks = Marks { streams: HashMap::new(), pulls: HashMap::new() };
        let (rewinds, rewinding) = (Vec::new(), Vec::new());
        let shared =
            Shared { marks, progress: Progress::default(), rewinds, rewinding, waiting: None };
        Self { shared: Arc::new(Mutex::new(shared)), most_in_flight: InFlight::UNLIMITED }
    }

    /// Sets the limits of what is in flight: see [`Acks::most_in_flight`].
    #[must_use]
    pub fn at_most(self, most_in_flight: InFlight) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Begins to push events to the batch of a pull. Call this in each pull after its last `await`, whether or not there
    /// are events.
    ///
    /// If a pull has failed since the last call, returns the streams that are to be read again.
    ///
    /// The writer cannot be kept across an `await`, because a pull could fail meanwhile, and events behind the failure
    /// would be pushed before those that have failed:
    ///
    /// ```compile_fail
    /// # use tremor_pdk::{Begin, RawBatch, Watermarks};
    /// # fn is_send(_: impl Send) {}
    /// # fn check(marks: &'static Watermarks<u64>, batch: &'static mut RawBatch) {
    /// is_send(async {
    ///     let Begin::Write(mut writer) = marks.begin(batch) else { return };
    ///     std::future::ready(()).await;
    ///     writer.push_message(0, 1, b"late");
    /// });
    /// # }
    /// ```
    ///
    /// Without the `await` this compiles:
    ///
    /// ```
    /// # use tremor_pdk::{Begin, RawBatch, Watermarks};
    /// # fn is_send(_: impl Send) {}
    /// # fn check(marks: &'static Watermarks<u64>, batch: &'static mut RawBatch) {
    /// is_send(async {
    ///     std::future::ready(()).await;
    ///     let Begin::Write(mut writer) = marks.begin(batch) else { return };
    ///     writer.push_message(0, 1, b"in time");
    /// });
    /// # }
    /// ```
    pub fn begin<'b, F: Form>(&'b self, batch: &'b mut TypedBatch<F>) -> Begin<'b, P, F> {
        let Shared { rewinds, rewinding, progress, .. } = &mut *self.lock();
        if rewinds.is_empty() {
            rewinding.clear();
            return Begin::Write(PositionWriter::new(self, batch));
        }
        progress.has_failed = false;
        rewinding.extend(rewinds.iter().map(|rewind| rewind.stream));
        Begin::Rewind(std::mem::take(rewinds))
    }

    /// Returns the changes since the last report; of several changes of one stream, the last.
    pub fn take(&self) -> Progress<P> {
        std::mem::take(&mut self.lock().progress)
    }

    /// Waits for a change, and returns as [`Watermarks::take`] does. One task may wait. A pull that waits calls
    /// [`Watermarks::begin`] before, because a failure that was reported is not reported again.
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

    /// Returns the position up to which a stream is acknowledged.
    pub fn of(&self, stream: u64) -> Option<P> {
        self.lock().marks.streams.get(&stream)?.mark.clone()
    }

    /// Returns whether everything that was pushed of a stream is acknowledged. A stream of which a pull has failed is
    /// not settled before [`Watermarks::begin`] has returned the stream to be read again, and then a writer.
    pub fn is_settled(&self, stream: u64) -> bool {
        let shared = self.lock();
        !shared.rewinds.iter().any(|rewind| rewind.stream == stream)
            && !shared.rewinding.contains(&stream)
            && !shared.marks.has_in_flight(stream)
    }

    /// Returns whether pulls of a stream have neither been acknowledged nor failed.
    pub fn has_in_flight(&self, stream: u64) -> bool {
        self.lock().marks.has_in_flight(stream)
    }

    /// Forgets a stream, as of a partition that another process has got. Returns the position up to which the stream was
    /// acknowledged. The ends of its pulls change nothing from now on, also if the stream begins again.
    pub fn forget(&self, stream: u64) -> Option<P> {
        let mut shared = self.lock();
        shared.progress.acknowledged.retain(|(id, _)| *id != stream);
        shared.rewinds.retain(|rewind| rewind.stream != stream);
        shared.rewinding.retain(|id| *id != stream);
        match shared.marks.streams.entry(stream) {
            Entry::Occupied(stream) => stream.remove().mark,
            Entry::Vacant(_) => None,
        }
    }

    /// Records that a pull has events of a stream, up to this position. Of several positions of one pull the last
    /// counts.
    ///
    /// If the stream is to be read again, the call does nothing, because the same events are read again.
    fn record(&self, pull: u64, stream: u64, position: P) {
        let Shared { marks, rewinds, .. } = &mut *self.lock();
        if rewinds.iter().all(|rewind| rewind.stream != stream) {
            marks.record(pull, stream, position);
        }
    }

    /// Changes the marks, and wakes the task that waits for progress.
    fn update(&self, change: impl FnOnce(&mut Shared<P>)) {
        let waiting = {
            let shared = &mut *self.lock();
            change(shared);
            if shared.progress.is_empty() { None } else { shared.waiting.take() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Shared<P>> {
        lock(&self.shared)
    }
}

impl<P: Clone + Send + 'static> Acks for Watermarks<P> {
    fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.update(|Shared { marks, progress, .. }| {
            let moved = marks.ack(pull);
            progress.acknowledged.retain(|(id, _)| moved.iter().all(|(moved, _)| moved != id));
            progress.acknowledged.extend(moved);
        });
        Ok(())
    }

    fn fail(&mut self, pull: u64, _events: &[Range<usize>]) -> Result<()> {
        self.update(|Shared { marks, progress, rewinds, .. }| {
            let failed = marks.fail(pull);
            progress.has_failed |= !failed.is_empty();
            rewinds.retain(|old| failed.iter().all(|new| new.stream != old.stream));
            rewinds.extend(failed);
        });
        Ok(())
    }
}

impl<P> Progress<P> {
    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && !self.has_failed
    }
}

impl<P> Default for Progress<P> {
    fn default() -> Self {
        Self { acknowledged: Vec::new(), has_failed: false }
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

impl<P: Clone + fmt::Debug, F: Form> fmt::Debug for Begin<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rewind(streams) => f.debug_tuple("Rewind").field(streams).finish(),
            Self::Write(_) => f.write_str("Write"),
        }
    }
}

shows!(Watermarks<P>);

/// Positions of pulls in flight, and positions up to which streams are acknowledged.
struct Marks<P> {
    streams: HashMap<u64, Stream<P>>,
    /// Streams of each pull in flight.
    pulls: HashMap<u64, Vec<u64>>,
}

struct Stream<P> {
    /// Position up to which the stream is acknowledged.
    mark: Option<P>,
    /// Later pulls, by their numbers, which grow.
    open: VecDeque<Open<P>>,
}

struct Open<P> {
    pull: u64,
    position: P,
    ended: bool,
}

impl<P: Clone> Marks<P> {
    fn has_in_flight(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| !stream.open.is_empty())
    }

    fn record(&mut self, pull: u64, stream: u64, position: P) {
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

    /// Ends a pull that was acknowledged. Returns the streams of which more is acknowledged than before, each with the
    /// position up to which it is.
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
    /// Later pulls of these streams are forgotten: their events are read again as well, and their acknowledgements change
    /// nothing. Earlier pulls stay open, so that their acknowledgements count.
    fn fail(&mut self, pull: u64) -> Vec<Rewind<P>> {
        let streams = self.pulls.remove(&pull).unwrap_or_default();
        let again = |id| {
            let Stream { mark, open } = self.streams.get_mut(&id)?;
            // A pull that was forgotten with an earlier failure is not there any more.
            let at = open.binary_search_by_key(&pull, |open| open.pull).ok()?;
            open.truncate(at);
            let last = open.back().map(|open| open.position.clone());
            Some(Rewind { stream: id, from: last.or_else(|| mark.clone()) })
        };
        streams.into_iter().filter_map(again).collect()
    }
}

#[cfg(test)]
mod tests;
