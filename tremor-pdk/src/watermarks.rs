//! Acknowledgement by position: records the position up to which each stream of a transactional source is acknowledged.

mod writer;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

pub use self::writer::PositionWriter;
use crate::{Acks, Form, InFlight, Result, TypedBatch, lock};

/// A record of the position up to which each stream is acknowledged without a gap, such as an offset in a partition or
/// a file. Pulls may end in any order. If some events of a pull have failed, the events before them count as acknowledged.
///
/// Clones share their state and are cheap. The source uses one clone to push events, the runtime uses another clone to
/// report how pulls end ([`Source::acks`](crate::Source::acks)), and a task may use a third clone to commit positions.
///
/// ```
/// # use tremor_pdk::{Acks, Begin, RawBatch, Result, Watermarks};
/// # fn main() -> Result<()> {
/// # let mut batch = RawBatch::new();
/// # batch.set_pull(1);
/// let watermarks = Watermarks::new();
/// // In `pull`, after the last `await`: pass each event with the position at which the next event begins.
/// match watermarks.begin(&mut batch) {
///     Begin::Write(mut writer) => {
///         writer.push_message(7, 100, b"first");
///         writer.push_message(7, 200, b"second");
///     }
///     // A pull has failed: read its streams again.
///     Begin::Rewind(streams) => streams.iter().for_each(|rewind| println!("{rewind:?}")),
/// }
/// // In `acks`, for the runtime.
/// let mut acks: Box<dyn Acks> = Box::new(watermarks.clone());
/// acks.ack(1)?;
/// // The source then commits position 200 of stream 7.
/// assert_eq!(watermarks.take().acknowledged, [(7, 200)]);
/// # Ok(())
/// # }
/// ```
pub struct Watermarks<P> {
    shared: Arc<Mutex<Shared<P>>>,
    most_in_flight: InFlight,
}

/// Changes since the last call of [`Watermarks::take`] or [`Watermarks::progress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<P> {
    /// Streams whose acknowledged position has increased, each with the new position.
    pub acknowledged: Vec<(u64, P)>,
    /// `true` if a pull has failed. The next [`Watermarks::begin`] returns the streams to read again, so a task that
    /// waits for progress only has to wake the pull.
    pub has_failed: bool,
}

/// Result of [`Watermarks::begin`].
#[must_use]
pub enum Begin<'b, P: Clone, F: Form> {
    /// A pull has failed. The source must first go back to [`Rewind::from`] in each of these streams, and then either
    /// return from the pull or call [`Watermarks::begin`] again. The source must not add an event before that.
    Rewind(Vec<Rewind<P>>),
    /// The source may add events with this writer.
    Write(PositionWriter<'b, P, F>),
}

/// A stream that has to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewind<P> {
    /// Number of the stream.
    pub stream: u64,
    /// Position from which the stream has to be read again; `None` for the start of the stream.
    ///
    /// This position is the end of the events that were added before the first event that may have failed. The
    /// acknowledged position may be lower, because earlier pulls may still be in flight.
    pub from: Option<P>,
}

struct Shared<P> {
    marks: Marks<P>,
    progress: Progress<P>,
    /// Streams to read again that [`Watermarks::begin`] has not returned yet.
    rewinds: Vec<Rewind<P>>,
    /// Streams to read again that [`Watermarks::begin`] has returned, until `begin` returns a writer.
    rewinding: Vec<u64>,
    /// Waker of the task that waits for progress.
    waiting: Option<Waker>,
}

impl<P: Clone> Watermarks<P> {
    /// Creates watermarks that have no streams yet.
    pub fn new() -> Self {
        let marks = Marks { streams: HashMap::new(), pulls: HashMap::new(), parts: HashMap::new() };
        let (rewinds, rewinding) = (Vec::new(), Vec::new());
        let shared =
            Shared { marks, progress: Progress::default(), rewinds, rewinding, waiting: None };
        Self { shared: Arc::new(Mutex::new(shared)), most_in_flight: InFlight::UNLIMITED }
    }

