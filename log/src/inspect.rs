//! Reading a log that may be in use, without a lock and without a change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open, SystemDisk};
use crate::error::{DeviceError, InspectError, OpenError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::find::{Contents, find};
use crate::record::{Record, header, is_intact};
use crate::report::{Damage, RecordInfo};
use crate::scanner::{Scanned, Scanner};
use crate::segment::{Headers, read_headers};

/// Attempts to read all headers while none of them changes. Segments change after megabytes of records, so the first
/// attempt usually succeeds.
const ATTEMPTS: u32 = 32;

/// Attempts after which a block of positions counts as damaged, and not as being written.
const MOST_TORN: u32 = 8;

/// A look at a log that may be in use.
///
/// An inspection takes no lock and changes nothing. It uses a copy of the settled positions, and the segments that
/// existed when it began. If another process uses the log meanwhile:
///
/// - Records that are appended later are not found, or only some of them.
/// - Records may be found that are written and not durable yet.
/// - A segment may be reused before it is read. This is detected, and its records are left out: they were settled, or
///   moved to a new segment because the log was opened again.
///
/// ```rust
/// use tremor_log::{Inspection, Log, Options, record};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let (log, _) = Log::open(folder, Options::new(16 << 20))?;
/// log.appender().append_and_wait(record(b"first"))?;
///
/// // The log is still open.
/// let mut inspection = Inspection::open(folder)?;
/// println!("used by {:?}, settled up to {}", inspection.holder, inspection.settled);
/// while let Some(segment) = inspection.next_segment() {
///     let segment = segment?;
///     println!("{}: {} damaged parts", segment.path.display(), segment.damage.len());
///     for info in &segment.records {
///         if let Some(record) = segment.read(info)? {
///             println!("{} at {}: {:?}", record.number, info.offset, record.payload());
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inspection {
    /// Name of the owner; `None` if the file that contains it is missing or unreadable.
    pub owner: Option<String>,
    /// The process that used the log when the inspection began, if the operating system names it.
    pub holder: Option<u32>,
    /// The number up to which all records are settled.
    pub settled: u64,
    /// The ranges of settled numbers above `settled`, ascending.
    pub settled_ranges: Vec<(u64, u64)>,
    /// Files in the folder of the log, and in its folder `kept`.
    pub files: Vec<LogFile>,
    /// Damage outside of the segments that [`Inspection::next_segment`] returns. Segments whose headers are both
    /// unreadable are here.
    pub damage: Vec<Damage>,
    folder: Files,
    scanner: Scanner,
}

/// A file in the folder of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// Role of the file.
    pub kind: FileKind,
    /// Length in bytes; 0 for a folder.
    pub len: u64,
}

/// The role of a file in the folder of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The file that a process locks while it uses the log.
    Lock,
    /// The name of the owner.
    Owner,
    /// The settled positions.
    Positions,
    /// Records, or space for records.
    Segment,
    /// A file that is not complete. The next opening removes it.
    Unfinished,
    /// A part that was cut or skipped, in the folder `kept`.
    Kept,
    /// A file or folder that does not belong to the log.
    Other,
}

/// A segment that was read.
pub struct InspectedSegment {
    /// The file.
    pub path: PathBuf,
    /// Number that orders segments by the time when they were taken into use.
    pub sequence: u64,
    /// Length of the file in bytes.
    pub len: u64,
    /// The records, in the order of their numbers.
    pub records: Vec<RecordInfo>,
    /// Parts that cannot be read, and segments before this one that are missing.
    pub damage: Vec<Damage>,
    /// `true` if the file was reused while it was read. Then there are no records and no damage here.
    pub is_reused: bool,
    /// `true` if all records are settled. Such a segment is only read after [`Inspection::include_settled`].
    pub is_settled: bool,
    file: Arc<dyn DiskFile>,
    epoch: u64,
}

/// Returns the contents of a folder at a time at which no segment was taken into use or removed.
fn stable(files: &Files) -> Result<Contents, InspectError> {
    let mut earlier = None;
    for attempt in 0..ATTEMPTS {
        let contents = match find(files) {
            Ok(contents) => contents,
            // A file was renamed or removed after the folder was listed.
            Err(OpenError::Device(error)) if is_missing(&error) => continue,
            Err(OpenError::Device(error)) => return Err(error.into()),
            Err(OpenError::Newer { path, version }) => {
                return Err(InspectError::Newer { path, version });
            }
            Err(_) => continue,
        };
        let headers: Vec<_> =
            contents.segments.iter().map(|it| (it.id, it.header, it.copies)).collect();
        // Now the positions were read after headers that have stayed the same, so what was reused is settled there.
        let is_stable = earlier.as_ref() == Some(&headers) || fault("headers inspected once");
        // A block that is being written is unreadable for a moment.
        let is_readable = contents.positions.unreadable == 0 || attempt >= MOST_TORN;
        if is_stable && is_readable {
            return Ok(contents);
        }
        earlier = Some(headers);
    }
    Err(InspectError::Changing(files.dir.clone()))
}

fn is_missing(error: &DeviceError) -> bool {
    error.source.kind() == std::io::ErrorKind::NotFound
}

