//! The operator `batch`: puts events together in batches of a certain size.

use std::num::NonZeroU32;

use tremor_pdk::{
    Batch, Component, Context, Error, Event, Holds, Operator, Output, Result,
    abi::batch::{HostBatch, Pool},
};

use super::period::Period;

/// Puts the events of several batches together, and takes large ones apart, so that a sink gets
/// them in the size that suits it. A batch is complete as soon as one of the limits is reached.
#[tremor_pdk::config]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "as the bounds of queues are called in flow files")]
pub(crate) struct Config {
    /// How many events a batch has at most.
    max_events: NonZeroU32,
    /// How many bytes the events of a batch have at most, unless a single one has more: what they
    /// were decoded from, of which each may take up to four of memory. At most 1 GiB.
    max_bytes: NonZeroU32,
    /// How long after its first event a batch goes out, whatever is in it.
    max_wait: Period,
}

impl Default for Config {
    fn default() -> Self {
        let count = |count| NonZeroU32::new(count).expect("not zero");
        Self { max_events: count(1_000), max_bytes: count(1 << 20), max_wait: Period::SECOND }
    }
}

/// Offsets into a batch have 32 bits, and nodes take more room than the bytes they come from.
const MOST_BYTES: u32 = 1 << 30;

/// How many times more than the bytes that they were decoded from the events of a batch may weigh.
const TIMES: usize = 4;

/// How many buffers of batches that have been delivered wait to be used again.
const POOLED: usize = 4;

pub(crate) struct Batching {
    config: Config,
    pool: Pool,
    /// The events of the batch that is being put together: what is left of each batch that came.
    parts: Vec<Batch>,
    /// The batches that they came with.
    holds: Holds,
    events: usize,
    bytes: usize,
    /// What the parts take of memory, in bytes, with whatever else lies in their buffers.
    weight: usize,
    /// When the first of them came in, in ns since the Unix epoch.
    since: u64,
}

impl Component for Batching {
    const NAME: &str = "batch";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
        let max_bytes = config.max_bytes;
        if max_bytes.get() > MOST_BYTES {
            return Err(Error::configuration(format_args!(
                "`max_bytes`: expected at most {MOST_BYTES}, found {max_bytes}"
            )));
        }
        Ok(Self::of(config))
    }
}

impl Operator for Batching {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let incoming = std::mem::take(batch);
        let mut first = 0;
        for (position, event) in incoming.events().iter().enumerate() {
            let size = incoming.size_of(event);
            if self.events > 0 && !self.has_room(event, size) {
                self.add(&incoming, first..position);
                self.send(output);
                first = position;
            }
            if self.events == 0 {
                self.since = event.ingest_ns;
            }
            self.events += 1;
            self.bytes += size;
            if self.is_full() {
                self.add(&incoming, first..position + 1);
                self.send(output);
                first = position + 1;
            }
        }
        if first == 0 && !incoming.is_empty() {
            self.keep(incoming);
        } else {
            self.add(&incoming, first..incoming.len());
            drop(incoming);
        }
        if self.weight > 2 * self.most_weight() {
            self.gather();
            if self.weight > self.most_weight() {
                self.send(output);
            }
        }
        if self.events > 0 {
            output.hold(&mut self.holds);
        }
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        (self.events > 0).then(|| self.since.saturating_add(self.config.max_wait.ns()))
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            *batch = self.complete(output);
        }
        Ok(())
    }

    fn on_drain(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        *batch = self.complete(output);
        Ok(())
    }

    fn held(&self) -> usize {
        self.events
    }
}

impl Batching {
    fn of(config: Config) -> Self {
        Self {
            config,
            pool: Pool::new(POOLED),
            parts: Vec::new(),
            holds: Holds::default(),
            events: 0,
            bytes: 0,
            weight: 0,
            since: 0,
        }
    }

    fn has_room(&self, event: &Event, size: usize) -> bool {
        let waited = event.ingest_ns.saturating_sub(self.since);
        self.bytes + size <= self.config.max_bytes.get() as usize
            && waited < self.config.max_wait.ns()
    }