    /// Sets the limits of the events in flight: see [`Acks::most_in_flight`].
    #[must_use]
    pub fn at_most(self, most_in_flight: InFlight) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Returns a writer that adds events to the batch of a pull, or the streams that have to be read again.
    ///
    /// Call this method in each pull after its last `await`, whether or not there are events. If a pull has failed
    /// since the last call, the result is [`Begin::Rewind`].
    ///
    /// The writer cannot be kept across an `await`. A pull could fail meanwhile, and the writer would add events that
    /// follow the failed events. The following does not compile:
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
    /// The following compiles, because no `await` follows the call of `begin`:
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
        let Shared { rewinds, rewinding, progress, .. } = &mut *lock(&self.shared);
        if rewinds.is_empty() {
            rewinding.clear();
            return Begin::Write(PositionWriter::new(self, batch));
        }
        progress.has_failed = false;
        rewinding.extend(rewinds.iter().map(|rewind| rewind.stream));
        Begin::Rewind(std::mem::take(rewinds))
    }

    /// Returns the changes since the last call of this method or of [`Watermarks::progress`], without waiting. The
    /// result contains only the latest position of each stream.
    pub fn take(&self) -> Progress<P> {
        std::mem::take(&mut lock(&self.shared).progress)
    }

    /// Waits for a change, and then returns the same as [`Watermarks::take`]. Only one task may wait.
    ///
    /// A pull that awaits this future must call [`Watermarks::begin`] first, because a failure is reported only once.
    pub async fn progress(&self) -> Progress<P> {
        poll_fn(|context| {
            let mut shared = lock(&self.shared);
            if shared.progress.is_empty() {
                shared.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut shared.progress))
        })
        .await
    }

    /// Returns the position up to which a stream is acknowledged; `None` if nothing of the stream is acknowledged.
    pub fn of(&self, stream: u64) -> Option<P> {
        lock(&self.shared).marks.streams.get(&stream)?.mark.clone()
    }

    /// Returns whether all events of a stream are acknowledged.
    ///
    /// After a pull of the stream has failed, returns `false` until [`Watermarks::begin`] has returned the stream in a
    /// [`Begin::Rewind`], and a later call has returned a writer.
    pub fn is_settled(&self, stream: u64) -> bool {
        let shared = lock(&self.shared);
        !shared.rewinds.iter().any(|rewind| rewind.stream == stream)
            && !shared.rewinding.contains(&stream)
            && !shared.marks.has_in_flight(stream)
    }

    /// Returns whether a stream has pulls that were neither acknowledged nor failed.
    pub fn has_in_flight(&self, stream: u64) -> bool {
        lock(&self.shared).marks.has_in_flight(stream)
    }

    /// Removes a stream, for example a partition that was assigned to another process. Returns the position up to
    /// which the stream was acknowledged.
    ///
    /// Results of earlier pulls no longer have an effect on the stream, even if the stream is added again.
    pub fn forget(&self, stream: u64) -> Option<P> {
        let mut shared = lock(&self.shared);
        shared.progress.acknowledged.retain(|(id, _)| *id != stream);
        shared.rewinds.retain(|rewind| rewind.stream != stream);
        shared.rewinding.retain(|id| *id != stream);
        match shared.marks.streams.entry(stream) {
            Entry::Occupied(stream) => stream.remove().mark,
            Entry::Vacant(_) => None,
        }
    }

    /// Records the parts of the pull `pull`, in the order of its events. Parts of a stream that has to be read again have
    /// no effect, because the same events will be read again.
    fn record(&self, pull: u64, parts: Vec<Part<P>>) {
        let Shared { marks, rewinds, .. } = &mut *lock(&self.shared);
        for (part, next) in parts.iter().zip(parts.iter().skip(1).map(Some).chain([None])) {
            // The last position of several parts in a row includes the others.
            let is_last = next.is_none_or(|next| next.stream != part.stream);
            if is_last && rewinds.iter().all(|rewind| rewind.stream != part.stream) {
                marks.record(pull, part.stream, part.position.clone());
            }
        }
        // A pull without an event has the number of the next one, whose parts replace its own.
        marks.parts.remove(&pull);
        // Events before the first part belong to parts of an earlier writer, so it is not known which streams fail.
        if parts.len() > 1 && parts[0].begin == 0 {
            marks.parts.insert(pull, parts);
        }
    }

    /// Applies `change` to the state, and wakes the task that waits for progress if there is any.
    fn update(&self, change: impl FnOnce(&mut Shared<P>)) {
        let waiting = {
            let shared = &mut *lock(&self.shared);
            change(shared);
            if shared.progress.is_empty() { None } else { shared.waiting.take() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<P: Clone + Send + 'static> Acks for Watermarks<P> {
    fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.update(|Shared { marks, progress, .. }| {
            let moved = marks.ack(pull);
            progress.add(moved);
        });
        Ok(())
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.update(|Shared { marks, progress, rewinds, .. }| {
            let (failed, moved) = marks.fail(pull, events);
            progress.add(moved);
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

    /// Adds streams that were acknowledged further.
    fn add(&mut self, moved: Vec<(u64, P)>) {
        self.acknowledged.retain(|(id, _)| moved.iter().all(|(moved, _)| moved != id));
        self.acknowledged.extend(moved);
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

/// Positions of the pulls in flight, and the acknowledged position of each stream.
struct Marks<P> {
    streams: HashMap<u64, Stream<P>>,
    /// Streams of each pull in flight.
    pulls: HashMap<u64, Vec<u64>>,
    /// Parts of each pull in flight that has several.
    parts: HashMap<u64, Vec<Part<P>>>,
}

/// Consecutive events of a pull with the position after them.
struct Part<P> {
    /// Position in the batch of the first event. The part ends where the next part begins.
    begin: usize,
    stream: u64,
    position: P,
}

struct Stream<P> {
    /// Position up to which the stream is acknowledged.
    mark: Option<P>,
    /// Pulls after `mark`, in the order of their numbers.
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

    /// Ends an acknowledged pull. Returns the streams that were acknowledged further, each with its new position.
    fn ack(&mut self, pull: u64) -> Vec<(u64, P)> {
        self.parts.remove(&pull);
        let mut moved = Vec::new();
        for id in self.pulls.remove(&pull).unwrap_or_default() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if let Ok(at) = stream.open.binary_search_by_key(&pull, |open| open.pull) {
                stream.open[at].ended = true;
            }
            moved.extend(stream.advance().map(|mark| (id, mark)));
        }
        moved
    }

    /// Ends a pull whose events at the positions `events` have failed; an empty slice stands for all events. Returns the
    /// streams that have to be read again, each with the position to begin at, and the streams that were acknowledged
    /// further, each with its new position.
    ///
    /// The events of a stream before its first failed event count as acknowledged. Later pulls of the stream are removed:
    /// their events are read again, and their acknowledgements have no effect. Earlier pulls remain, so that their
    /// acknowledgements count. A stream without a failed event is not read again.
    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> (Vec<Rewind<P>>, Vec<(u64, P)>) {
        let parts = self.parts.remove(&pull).unwrap_or_default();
        let (mut rewinds, mut moved) = (Vec::new(), Vec::new());
        for id in self.pulls.remove(&pull).unwrap_or_default() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            // The pull is missing if an earlier failure has removed it.
            let Ok(at) = stream.open.binary_search_by_key(&pull, |open| open.pull) else {
                continue;
            };
            let (whole, is_all) = before_failure(&parts, id, events);
            if !is_all {
                stream.open.truncate(at + 1);
            }
            match (whole, is_all) {
                (_, true) => stream.open[at].ended = true,
                (Some(position), _) => stream.open[at] = Open { pull, position, ended: true },
                (None, _) => stream.open.truncate(at),
            }
            if !is_all {
                let last = stream.open.back().map(|open| open.position.clone());
                let from = last.or_else(|| stream.mark.clone());
                rewinds.push(Rewind { stream: id, from });
            }
            moved.extend(stream.advance().map(|mark| (id, mark)));
        }
        (rewinds, moved)
    }
}

impl<P: Clone> Stream<P> {
    /// Moves the acknowledged position past the pulls that have ended. Returns the new position, if there is one.
    fn advance(&mut self) -> Option<P> {
        let mut mark = None;
        while let Some(open) = self.open.pop_front_if(|open| open.ended) {
            mark = Some(open.position);
        }
        self.mark = mark.clone().or_else(|| self.mark.take());
        mark
    }
}

/// Returns the position after the last part of a stream before its first failed event, and `true` if the stream has no
/// failed event. Without parts, the whole pull has failed.
fn before_failure<P: Clone>(
    parts: &[Part<P>],
    stream: u64,
    events: &[Range<usize>],
) -> (Option<P>, bool) {
    let mut whole = None;
    if parts.is_empty() || events.is_empty() {
        return (None, false);
    }
    let ends = parts.iter().skip(1).map(|next| next.begin).chain([usize::MAX]);
    for (part, end) in parts.iter().zip(ends).filter(|(part, _)| part.stream == stream) {
        let has_failed = |failed: &Range<usize>| failed.start < end && part.begin < failed.end;
        // The ranges are in ascending order, so this is the only range that may overlap.
        let at = events.partition_point(|failed| failed.end <= part.begin);
        if end > part.begin && events.get(at).is_some_and(has_failed) {
            return (whole, false);
        }
        whole = Some(part.position.clone());
    }
    (whole, true)
}

#[cfg(test)]
mod tests;
