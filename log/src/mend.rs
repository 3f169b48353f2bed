//! Repair of a log that is not in use: of damage which opening the log would only set aside.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open, SystemDisk};
use crate::error::{DeviceError, InspectError, OpenError, RepairError, at};
use crate::files::Files;
use crate::find::{Contents, Segment, Unreadable, find};
use crate::layout::u64_at;
use crate::record::{HEADER_LEN, header, is_intact};
use crate::scan::{Linked, scan};
use crate::segment::{Copies, DATA, SegmentHeader, write_header};
use crate::settled::Settled;
use crate::walker::{Step, Walker};

/// Bytes that are copied at a time.
const COPY: usize = 1 << 20;

/// Ending of the names of files that a repair sets aside.
const ASIDE: &str = "aside";

/// A change that a repair has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Both headers of a segment were unreadable, and were written again from its records.
    Headers {
        /// The segment.
        path: PathBuf,
        /// Number of records that can be read again.
        records: u64,
        /// Copy of the segment as it was.
        copy: PathBuf,
    },
    /// Both headers of a segment were unreadable, and none of its records can be read. The file was renamed, because
    /// opening the log keeps only a part of such a file.
    Unreadable {
        /// The segment.
        path: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// A file or folder had a name that prevents opening the log, and was renamed.
    Renamed {
        /// The file or folder.
        path: PathBuf,
        /// The new name.
        to: PathBuf,
    },
}

/// Repairs the log in the folder `dir`, and returns the changes. The log must not be open.
///
/// Only damage is repaired for which opening the log would give up records, or would fail. All other damage is repaired
/// by the next opening. A file that is changed is copied first, to a name that ends with `.aside`; these files may be
/// removed after a look at them.
///
/// # Errors
///
/// See [`RepairError`]. After an error of the disk, the call may be repeated.
pub fn repair(dir: impl AsRef<Path>) -> Result<Vec<Repair>, RepairError> {
    repair_on(Arc::new(SystemDisk), dir.as_ref())
}

/// Repairs the log in the folder `dir` on a disk.
pub(crate) fn repair_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Vec<Repair>, RepairError> {
    let dir = std::path::absolute(dir).map_err(at("open", dir))?;
    if !disk.is_dir(&dir).map_err(at("open", &dir))? {
        return Err(InspectError::NotFound(dir).into());
    }
    let files = Files { disk, dir, is_read_only: false };
    let names = files.list(&files.dir)?;
    if !names.iter().any(|it| is_of_log(&files, it)) {
        return Err(InspectError::NotALog(files.dir).into());
    }
    let _lock = files.acquire().map_err(|error| match error {
        OpenError::InUse(error) => RepairError::InUse(error),
        OpenError::Device(error) => RepairError::Device(error),
        // Locking returns no other error.
        _ => InspectError::NotALog(files.dir.clone()).into(),
    })?;
    let mut repairs = Vec::new();
    for name in &names {
        if prevents_opening(&files, name)? {
            let path = files.dir.join(name);
            let to = set_aside(&files, &path)?;
            repairs.push(Repair::Renamed { path, to });
        }
    }
    let mut contents = find(&files).map_err(|error| match error {
        OpenError::Newer { path, version } => InspectError::Newer { path, version }.into(),
        OpenError::Device(error) => RepairError::Device(error),
        _ => InspectError::NotALog(files.dir.clone()).into(),
    })?;
    headers(&files, &mut contents, &mut repairs)?;
    Ok(repairs)
}

fn is_of_log(files: &Files, name: &str) -> bool {
    let path = files.dir.join(name);
    path == files.identity() || path == files.positions() || Files::segment_id(name).is_some()
}

/// Returns whether opening the log fails because of a file: its name is nearly that of a segment, or a folder has the name
/// of a file, or the reverse.
fn prevents_opening(files: &Files, name: &str) -> Result<bool, DeviceError> {
    let path = files.dir.join(name);
    let is_dir = files.disk.is_dir(&path).map_err(at("open", &path))?;
    let is_other = Files::segment_id(name).is_some_and(|id| files.segment(id) != path);
    let is_file = is_of_log(files, name) || path == files.lock() || Files::is_unfinished(name);
    Ok(is_other || (is_dir && is_file) || (!is_dir && path == files.kept()))
}

/// Returns a name for a file that is set aside, which no file has.
fn aside(files: &Files, path: &Path) -> Result<PathBuf, DeviceError> {
    let names: BTreeSet<_> = files.list(&files.dir)?.into_iter().collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered = (2u32..).map(|it| format!("{name}.{it}.{ASIDE}"));
    let mut free = std::iter::once(format!("{name}.{ASIDE}")).chain(numbered);
    let free = free.find(|it| !names.contains(it)).unwrap_or_default();
    Ok(files.dir.join(free))
}

/// Renames a file or folder to a name that the log does not use.
fn set_aside(files: &Files, path: &Path) -> Result<PathBuf, DeviceError> {
    let to = aside(files, path)?;
    files.disk.rename(path, &to).map_err(at("rename", path))?;
    files.sync_dir()?;
    Ok(to)
}

/// Copies a file to a name that the log does not use.
fn copy_aside(files: &Files, path: &Path, file: &dyn DiskFile) -> Result<PathBuf, DeviceError> {
    let to = aside(files, path)?;
    let copy = files.open(&to, Open::Empty)?;
    let (mut buffer, mut offset) = (vec![0; COPY], 0);
    loop {
        let read = file.read_at(&mut buffer, offset).map_err(at("read", path))?;
        if read == 0 {
            break;
        }
        copy.write_at(&[IoSlice::new(&buffer[..read])], offset).map_err(at("write to", &to))?;
        offset += read as u64;
    }
    copy.sync().map_err(at("sync", &to))?;
    files.sync_dir()?;
    Ok(to)
}

