//! What a sink has taken from its queue and not delivered: in which order it is, and when it is delivered
//! again.

use std::{collections::VecDeque, time::Instant};

use crate::engine::{
    account::token::InFlight,
    life::backoff::Attempts,
    queue::{Payload, Queued},
};

/// A batch that a sink is to deliver.
pub(crate) struct Pending {
    /// Its place in the order in which batches came.
    place: u64,
    pub(crate) item: InFlight,
    pub(crate) payload: Payload,
    /// The streams of its events, by source. Empty where their order is of no account, or is kept anyway.
    streams: Vec<Stream>,
    /// Deliveries of it that have failed, in a row.
    pub(crate) attempts: Option<Box<Attempts>>,
    /// Before then it is not delivered again.
    pub(crate) due: Option<Instant>,
}

/// A source, and a stream of it.
type Stream = (u32, u64);

/// The batches of a sink, in the order in which they came.
#[derive(Default)]
pub(crate) struct Backlog {
    batches: VecDeque<Pending>,
    places: u64,
}

impl Pending {
    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        let rejected = match &self.payload {
            Payload::Encoded { rejected, .. } => rejected.len(),
            Payload::Values => 0,
        };
        self.item.batch.len() + rejected
    }
}

impl Backlog {
    /// Another batch came. Of two that have a stream in common the second waits for the first, where
    /// `by_stream` says so.
    pub(crate) fn push(&mut self, Queued { item, payload }: Queued, by_stream: bool) {
        let streams = if by_stream { streams(&item) } else { Vec::new() };
        let pending = self.pending(item);
        self.batches.push_back(Pending { payload, streams, ..pending });
    }

    /// Another batch came, and is delivered at once.
    pub(crate) fn pending(&mut self, item: InFlight) -> Pending {
        let (place, payload, streams) = (self.places, Payload::Values, Vec::new());
        self.places += 1;
        Pending { place, item, payload, streams, attempts: None, due: None }
    }

    /// A batch was not delivered: it is again where it was.
    pub(crate) fn put_back(&mut self, batch: Pending) {
        let at = self.batches.partition_point(|other| other.place < batch.place);
        self.batches.insert(at, batch);
    }

    /// The first batch that may be delivered now, beside those that are `under_way`.
    pub(crate) fn take_next<'p>(
        &mut self,
        under_way: impl Iterator<Item = &'p Pending>,
    ) -> Option<Pending> {
        let first = self.batches.front()?;
        if first.streams.is_empty() {
            let at = self.batches.iter().position(Pending::is_due)?;
            return self.batches.remove(at);
        }
        let mut taken: Vec<Stream> = under_way.flat_map(|other| &other.streams).copied().collect();
        let at = self.batches.iter().position(|batch| {
            let is_free = batch.streams.iter().all(|stream| !taken.contains(stream));
            let is_next = is_free && batch.is_due();
            taken.extend(&batch.streams);
            is_next
        })?;
        self.batches.remove(at)
    }

    /// When the next batch that waits for its time is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.batches.iter().filter(|batch| !batch.is_due()).filter_map(|batch| batch.due).min()
    }

    /// Batches that came when there was one slot keep the order of their streams in several.
    pub(crate) fn keep_streams(&mut self) {
        for batch in self.batches.iter_mut().filter(|batch| batch.streams.is_empty()) {
            batch.streams = streams(&batch.item);
        }
    }

    /// There is another connection, on which everything may be tried at once.
    pub(crate) fn try_now(&mut self) {
        self.batches.iter_mut().for_each(|batch| batch.due = None);
    }

    /// How many batches there are.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> usize {
        self.batches.iter().map(Pending::events).sum()
    }
}

impl Pending {
    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| due <= Instant::now())
    }
}

/// The streams of a batch, each once.
fn streams(item: &InFlight) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    for event in tremor_pdk::abi::batch::HostBatch::events(&item.batch) {
        let stream = (event.source, event.stream);
        // Events of one stream mostly follow each other.
        if streams.last() != Some(&stream) && !streams.contains(&stream) {
            streams.push(stream);
        }
    }
    streams
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tremor_pdk::Batch;

    use super::{Backlog, Pending};
    use crate::engine::account::token::{InFlight, Token};

    fn backlog(batches: &[&[u64]]) -> Backlog {
        let mut backlog = Backlog::default();
        for streams in batches {
            let mut batch = Batch::new();
            streams.iter().for_each(|stream| batch.stream(*stream).push_message(b""));
            backlog.push(InFlight::new(batch, Token::untracked()).into(), true);
        }
        backlog
    }

    /// The places of the batches that may be under way at the same time.
    fn taken(backlog: &mut Backlog, under_way: &mut Vec<Pending>) -> Vec<u64> {
        let mut places = Vec::new();
        while let Some(batch) = backlog.take_next(under_way.iter()) {
            places.push(batch.place);
            under_way.push(batch);
        }
        places
    }

    #[test]
    fn batches_of_other_streams_overtake_and_those_of_one_stream_never_do() {
        let mut backlog = backlog(&[&[1], &[1, 2], &[2], &[3], &[3, 1], &[4]]);
        let mut under_way = Vec::new();
        assert_eq!(taken(&mut backlog, &mut under_way), [0, 3, 5]);
        // The second is answered, and then the first.
        under_way.remove(1);
        assert!(taken(&mut backlog, &mut under_way).is_empty());
        under_way.remove(0);
        assert_eq!(taken(&mut backlog, &mut under_way), [1]);
        under_way.clear();
        assert_eq!(taken(&mut backlog, &mut under_way), [2, 4]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn what_is_tried_again_later_holds_up_its_own_streams_only() {
        let mut backlog = backlog(&[&[1], &[2], &[1]]);
        let mut first = backlog.take_next([].into_iter()).unwrap();
        first.due = Some(Instant::now() + Duration::from_hours(1));
        backlog.put_back(first);
        let mut under_way = Vec::new();
        assert_eq!(taken(&mut backlog, &mut under_way), [1]);
        backlog.try_now();
        assert_eq!(taken(&mut backlog, &mut under_way), [0]);
    }
}
