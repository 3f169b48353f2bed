//! Records of a queue on disk: the batches of a flow as frames.

use std::{collections::VecDeque, ops::Range};

use tremor_abi::{
    batch::HostBatch,
    frame::{self, Encoder, FrameError, Medium},
};
use tremor_pdk::{Batch, Error, Exception};
use twox_hash::XxHash3_128;

use crate::codec::FrameReader;

/// Maximum number of events of a record. With this number, each event of a pull has a position, so that the queue learns
/// which events failed.
const MAX_EVENTS: usize = 1 << 15;

/// A record that is not appended yet.
pub(super) struct NewRecord {
    pub(super) bytes: Vec<u8>,
    /// Positions of the events in their batch.
    pub(super) events: Range<usize>,
}

/// The records of a batch.
#[derive(Default)]
pub(super) struct Written {
    pub(super) records: VecDeque<NewRecord>,
    /// Events that no record can contain, in ascending order.
    pub(super) refused: Vec<Exception>,
}

/// Writes batches to records.
pub(super) struct RecordWriter {
    encoder: Encoder,
    /// Maximum bytes of a record.
    limit: usize,
    /// Random number of this run of the queue.
    run: u64,
}

impl RecordWriter {
    pub(super) fn new(limit: usize, run: u64) -> Self {
        Self { encoder: Encoder::with_limit(Medium::Disk, limit), limit, run }
    }

    /// Writes a batch, usually to a single record. Changes the streams and the pulls of its events: streams get numbers
    /// that no stream of another source or another run has, and the pull becomes the number of the run.
    pub(super) fn write(&mut self, batch: &mut Batch) -> Written {
        self.identify(batch);
        let mut written = Written::default();
        if batch.len() <= MAX_EVENTS
            && let Ok(record) = self.record(batch, 0)
        {
            written.records.push_back(record);
            return written;
        }
        let mut position = 0;
        for part in parts(batch) {
            for part in frame::divide(part, Medium::Disk, self.limit) {
                let result = part.map_err(|refused| refused.error);
                let events = match result.and_then(|it| self.record(&it, position)) {
                    Ok(record) => {
                        let events = record.events.len();
                        written.records.push_back(record);
                        events
                    }
                    // A part that is refused is a single event.
                    Err(error) => {
                        let error = refused(&error, self.limit);
                        let events = position..position + 1;
                        written.refused.push(Exception { events, error });
                        1
                    }
                };
                position += events;
            }
        }
        written
    }

    /// Writes a part of a batch. `position` is that of its first event.
    fn record(&mut self, part: &Batch, position: usize) -> Result<NewRecord, FrameError> {
        let prepared = self.encoder.prepare(part)?;
        let mut bytes = Vec::new();
        prepared.append_to(0, &mut bytes);
        Ok(NewRecord { bytes, events: position..position + part.len() })
    }

    fn identify(&self, batch: &mut Batch) {
        let mut last = None;
        for event in batch.events_mut() {
            let key = (event.source, event.stream);
            let stream = match last {
                Some((known, stream)) if known == key => stream,
                _ => stream(self.run, key),
            };
            last = Some((key, stream));
            (event.stream, event.pull) = (stream, self.run);
        }
    }
}

/// Divides a batch into parts of at most [`MAX_EVENTS`] events.
fn parts(batch: &Batch) -> Vec<Batch> {
    let full = batch.len() / MAX_EVENTS;
    let mut counts = vec![MAX_EVENTS; full];
    counts.push(batch.len() % MAX_EVENTS);
    counts.retain(|count| *count > 0);
    batch.clone().divide(&counts)
}

/// Returns a number for a stream that differs from those of other streams, other sources and other runs.
fn stream(run: u64, (source, stream): (u32, u64)) -> u64 {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&source.to_le_bytes());
    key[4..].copy_from_slice(&stream.to_le_bytes());
    // The lower half of the hash is as good as a hash of 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let hash = XxHash3_128::oneshot_with_seed(run, &key) as u64;
    hash
}

fn refused(error: &FrameError, limit: usize) -> Error {
    if error.is_too_large() {
        return Error::bad_data(format_args!(
            "the event is too large for the queue on disk: a record has at most {limit} bytes, which is a sixteenth of \
             `queue.disk.max_bytes`; increase it"
        ));
    }
    Error::bad_data(format_args!("cannot write the event to the queue on disk: {error}"))
}

/// Reads records into batches.
#[derive(Default)]
pub(super) struct RecordReader(FrameReader);