/// A segment without a readable header, and its records.
struct Found {
    unreadable: Unreadable,
    epoch: u64,
    first: u64,
    records: u64,
}

/// Writes headers of segments again, as far as their records say where they belong.
fn headers(
    files: &Files,
    contents: &mut Contents,
    repairs: &mut Vec<Repair>,
) -> Result<(), DeviceError> {
    let epochs: BTreeSet<_> = contents.segments.iter().map(|it| it.header.epoch).collect();
    let mut found = Vec::new();
    for unreadable in std::mem::take(&mut contents.unreadable) {
        let path = files.segment(unreadable.id);
        match read(&unreadable, &epochs).map_err(at("read", &path))? {
            Some(it) => found.push(it),
            None => {
                let to = set_aside(files, &path)?;
                repairs.push(Repair::Unreadable { path, to });
            }
        }
    }
    found.sort_by_key(|it| it.first);
    let firsts: Vec<_> = found.iter().map(|it| it.first).collect();
    let segments = &mut contents.segments;
    segments.retain(|it| it.header.sequence > 0);
    for (index, it) in found.into_iter().enumerate() {
        let path = files.segment(it.unreadable.id);
        let Some(header) = placed(files, segments, &firsts[index + 1..], &it)? else {
            let to = set_aside(files, &path)?;
            repairs.push(Repair::Unreadable { path, to });
            continue;
        };
        let copy = copy_aside(files, &path, &*it.unreadable.file)?;
        for copy in 0..2 {
            write_header(&*it.unreadable.file, &header, copy)
                .map_err(at("write the header of", &path))?;
        }
        let Unreadable { id, file, len } = it.unreadable;
        segments.push(Segment { id, file, len, header, copies: Copies::Equal });
        segments.sort_by_key(|it| it.header.sequence);
        repairs.push(Repair::Headers { path, records: it.records, copy });
    }
    Ok(())
}

/// Reads the records of a segment without its headers. Returns `None` if there are none.
///
/// The epoch is that of the first record if it is intact, because no sender of an event decides what is at this offset.
/// Otherwise it has to be the epoch of another segment: an event may contain what looks like a record of any epoch that
/// its sender knows.
fn read(unreadable: &Unreadable, epochs: &BTreeSet<u64>) -> std::io::Result<Option<Found>> {
    let Unreadable { file, len, .. } = unreadable;
    let mut head = vec![0; HEADER_LEN];
    let count = file.read_at(&mut head, DATA)?;
    let mut candidates = Vec::new();
    if count == HEADER_LEN
        && let Some(it) = header(&head, u64_at(&head, 48), 0, len.saturating_sub(DATA))
    {
        let mut bytes = vec![0; it.len as usize];
        let count = file.read_at(&mut bytes, DATA)?;
        if count == bytes.len() && is_intact(&bytes, u64_at(&head, 48)) {
            candidates.push(u64_at(&head, 48));
        }
    }
    if candidates.is_empty() {
        candidates.extend(epochs);
    }
    let mut best: Option<Found> = None;
    for epoch in candidates {
        let mut walker = Walker::new(Arc::clone(file), epoch, DATA, 0);
        let (mut first, mut records) = (None, 0);
        loop {
            match walker.next(*len)? {
                Step::Record { number, .. } => {
                    first = first.or(Some(number));
                    records += 1;
                }
                Step::Damage { .. } => {}
                Step::End { .. } => break,
            }
        }
        let Some(first) = first else { continue };
        if best.as_ref().is_none_or(|it| it.first < first) {
            let unreadable = Unreadable { id: unreadable.id, file: Arc::clone(file), len: *len };
            best = Some(Found { unreadable, epoch, first, records });
        }
    }
    Ok(best)
}

/// Returns the header of a segment, or `None` if its follower names another segment, so that the records were settled or
/// moved. `later` contains the first numbers of the segments without a header whose records follow.
fn placed(
    files: &Files,
    segments: &[Segment],
    later: &[u64],
    found: &Found,
) -> Result<Option<SegmentHeader>, DeviceError> {
    let before = segments.iter().rfind(|it| it.header.first <= found.first);
    let lower = before.map_or(0, |it| it.header.sequence);
    let follower = segments.iter().find(|it| it.header.first > found.first).map(|it| it.header);
    let is_last = |follower: &SegmentHeader| later.iter().all(|it| *it > follower.first);
    let sequence = match follower {
        None => lower + 1,
        Some(it) if it.previous <= lower || it.previous >= it.sequence => return Ok(None),
        Some(it) if is_last(&it) => it.previous,
        // Each sequence is used once, so there is one for each segment between the two.
        Some(it) if lower + 1 < it.previous => lower + 1,
        Some(_) => return Ok(None),
    };
    let mut header = SegmentHeader {
        sequence,
        epoch: found.epoch,
        first: found.first,
        // Older records may follow, because the file may have been used before.
        before: 1,
        ..SegmentHeader::default()
    };
    if let Some(Segment { id, file, len, header: earlier, copies }) = before {
        let (id, file, len) = (*id, Arc::clone(file), *len);
        let segment = Segment { id, file, len, header: *earlier, copies: *copies };
        let linked = Linked { segment, known: None, bound: found.first - 1 };
        let scan = scan(files, &linked, &mut Settled::default(), &mut Vec::new(), None)?;
        header.previous = earlier.sequence;
        header.previous_end = scan.end;
        header.previous_last = scan.last;
    }
    Ok(Some(header))
}
