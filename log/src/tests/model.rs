//! A log without a thread, and the model that it is compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::commit::{Committer, Progress};
use crate::disk::DiskFile;
use crate::error::{DeviceError, OpenError};
use crate::limits::Limits;
use crate::open::{Opening, open};
use crate::reader::Reader;
use crate::record::{Record, record};
use crate::report::Opened;
use crate::settled::Settled;
use crate::state::{Shared, Waiting};
use crate::tests::disk::SimDisk;

pub(super) const DIR: &str = "/var/log";

pub(super) const SEGMENT: u64 = 32 << 10;

/// A log whose commits a test makes.
pub(super) struct Stepped {
    pub(super) committer: Committer,
    pub(super) shared: Arc<Shared>,
    pub(super) opened: Opened,
    reader: Reader,
    max_ranges: usize,
    _lock: Arc<dyn DiskFile>,
}

pub(super) fn limits(segments: u64) -> Limits {
    Limits { segment_bytes: SEGMENT, segments: segments * SEGMENT, kept: 64 << 10, ranges: 128 }
}

impl Stepped {
    pub(super) fn open(disk: &SimDisk, segments: u64) -> Result<Self, OpenError> {
        let opening = open(Arc::new(disk.clone()), Path::new(DIR), "tests", limits(segments))?;
        let Opening { committer, shared, opened, lock, max_ranges } = opening;
        let reader = Reader::new(Arc::clone(&shared), DIR.into(), max_ranges);
        Ok(Self { committer, shared, opened, reader, max_ranges, _lock: lock })
    }

    pub(super) fn append(&self, record: Vec<u8>, done: impl FnOnce(u64) + Send + 'static) {
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        state.staged_bytes += record.len() as u64;
        let done = Box::new(move |result: Result<u64, _>| {
            let _ = result.map(done);
        });
        state.waiting.push_back(Waiting { record, number, done });
    }

    /// Appends a record and makes it durable.
    pub(super) fn append_durably(&mut self, record: Vec<u8>) {
        self.append(record, |_| ());
        while self.committer.step() != Progress::Idle {}
    }

    /// Appends a record and makes one commit.
    pub(super) fn append_one(&mut self, record: Vec<u8>) {
        self.append(record, |_| ());
        self.committer.step();
    }

    pub(super) fn max_ranges(&self) -> usize {
        self.max_ranges
    }

    pub(super) fn settle(&self, first: u64, last: u64) {
        let mut state = self.shared.lock();
        state.settled.insert(first, last);
        state.is_settled_changed = true;
    }

    /// Settles all records that were appended.
    pub(super) fn settle_all(&self) {
        let last = self.shared.lock().next - 1;
        self.settle(1, last);
    }

    pub(super) fn next(&mut self) -> Option<Record> {
        self.next_or_error().ok().flatten()
    }

    pub(super) fn next_or_error(&mut self) -> Result<Option<Record>, DeviceError> {
        self.reader.next()
    }

    pub(super) fn skip_to(&mut self, number: u64) {
        self.reader.skip_to(number);
    }

    /// Reads a record again, with a reader of its own.
    pub(super) fn again(&self, number: u64) -> Option<Record> {
        let mut reader = Reader::new(Arc::clone(&self.shared), DIR.into(), self.max_ranges);
        reader.again(number).ok().flatten()
    }

    pub(super) fn read_all(&mut self) -> Vec<Record> {
        self.restart_reader();
        let records = std::iter::from_fn(|| self.next()).collect();
        self.restart_reader();
        records
    }

    fn restart_reader(&mut self) {
        self.reader = Reader::new(Arc::clone(&self.shared), DIR.into(), self.max_ranges);
    }
}

/// Makes a record that has an identity, by which its whole contents are known.
pub(super) fn numbered(id: u64, len: usize) -> Vec<u8> {
    let mut payload = id.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().repeat(len / 8 + 2);
    payload[..8].copy_from_slice(&id.to_le_bytes());
    payload.truncate(8 + len);
    record(&payload)
}

/// Returns the identity of a record, if its contents are those that belong to it.
pub(super) fn identity(record: &Record) -> Option<u64> {
    let id = u64::from_le_bytes(*record.payload().first_chunk()?);
    let mut expected = numbered(id, record.payload().len() - 8);
    crate::record::stamp(&mut expected, record.number, crate::layout::u64_at(&record.bytes, 48));
    (expected == record.bytes).then_some(id)
}

