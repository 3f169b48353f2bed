//! The first half of opening a log: finds out what is there, and changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{DiskFile, Open};
use crate::error::{DeviceError, OpenError, at};
use crate::files::Files;
use crate::layout::{BLOCK, SHEET_HEADER, Sheet, put, read_sheet, seal, sheet, u32_at};
use crate::positions;
use crate::report::{Damage, DamageKind};
use crate::segment::{Copies, Headers, SegmentHeader, read_headers};

const MAGIC: [u8; 4] = *b"TRLI";

/// Maximum length of the owner's name in bytes.
pub(crate) const MAX_OWNER: usize = 1024;

/// A segment with at least one valid header.
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) len: u64,
    pub(crate) header: SegmentHeader,
    pub(crate) copies: Copies,
}

/// A segment without a valid header.
pub(crate) struct Unreadable {
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) len: u64,
}

/// State of the file that names the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Intact,
    /// The first or the second copy is unreadable.
    Damaged,
    /// The file does not exist, or neither copy is readable.
    Missing {
        exists: bool,
    },
}

impl Unreadable {
    pub(crate) fn damage(&self, files: &Files) -> Damage {
        let (kind, path) = (DamageKind::Segment, files.segment(self.id));
        Damage { kind, path, from: 0, to: self.len, records: 0, kept: None }
    }
}

/// Contents of the folder of a log.
pub(crate) struct Contents {
    /// Name of the owner, if a copy of it is readable.
    pub(crate) owner: Option<String>,
    pub(crate) identity: Identity,
    pub(crate) positions: positions::Found,
    pub(crate) segments: Vec<Segment>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// Files that an earlier run did not complete.
    pub(crate) unfinished: Vec<PathBuf>,
}

impl Contents {
    /// Returns whether the folder contains nothing of a log.
    pub(crate) fn is_new(&self) -> bool {
        self.identity == Identity::Missing { exists: false }
            && self.segments.is_empty()
            && self.unreadable.is_empty()
    }

    /// Returns the damage of the file that names the owner.
    pub(crate) fn damage_of_identity(&self, files: &Files) -> Option<Damage> {
        let (kind, path) = (DamageKind::Identity, files.identity());
        let is_damaged = self.identity != Identity::Intact && !self.is_new();
        is_damaged.then_some(Damage { kind, path, from: 0, to: 2 * BLOCK, records: 0, kept: None })
    }

    /// Returns the damage of the file with the settled positions.
    pub(crate) fn damage_of_positions(&self, files: &Files) -> Option<Damage> {
        let (kind, path) = (DamageKind::Positions, files.positions());
        let is_lost = self.positions.is_missing() && !self.segments.is_empty();
        let is_damaged = self.positions.unreadable > 0 || is_lost;
        is_damaged.then_some(Damage { kind, path, from: 0, to: 0, records: 0, kept: None })
    }
}

/// Reads everything but the records. Fails for a log of a newer version.
pub(crate) fn find(files: &Files) -> Result<Contents, OpenError> {
    let names = files.list(&files.dir)?;
    let has =
        |path: PathBuf| path.file_name().is_some_and(|name| names.iter().any(|it| **it == *name));
    let (identity, owner) = find_identity(files, has(files.identity()))?;
    let newer = |path: PathBuf, version| OpenError::Newer { path, version };
    let path = files.positions();
    let file = if has(path.clone()) { Some(files.open(&path, Open::Existing)?) } else { None };
    let positions = positions::find(files, file)?.map_err(|it| newer(path, it.0))?;
    let mut contents = Contents {
        owner,
        identity,
        positions,
        segments: Vec::new(),
        unreadable: Vec::new(),
        unfinished: Vec::new(),
    };
    for name in &names {
        if Files::is_unfinished(name) {
            contents.unfinished.push(files.dir.join(name));
        }
        let Some(id) = Files::segment_id(name) else { continue };
        let path = files.segment(id);
        let file = files.open(&path, Open::Existing)?;
        let len = file.size().map_err(at("read", &path))?;
        match read_headers(&*file).map_err(at("read", &path))? {
            Headers::Valid(header, copies) => {
                contents.segments.push(Segment { id, file, len, header, copies });
            }
            Headers::Newer(version) => return Err(newer(path, version)),
            Headers::Invalid => contents.unreadable.push(Unreadable { id, file, len }),
        }
    }
    contents.segments.sort_by_key(|it| (it.header.sequence, it.id));
    Ok(contents)
}

fn find_identity(files: &Files, exists: bool) -> Result<(Identity, Option<String>), OpenError> {
    let path = files.identity();
    if !exists {
        return Ok((Identity::Missing { exists: false }, None));
    }
    let mut bytes = vec![0; 2 * BLOCK as usize];
    let read =
        files.open(&path, Open::Existing)?.read_at(&mut bytes, 0).map_err(at("read", &path))?;
    let (mut readable, mut owner) = (0, None);
    for copy in bytes[..read].chunks(BLOCK as usize) {
        match read_sheet(copy, MAGIC) {
            Sheet::Valid(copy) => {
                readable += 1;
                let end = SHEET_HEADER + u32_at(copy, 16) as usize;
                let found = copy.get(SHEET_HEADER..end).unwrap_or_default();
                owner.get_or_insert_with(|| String::from_utf8_lossy(found).into_owned());
            }
            Sheet::Newer(version) => return Err(OpenError::Newer { path, version }),
            Sheet::Invalid => {}
        }
    }
    let identity = match readable {
        0 => Identity::Missing { exists: true },
        1 => Identity::Damaged,
        _ => Identity::Intact,
    };
    Ok((identity, owner))
}

/// Writes the file that names the owner.
pub(crate) fn write_identity(files: &Files, owner: &str) -> Result<(), DeviceError> {
    let mut bytes = sheet(MAGIC, SHEET_HEADER + owner.len());
    put(&mut bytes, 16, &(owner.len() as u32).to_le_bytes());
    put(&mut bytes, SHEET_HEADER, owner.as_bytes());
    seal(&mut bytes);
    bytes.extend_from_within(..);
    files.create(&files.identity(), &bytes).map(drop)
}