/// A batch that was read from a record.
pub(super) struct StoredBatch {
    pub(super) batch: Batch,
    /// Number of the run that wrote the record.
    pub(super) run: u64,
}

impl RecordReader {
    /// Reads a record. Events that a codec can no longer decode stay bytes, at the end of the batch.
    ///
    /// # Errors
    /// Returns an error if this version of the runtime does not know a part of the record.
    pub(super) fn read(&mut self, number: u64, record: &[u8]) -> Result<StoredBatch, Error> {
        let batch = self.0.read(record).map_err(|error| {
            Error::unsupported(format_args!("cannot read record {number} of the queue: {error}"))
        })?;
        let run = batch.events().first().map_or(0, |event| event.pull);
        Ok(StoredBatch { batch, run })
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::HostBatch;
    use tremor_pdk::Batch;

    use super::{MAX_EVENTS, RecordReader, RecordWriter, Written};
    use crate::components;

    const LIMIT: usize = 64 << 10;

    fn decoded(messages: impl IntoIterator<Item = String>) -> Batch {
        let codec = components::codec("json", &serde_json::Value::Null).unwrap();
        let mut batch = Batch::new();
        messages.into_iter().for_each(|message| batch.push_message(message.as_bytes()));
        assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
        batch
    }

    fn values(written: &Written) -> Vec<String> {
        let mut reader = RecordReader::default();
        let batches = written.records.iter().map(|it| reader.read(1, &it.bytes).unwrap().batch);
        let batches: Vec<Batch> = batches.collect();
        let values = batches.iter().flat_map(|batch| {
            batch.events().iter().map(|event| batch.value(event).unwrap().to_string())
        });
        values.collect()
    }

    #[test]
    fn unedited_events_are_stored_as_messages() {
        let message = r#"{ "a":[1,2,3,4,5,6,7,8,9],"b":"text" }"#;
        let mut batch = decoded(vec![message.to_owned(); 10]);
        let written = RecordWriter::new(LIMIT, 7).write(&mut batch);
        assert_eq!((written.records.len(), written.records[0].events.clone()), (1, 0..10));
        let most = 64 + 10 * (56 + message.len() + 8);
        assert!(written.records[0].bytes.len() <= most, "{}", written.records[0].bytes.len());
        assert_eq!(values(&written), vec![r#"{"a":[1,2,3,4,5,6,7,8,9],"b":"text"}"#; 10]);
        let read = RecordReader::default().read(1, &written.records[0].bytes).unwrap();
        let event = read.batch.events()[0];
        assert_eq!((read.run, read.batch.original(&event)), (7, message.as_bytes()));
    }

    #[test]
    fn large_batch_is_divided_and_large_event_is_refused() {
        let text = |len: usize| format!("\"{}\"", "x".repeat(len));
        let mut batch = decoded([text(40_000), text(30_000), text(70_000), text(10)]);
        let written = RecordWriter::new(LIMIT, 7).write(&mut batch);
        assert_eq!(values(&written), [text(40_000), text(30_000), text(10)]);
        assert!(written.records.iter().all(|it| it.bytes.len() <= LIMIT));
        assert_eq!(written.refused[0].events, 2..3);
        let error = written.refused[0].error.to_string();
        assert!(error.contains("a record has at most 65536 bytes"), "{error}");
    }

    #[test]
    fn record_has_a_position_for_each_event() {
        let mut batch = decoded((0..MAX_EVENTS + 3).map(|it| it.to_string()));
        let written = RecordWriter::new(16 << 20, 7).write(&mut batch);
        let events: Vec<_> = written.records.iter().map(|it| it.events.clone()).collect();
        assert_eq!(events, [0..MAX_EVENTS, MAX_EVENTS..MAX_EVENTS + 3]);
        assert_eq!(values(&written).last(), Some(&(MAX_EVENTS + 2).to_string()));
    }

    #[test]
    fn streams_of_sources_and_runs_differ() {
        let stream = |run, source, stream| {
            let mut batch = decoded(["1".to_owned()]);
            let event = &mut batch.events_mut()[0];
            (event.source, event.stream) = (source, stream);
            RecordWriter::new(LIMIT, run).write(&mut batch);
            batch.events()[0].stream
        };
        let mut all = vec![stream(1, 1, 1), stream(1, 1, 2), stream(1, 2, 1), stream(2, 1, 1)];
        assert_eq!(stream(1, 1, 1), all[0]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }
}