    fn is_full(&self) -> bool {
        self.events >= self.config.max_events.get() as usize
            || self.bytes >= self.config.max_bytes.get() as usize
    }

    fn add(&mut self, incoming: &Batch, events: std::ops::Range<usize>) {
        if !events.is_empty() {
            self.keep(incoming.part(events));
        }
    }

    fn keep(&mut self, part: Batch) {
        self.weight += part.weight();
        self.parts.push(part);
    }

    /// How much the events of a batch may weigh, however few bytes they were decoded from.
    fn most_weight(&self) -> usize {
        let times = self.config.max_bytes.get() as usize * TIMES;
        times.min(MOST_BYTES as usize).max(Batch::WEIGHT_AT_MOST)
    }

    /// Copies the events together, so that nothing but them is held.
    fn gather(&mut self) {
        let mut batch = Batch::from_pool(&self.pool);
        self.parts.drain(..).for_each(|part| batch.append(part));
        self.weight = batch.weight();
        self.parts.push(batch);
    }

    fn send(&mut self, output: &mut Output) {
        let batch = self.complete(output);
        output.send(Output::OUT, batch);
    }

    /// The batch as it is, and the next one is empty. What came in one piece is not copied.
    fn complete(&mut self, output: &mut Output) -> Batch {
        output.release(&mut self.holds);
        if self.parts.len() > 1 {
            self.gather();
        }
        (self.events, self.bytes, self.weight) = (0, 0, 0);
        self.parts.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};
    use tremor_pdk::abi::batch::HostBatch;
    use tremor_pdk::{Batch, Operator, Output};

    use super::{Batching, Config};
    use crate::operator::testing::{refused, timed};

    const MS: u64 = 1_000_000;

    fn batching(config: Json) -> Batching {
        Batching::of(serde_json::from_value::<Config>(config).unwrap())
    }

    fn numbers(batch: &Batch) -> Vec<u64> {
        batch.validate().unwrap();
        let number = |event| batch.value(event).unwrap().as_u64().unwrap();
        batch.events().iter().map(number).collect()
    }

    /// The batches that go out, in order.
    fn process(batching: &mut Batching, events: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let (mut batch, mut output) = (timed(events), Output::new());
        batching.process(&mut batch, &mut output).unwrap();
        assert!(batch.is_empty() && output.take_discarded() == 0);
        output
            .take_ports()
            .map(|out| {
                assert_eq!(out.port, Output::OUT);
                numbers(&out.batch)
            })
            .collect()
    }

    fn rest(batching: &mut Batching) -> Vec<u64> {
        let mut batch = Batch::new();
        batching.on_drain(&mut batch, &mut Output::new()).unwrap();
        assert_eq!((batching.held(), batching.due()), (0, None));
        numbers(&batch)
    }

    fn at_once(numbers: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        numbers.map(|number| (0, number)).collect()
    }

