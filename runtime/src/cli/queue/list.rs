//! `tremor queue list`: shows sizes, events, ages and the user of a queue.

use std::{
    fmt::{Display, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde_json::json;
use tremor_abi::batch::HostBatch;
use tremor_log::{Damage, FileKind, InspectedSegment, Inspection, LogFile, RecordInfo};
use tremor_runtime::{clock::Clock, flow::Disk};

use super::{
    super::Failure,
    contents::{Records, damage_json, described, shown, text},
    failed, inspect,
};

/// A record at the beginning or the end of a queue.
struct Edge {
    number: u64,
    /// Time when the first event of the record was read, in ns since the Unix epoch; `None` if the record cannot be read.
    ingest_ns: Option<u64>,
}

/// The state of a queue.
pub(super) struct Found {
    folder: PathBuf,
    owner: Option<String>,
    holder: Option<u32>,
    settled: u64,
    ranges: usize,
    files: Vec<LogFile>,
    /// Number and bytes of the files in the folder `rejected`.
    rejected: (u64, u64),
    records: u64,
    events: u64,
    bytes: u64,
    oldest: Option<Edge>,
    newest: Option<Edge>,
    damage: Vec<Damage>,
    now_ns: u64,
}

impl Found {
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let inspection = inspect(folder)?;
        let mut found = Self::of(folder, &inspection);
        found.count(inspection).map_err(|error| failed(&error))?;
        Ok(found)
    }

    fn of(folder: &Path, inspection: &Inspection) -> Self {
        Self {
            folder: folder.to_owned(),
            owner: inspection.owner.clone(),
            holder: inspection.holder,
            settled: inspection.settled,
            ranges: inspection.settled_ranges.len(),
            files: inspection.files.clone(),
            rejected: rejected(folder),
            records: 0,
            events: 0,
            bytes: 0,
            oldest: None,
            newest: None,
            damage: inspection.damage.clone(),
            now_ns: Clock::default().now_ns(),
        }
    }

    fn count(&mut self, mut inspection: Inspection) -> Result<(), tremor_log::DeviceError> {
        let mut records = Records::default();
        let mut last: Option<(InspectedSegment, RecordInfo)> = None;
        while let Some(segment) = inspection.next_segment() {
            let segment = segment?;
            self.damage.extend(segment.damage.iter().cloned());
            let waiting = segment.records.iter().filter(|it| !it.is_settled);
            let mut newest = None;
            for info in waiting {
                self.records += 1;
                self.events += u64::from(info.events);
                self.bytes += info.len;
                if self.oldest.is_none() {
                    self.oldest = Some(edge(&segment, info, &mut records)?);
                }
                newest = Some(*info);
            }
            if let Some(newest) = newest {
                last = Some((segment, newest));
            }
        }
        if let Some((segment, info)) = last {
            self.newest = Some(edge(&segment, &info, &mut records)?);
        }
        Ok(())
    }

    /// Returns the number and the bytes of the files of a kind.
    fn files(&self, kind: FileKind) -> (u64, u64) {
        let files = self.files.iter().filter(|it| it.kind == kind);
        files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.len))
    }

    fn total(&self) -> u64 {
        self.files.iter().map(|it| it.len).sum::<u64>() + self.rejected.1
    }

    /// Returns the files and folders that do not belong to a queue.
    fn others(&self) -> impl Iterator<Item = &Path> {
        let is_other = |it: &&LogFile| {
            it.kind == FileKind::Other
                && it.path.file_name().is_none_or(|it| it != Disk::REJECTED && it != Disk::ID)
        };
        self.files.iter().filter(is_other).map(|it| &*it.path)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        line("folder", &self::text(&self.folder));
        line("owner", &self.owner.as_deref().map_or_else(|| "unknown".to_owned(), shown));
        match self.holder {
            Some(holder) => line("used by", &format_args!("process {holder}")),
            None => line("used by", &"no process that is known"),
        }
        let (count, bytes) = self.files(FileKind::Segment);
        let total = self.total();
        line("size", &format_args!("{total} bytes, of which {count} segments have {bytes}"));
        let Self { records, events, bytes, settled, ranges, .. } = self;
        line("waiting", &format_args!("{events} events in {records} records of {bytes} bytes"));
        line("settled", &format_args!("up to record {settled}, and {ranges} ranges above"));
        for (name, edge) in [("oldest", &self.oldest), ("newest", &self.newest)] {
            if let Some(edge) = edge {
                line(name, &edge.text(self.now_ns));
            }
        }
        for (name, (count, bytes)) in
            [("kept", self.files(FileKind::Kept)), ("rejected", self.rejected)]
        {
            if count > 0 {
                line(name, &format_args!("{bytes} bytes in {count} files"));
            }
        }
        self.others().for_each(|path| line("other file", &self::text(path)));
        self.damage.iter().for_each(|it| line("damage", &shown(&described(it))));
        text
    }

    pub(super) fn json(&self) -> String {
        let edge = |edge: &Option<Edge>| {
            edge.as_ref().map(|it| json!({ "record": it.number, "ingest_ns": it.ingest_ns }))
        };
        let files = |(count, bytes): (u64, u64)| json!({ "files": count, "bytes": bytes });
        let others: Vec<_> = self.others().map(self::text).collect();
        let all = json!({
            "folder": self::text(&self.folder), "owner": self.owner, "process": self.holder,
            "bytes": self.total(), "segments": files(self.files(FileKind::Segment)),
            "waiting": { "events": self.events, "records": self.records, "bytes": self.bytes },
            "settled": self.settled, "settled_ranges": self.ranges,
            "oldest": edge(&self.oldest), "newest": edge(&self.newest),
            "kept": files(self.files(FileKind::Kept)), "rejected": files(self.rejected),
            "others": others,
            "damage": self.damage.iter().map(damage_json).collect::<Vec<_>>(),
        });
        format!("{all}\n")
    }
}

impl Edge {
    fn text(&self, now_ns: u64) -> String {
        let number = self.number;
        let Some(ingest_ns) = self.ingest_ns else { return format!("record {number}") };
        let time = Timestamp::from_nanosecond(ingest_ns.into());
        let time = time.map_or_else(|_| format!("{ingest_ns} ns"), |it| format!("{it:.0}"));
        let age = now_ns.saturating_sub(ingest_ns) / 1_000_000_000;
        format!("record {number}, read at {time}, {age} s ago")
    }
}

fn edge(
    segment: &InspectedSegment,
    info: &RecordInfo,
    records: &mut Records,
) -> Result<Edge, tremor_log::DeviceError> {
    let record = segment.read(info)?;
    let batch = record.and_then(|record| records.read(&record.bytes).ok());
    let ingest_ns = batch.and_then(|batch| Some(batch.events().first()?.ingest_ns));
    Ok(Edge { number: info.number, ingest_ns })
}

/// Returns the number and the bytes of the files with events that the sink refused.
fn rejected(folder: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(folder.join(Disk::REJECTED)).into_iter().flatten();
    let lengths = entries.filter_map(|it| it.ok()?.metadata().ok()).map(|it| it.len());
    lengths.fold((0, 0), |(count, bytes), len| (count + 1, bytes + len))
}