/// Promises of the log.
#[derive(Default)]
pub(super) struct Model {
    next_id: u64,
    /// Numbers that records got, even if the record was lost.
    numbers: BTreeSet<u64>,
    /// Identities of the records that were acknowledged or delivered, by their numbers.
    promised: BTreeMap<u64, u64>,
    settled: BTreeSet<u64>,
    durably_settled: Settled,
    acknowledged: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Model {
    fn promise(&mut self, number: u64, id: u64) -> Result<(), String> {
        match self.promised.insert(number, id) {
            Some(other) if other != id => {
                Err(format!("number {number} was used for the records {other} and {id}"))
            }
            _ => Ok(()),
        }
    }

    /// Takes over the acknowledgements of a step.
    pub(super) fn acknowledgements(&mut self) -> Result<(), String> {
        let acknowledged = std::mem::take(&mut *self.acknowledged.lock().unwrap());
        if !acknowledged.is_sorted() {
            return Err(format!("records were acknowledged in another order: {acknowledged:?}"));
        }
        acknowledged.into_iter().try_for_each(|(number, id)| self.promise(number, id))
    }

    pub(super) fn append(&mut self, log: &Stepped, len: usize) -> Result<(), String> {
        self.next_id += 1;
        let number = log.shared.lock().next;
        if !self.numbers.insert(number) {
            return Err(format!("number {number} is used twice"));
        }
        let (id, acknowledged) = (self.next_id, Arc::clone(&self.acknowledged));
        log.append(numbered(id, len), move |number| {
            acknowledged.lock().unwrap().push((number, id));
        });
        Ok(())
    }

    /// Reads a record in the run that made it durable.
    pub(super) fn read(&mut self, log: &mut Stepped) -> Result<Option<u64>, String> {
        let Some(record) = log.next() else { return Ok(None) };
        let id = identity(&record)
            .ok_or_else(|| format!("record {} was never appended", record.number))?;
        if self.promised.get(&record.number) != Some(&id) {
            return Err(format!("record {} was read before it was durable", record.number));
        }
        if self.settled.contains(&record.number) {
            return Err(format!("record {} was settled before it was read", record.number));
        }
        Ok(Some(record.number))
    }

    pub(super) fn settle(&mut self, log: &Stepped, number: u64) {
        log.settle(number, number);
        self.settled.insert(number);
    }

    pub(super) fn note_durably_settled(&mut self, log: &Stepped) {
        self.durably_settled = log.committer.durably_settled().clone();
    }

    /// Compares a log that was opened with what was promised.
    pub(super) fn verify(&mut self, log: &mut Stepped) -> Result<(), String> {
        if let Some(damage) = log.opened.damage.iter().find(|it| it.kind.is_certain()) {
            return Err(format!("a crash was taken for damage: {damage:?}"));
        }
        let records = log.read_all();
        if std::env::var_os("TREMOR_SEED").is_some() {
            let state = log.shared.lock();
            for (sequence, it) in &state.live {
                println!(
                    "segment {sequence} in file {}: {} to {}, end {}",
                    it.id, it.first, it.last, it.end
                );
            }
            println!(
                "settled: {:?}, found: {:?}",
                state.settled,
                records.iter().map(|it| it.number).collect::<Vec<_>>()
            );
        }
        let (mut last, mut last_id) = (0, 0);
        let mut found = BTreeSet::new();
        for record in &records {
            let number = record.number;
            let id =
                identity(record).ok_or_else(|| format!("record {number} was never appended"))?;
            if number <= last || id <= last_id || id > self.next_id {
                return Err(format!("record {number} ({id}) follows record {last} ({last_id})"));
            }
            if self.durably_settled.contains(number) {
                return Err(format!("record {number} was delivered after it was settled durably"));
            }
            (last, last_id) = (number, id);
            found.insert(number);
            self.promise(number, id)?;
        }
        let lost: Vec<_> = self
            .promised
            .keys()
            .filter(|it| !found.contains(it) && !self.settled.contains(it))
            .collect();
        if !lost.is_empty() {
            return Err(format!(
                "the records {lost:?} were acknowledged or delivered and are lost"
            ));
        }
        if log.opened.records != records.len() as u64 {
            return Err(format!(
                "{} records were announced, {} found",
                log.opened.records,
                records.len()
            ));
        }
        // Records whose settlement was not durable are not settled any more, if they were found again.
        self.settled.retain(|it| !found.contains(it));
        self.note_durably_settled(log);
        Ok(())
    }

    /// Returns the numbers that are promised and not settled.
    pub(super) fn unsettled(&self) -> Vec<u64> {
        self.promised.keys().copied().filter(|it| !self.settled.contains(it)).collect()
    }
}
