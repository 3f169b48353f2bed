//! Report on the opening of a log.

use std::path::PathBuf;

/// Report on the opening of a log: which records are there, and what is damaged.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Number of records that are not settled.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Number of events in these records, as their headers say.
    pub events: u64,
    /// Parts of files that are not what was written, or that a crash left unfinished.
    pub damage: Vec<Damage>,
    /// Number of files in the folder `kept` that were removed, because the folder has a limit.
    pub kept_removed: u64,
    /// Number of parts that could not be kept, because the disk was full or failed.
    pub kept_failed: u64,
}

/// A record of an inspected log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// The number of the record.
    pub number: u64,
    /// Offset of the record in its segment in bytes.
    pub offset: u64,
    /// Length of the record in bytes, with its header.
    pub len: u64,
    /// Number of events, as the header says.
    pub events: u32,
    /// `true` if the record is settled.
    pub is_settled: bool,
}

/// A part of a file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Kind of the part.
    pub kind: DamageKind,
    /// The file.
    pub path: PathBuf,
    /// Offset of the part in bytes.
    pub from: u64,
    /// Offset of the end of the part in bytes.
    pub to: u64,
    /// Upper bound of the number of records that are lost.
    pub records: u64,
    /// The copy of the part, if it was kept.
    pub kept: Option<PathBuf>,
}

/// The kind of a part that could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageKind {
    /// Bytes that were durable and changed afterwards. Records that were acknowledged may be lost.
    Records,
    /// The end of the last commit of a run. A crash leaves it, and then no record that was acknowledged is lost. Damage
    /// of the last records looks the same.
    Tail,
    /// Bytes of records that were settled, or whose loss an earlier opening has reported.
    Settled,
    /// Bytes between records, where no record is lost. A crash may leave them, if no free segment was left when the log was
    /// opened after it.
    Padding,
    /// A segment of the log is gone, with records that were not settled.
    Missing,
    /// Both headers of a segment are unreadable; the file was kept. Crashes during failed commits may leave a segment
    /// without records in this state. Records that it contained are reported as [`DamageKind::Missing`] too, unless it was
    /// the last segment.
    Segment,
    /// The first or the second header of a segment is unreadable, and was replaced by its copy. A crash may leave it.
    Header,
    /// A block of settled positions is unreadable. A crash may leave one. If it was the last one written, records are
    /// delivered again. If both are unreadable, all records are.
    Positions,
    /// The file that names the owner is unreadable or missing, and was written again.
    Identity,
}

impl DamageKind {
    /// Returns `true` if no crash, but only a fault of the disk or a change of a file, can be the cause.
    pub fn is_certain(self) -> bool {
        matches!(self, Self::Records | Self::Missing | Self::Identity)
    }

    /// Returns whether the damage is a part of a segment, which is kept.
    pub(crate) fn has_bytes(self) -> bool {
        matches!(self, Self::Records | Self::Tail | Self::Settled | Self::Padding)
    }
}