impl Inspection {
    /// Begins to inspect the log in the folder `dir`.
    ///
    /// # Errors
    ///
    /// See [`InspectError`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, InspectError> {
        Self::open_on(Arc::new(SystemDisk), dir.as_ref())
    }

    /// Begins to inspect the log in the folder `dir` on a disk.
    ///
    /// # Errors
    ///
    /// See [`InspectError`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, InspectError> {
        let dir = std::path::absolute(dir).map_err(at("open", dir))?;
        if !disk.is_dir(&dir).map_err(at("open", &dir))? {
            return Err(InspectError::NotFound(dir));
        }
        let folder = Files { disk, dir, is_read_only: true };
        let mut contents = stable(&folder)?;
        if contents.is_new() && contents.positions.is_missing() {
            return Err(InspectError::NotALog(folder.dir));
        }
        let mut damage: Vec<_> = contents.unreadable.iter().map(|it| it.damage(&folder)).collect();
        damage.extend(contents.damage_of_identity(&folder));
        damage.extend(contents.damage_of_positions(&folder));
        let had_positions = contents.positions.unreadable < 2 && !contents.positions.is_missing();
        let settled = contents.positions.settled.clone();
        let segments = std::mem::take(&mut contents.segments);
        let holder = folder.disk.holder(&folder.lock()).ok().flatten();
        let files = files(&folder)?;
        let position = settled.position();
        let settled_ranges = settled.ranges().to_vec();
        let (mut scanner, _) = Scanner::new(segments, settled, had_positions);
        scanner.is_inspection = true;
        let owner = contents.owner;
        Ok(Self {
            owner,
            holder,
            settled: position,
            settled_ranges,
            files,
            damage,
            folder,
            scanner,
        })
    }

    /// Reads the settled records too. Unless this is called, segments are not read if all of their records are settled.
    #[must_use]
    pub fn include_settled(mut self) -> Self {
        self.scanner.scans_settled = true;
        self
    }

    /// Reads the next segment that contains records, in the order of their numbers. Returns `None` after the last one.
    /// An error concerns one segment: the next call continues with the segment after it.
    pub fn next_segment(&mut self) -> Option<Result<InspectedSegment, DeviceError>> {
        let scanned = match self.scanner.next(&self.folder)? {
            Ok(scanned) => scanned,
            Err(error) => return Some(Err(error)),
        };
        Some(self.inspected(scanned))
    }

    fn inspected(&self, scanned: Scanned) -> Result<InspectedSegment, DeviceError> {
        let Scanned { segment, scan, mut damage, mut records } = scanned;
        let path = self.folder.segment(segment.id);
        let found = read_headers(&*segment.file).map_err(at("read", &path))?;
        let sequence = segment.header.sequence;
        // The header is changed before the first record of another use is written.
        let is_same = matches!(found, Headers::Valid(it, _) if it.sequence == sequence);
        if !is_same {
            records.clear();
            damage.clear();
        }
        Ok(InspectedSegment {
            path,
            sequence,
            len: segment.len,
            records,
            damage,
            is_reused: !is_same,
            is_settled: scan.is_none_or(|it| it.unsettled.records == 0),
            file: segment.file,
            epoch: segment.header.epoch,
        })
    }
}

impl InspectedSegment {
    /// Reads a record. Returns `None` if the file was reused, or the record was damaged, after the segment was read.
    ///
    /// # Errors
    ///
    /// The file could not be read.
    pub fn read(&self, info: &RecordInfo) -> Result<Option<Record>, DeviceError> {
        let len = usize::try_from(info.len).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        let read = self.file.read_at(&mut bytes, info.offset).map_err(at("read", &self.path))?;
        let found = header(&bytes[..read], self.epoch, info.number - 1, info.len);
        // The number distinguishes records of one run at the same offset.
        let is_same = found.is_some_and(|it| it.number == info.number && it.len == info.len);
        let is_intact = is_same && read == len && is_intact(&bytes, self.epoch);
        Ok(is_intact.then_some(Record { number: info.number, bytes }))
    }
}

/// Lists the files in the folder of a log, and in its folder `kept`. Files that vanish meanwhile are left out.
fn files(folder: &Files) -> Result<Vec<LogFile>, DeviceError> {
    let mut files = Vec::new();
    let mut add = |path: PathBuf, kind| {
        if folder.disk.is_dir(&path).map_err(at("open", &path))? {
            files.push(LogFile { path, kind, len: 0 });
            return Ok(());
        }
        match folder.open(&path, Open::Existing).and_then(|it| it.size().map_err(at("read", &path)))
        {
            Ok(len) => files.push(LogFile { path, kind, len }),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    };
    for name in folder.list(&folder.dir)? {
        let path = folder.dir.join(&name);
        let kind = match () {
            () if path == folder.lock() => FileKind::Lock,
            () if path == folder.identity() => FileKind::Owner,
            () if path == folder.positions() => FileKind::Positions,
            () if Files::segment_id(&name).is_some() => FileKind::Segment,
            () if Files::is_unfinished(&name) => FileKind::Unfinished,
            () => FileKind::Other,
        };
        if path != folder.kept() {
            add(path, kind)?;
            continue;
        }
        for name in folder.list(&path)? {
            add(path.join(name), FileKind::Kept)?;
        }
    }
    Ok(files)
}