    #[test]
    fn small_batches_are_put_together_and_large_ones_taken_apart() {
        let mut batching = batching(json!({ "max_events": 3 }));
        assert!(process(&mut batching, &at_once(0..1)).is_empty());
        assert!(process(&mut batching, &at_once(1..2)).is_empty());
        assert_eq!(batching.held(), 2);
        let out = process(&mut batching, &at_once(2..10));
        assert_eq!(out, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
        assert_eq!(batching.held(), 1, "the last only");
        assert_eq!(rest(&mut batching), [9]);
    }

    #[test]
    fn a_batch_does_not_exceed_its_bytes_unless_one_event_does() {
        let mut batching = batching(json!({ "max_bytes": 10 }));
        let mut batch = Batch::new();
        let messages: [&[u8]; 6] = [b"1234", b"5678", b"123", b"456789", &[b'x'; 99], b"1"];
        messages.iter().for_each(|message| batch.push_message(message));
        let mut output = Output::new();
        batching.process(&mut batch, &mut output).unwrap();
        let out: Vec<usize> = output.take_ports().map(|out| out.batch.len()).collect();
        assert_eq!(out, [2, 2, 1], "8, 9 and 99 bytes");
        assert_eq!(batching.held(), 1);
    }

    #[test]
    fn a_batch_goes_out_when_its_time_has_come_with_or_without_an_event() {
        let mut batching = batching(json!({ "max_wait": "10ms" }));
        assert_eq!(batching.due(), None);
        assert!(process(&mut batching, &[(5 * MS, 0), (15 * MS - 1, 1)]).is_empty());
        assert_eq!(batching.due(), Some(15 * MS));
        assert_eq!(process(&mut batching, &[(15 * MS, 2)]), [[0, 1]]);
        assert!(process(&mut batching, &[(0, 3)]).is_empty(), "a clock that jumps back");
        let mut batch = Batch::new();
        batching.on_time(25 * MS - 1, &mut batch, &mut Output::new()).unwrap();
        assert!(batch.is_empty());
        batching.on_time(25 * MS, &mut batch, &mut Output::new()).unwrap();
        assert_eq!((numbers(&batch), batching.held()), (vec![2, 3], 0));
    }

    #[test]
    fn what_came_in_one_piece_goes_out_without_a_copy() {
        let mut batching = batching(json!({ "max_events": 2 }));
        let (mut batch, mut output) = (timed(&at_once(0..4)), Output::new());
        let bytes = batch.nodes().as_ptr();
        batching.process(&mut batch, &mut output).unwrap();
        let same = output.take_ports().filter(|out| out.batch.nodes().as_ptr() == bytes);
        assert_eq!(same.count(), 2);
    }

    #[test]
    fn of_batches_of_which_little_is_left_little_is_held() {
        let mut batching = batching(json!({ "max_bytes": 100_000 }));
        let mut output = Output::new();
        for number in 0..100_u64 {
            let mut batch = timed(&[(0, number)]);
            batch.push_message(&vec![b'x'; 1 << 20]);
            batch.retain(|event| event.value().is_some());
            batching.process(&mut batch, &mut output).unwrap();
            assert!(
                batching.weight <= 2 * Batch::WEIGHT_AT_MOST + (2 << 20),
                "{}",
                batching.weight
            );
            let held: usize = batching.parts.iter().map(Batch::weight).sum();
            assert_eq!(held, batching.weight);
        }
        assert_eq!(rest(&mut batching), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_whose_events_weigh_much_more_than_their_bytes_is_complete() {
        let mut batching = batching(json!({ "max_events": 1_000 }));
        let (mut output, mut out) = (Output::new(), 0);
        for _ in 0..20 {
            let mut batch = Batch::new();
            batch.push_message(b"a bomb");
            batch.decode_with(|_, nodes, _| {
                nodes.push(tremor_pdk::abi::document::Node::array(60_000, 60_001));
                nodes.resize(nodes.len() + 60_000, tremor_pdk::abi::document::Node::null());
                Ok(0)
            });
            batching.process(&mut batch, &mut output).unwrap();
            out += output.take_ports().map(|out| out.batch.len()).sum::<usize>();
        }
        assert!(out >= 9, "{out} of 960 kB");
        assert!(batching.weight < 9 << 20);
    }

    #[test]
    fn more_bytes_than_a_batch_can_have_are_refused() {
        let error = refused("batch", &json!({ "max_bytes": 2_000_000_000 }));
        assert_eq!(error, "`max_bytes`: expected at most 1073741824, found 2000000000");
    }

    proptest! {
        #[test]
        fn events_keep_their_order_and_none_is_lost(
            lengths in prop::collection::vec(0..20u64, 0..20),
            max_events in 1..12usize,
        ) {
            let mut batching = batching(json!({ "max_events": max_events }));
            let (mut next, mut out) = (0, Vec::new());
            for length in lengths {
                out.extend(process(&mut batching, &at_once(next..next + length)));
                next += length;
            }
            prop_assert!(out.iter().all(|batch| batch.len() == max_events));
            let last = rest(&mut batching);
            prop_assert!(last.len() < max_events);
            let all: Vec<u64> = out.into_iter().flatten().chain(last).collect();
            prop_assert_eq!(all, (0..next).collect::<Vec<_>>());
        }
    }
}
