//! Rotation: decides when the file is renamed, chooses its new name, and deletes old files.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tremor_pdk::Result;

use super::{location::Folder, problem::SharedProblem};
use crate::{
    compression::Compression,
    config::{Midnights, Rotate},
};

/// Settings of rotation, and the state for one file.
#[derive(Debug)]
pub(super) struct Rotation {
    max_bytes: Option<u64>,
    every_ns: Option<u64>,
    midnights: Option<Midnights>,
    keep: Option<usize>,
    /// The problem that old files cannot be deleted.
    problem: Arc<SharedProblem>,
    /// `true` if old files of this file could not be deleted.
    has_failed: AtomicBool,
}

impl Rotation {
    pub(super) fn new(
        rotate: &Rotate,
        midnights: Option<Midnights>,
        problem: Arc<SharedProblem>,
    ) -> Self {
        let every_ns = rotate.every.map(|every| every.get().as_nanos());
        Self {
            max_bytes: rotate.max_bytes.map(tremor_pdk::units::Size::get),
            every_ns: every_ns.map(|every| u64::try_from(every).unwrap_or(u64::MAX)),
            midnights,
            keep: rotate.keep.map(|keep| usize::try_from(keep.get()).unwrap_or(usize::MAX)),
            problem,
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns whether a file of `length` bytes and age `age_ns` has to be renamed before `more`
    /// bytes are written.
    pub(super) fn is_due(&self, length: u64, more: u64, age_ns: u64) -> bool {
        let is_full = self.max_bytes.is_some_and(|most| length.saturating_add(more) > most);
        let is_old = self.every_ns.is_some_and(|every| age_ns >= every);
        length > 0 && (is_full || is_old)
    }

    /// Returns the time in ns since the Unix epoch at which a file that was begun at `begun_ns` has to be renamed,
    /// whatever its length and its age are.
    pub(super) fn end_of(&self, begun_ns: u64) -> u64 {
        self.midnights.as_ref().map_or(u64::MAX, |midnights| midnights.after(begun_ns))
    }

    /// Returns whether files are renamed at a time of day.
    pub(super) const fn is_daily(&self) -> bool {
        self.midnights.is_some()
    }

    /// Renames the file: the new name contains the time in UTC, in ms. If a file of that name
    /// exists, uses the next ms instead of replacing the file.
    pub(super) fn set_aside(folder: &Folder<'_>, now_ns: u64) -> io::Result<()> {
        let name = folder.name();
        let mut ms = now_ns / 1_000_000;
        let mut aside = aside(&name, &stamp(ms));
        while folder.has(&aside)? {
            ms += 1;
            aside = self::aside(&name, &stamp(ms));
        }
        folder.rename_to(&aside)
    }

    /// Deletes the oldest renamed files. Returns the files that could not be deleted, with the
    /// errors.
    pub(super) fn prune(&self, folder: &Folder<'_>) -> io::Result<Vec<(PathBuf, io::Error)>> {
        let Some(keep) = self.keep else { return Ok(Vec::new()) };
        let name = folder.name();
        let mut old = Vec::new();
        folder.visit(|entry| {
            // The stamp in the name is the time of the rename, and stamps sort by time.
            if let Some(stamp) = stamp_in(&name, entry) {
                old.push((stamp.to_vec(), entry.to_owned()));
            }
        })?;
        old.sort();
        old.truncate(old.len().saturating_sub(keep));
        let delete =
            |name: OsString| folder.remove(&name).err().map(|it| (folder.path_of(&name), it));
        Ok(old.into_iter().filter_map(|(_, name)| delete(name)).collect())
    }

    /// Reports whether old files of this file could be deleted.
    pub(super) fn report(&self, pruned: &Result<()>) {
        self.problem.update(&self.has_failed, pruned);
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        if self.has_failed.load(Ordering::Relaxed) {
            self.problem.update(&self.has_failed, &Ok(()));
        }
    }
}

/// Returns the name of a renamed file.
fn aside(name: &OsStr, stamp: &str) -> OsString {
    let (mut aside, after) = around(name);
    aside.push(".");
    aside.push(stamp);
    aside.push(after);
    aside
}

/// Returns the parts of the file name before and after the stamp. The extension of a compressed
/// file stays last.
fn around(name: &OsStr) -> (OsString, OsString) {
    let path = Path::new(name);
    match (path.file_stem(), path.extension()) {
        (Some(stem), Some(extension)) if Compression::Auto.of(path).is_some() => {
            let mut after = OsString::from(".");
            after.push(extension);
            (stem.to_owned(), after)
        }
        _ => (name.to_owned(), OsString::new()),
    }
}

/// Returns the stamp in `aside` if this is a name to which the file `name` may have been renamed.
fn stamp_in<'a>(name: &OsStr, aside: &'a OsStr) -> Option<&'a [u8]> {
    let (before, after) = around(name);
    let stamp = aside.as_encoded_bytes().strip_prefix(before.as_encoded_bytes())?;
    let stamp = stamp.strip_prefix(b".")?.strip_suffix(after.as_encoded_bytes())?;
    is_stamp(stamp).then_some(stamp)
}

/// Returns whether a file of this name may be a renamed file, or have an incomplete message, of another file.
pub(super) fn is_aside(name: &str) -> bool {
    let (stem, _) = around(OsStr::new(name));
    [OsStr::new(name), &stem].iter().any(|name| {
        let name = name.as_encoded_bytes();
        name.len() > STAMP_BYTES && {
            let (before, stamp) = name.split_at(name.len() - STAMP_BYTES);
            is_stamp(stamp) && (before.ends_with(b".") || before.ends_with(TORN.as_bytes()))
        }
    })
}

/// Formats a time in ms since the epoch, such as `20261122-213300.042`.
pub(super) fn stamp(ms: u64) -> String {
    let (days, ms_of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (s, ms) = (ms_of_day / 1_000, ms_of_day % 1_000);
    let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}.{ms:03}")
}

/// Text between the name of a file and the stamp in the name of a file with an incomplete message.
pub(super) const TORN: &str = ".torn-";

/// Number of bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 19;

fn is_stamp(text: &[u8]) -> bool {
    text.len() == STAMP_BYTES
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 => *byte == b'-',
            15 => *byte == b'.',
            _ => byte.is_ascii_digit(),
        })
}

/// Returns year, month and day. `days` is the number of days since the epoch. Algorithm: H.
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::atomic::AtomicBool};

    use super::{super::location::Location, Rotation, SharedProblem, is_aside, is_stamp, stamp};

    fn rotation(keep: Option<usize>) -> Rotation {
        let problem = SharedProblem::new(&tremor_pdk::testing::TestHost::new().host(), "rotation");
        let (max_bytes, every_ns, midnights) = (Some(10), Some(5), None);
        let has_failed = AtomicBool::new(false);
        Rotation { max_bytes, every_ns, midnights, keep, problem: problem.into(), has_failed }
    }

    #[test]
    fn names_of_renamed_files_are_recognised() {
        let stamp = stamp(7);
        for (name, expected) in [
            (format!("a.{stamp}"), true),
            (format!("a.log.{stamp}.gz"), true),
            (format!("a.torn-{stamp}"), true),
            (format!("a{stamp}"), false),
            (format!("a.{stamp}.log"), false),
            (stamp.clone(), false),
            ("a.log".to_owned(), false),
        ] {
            assert_eq!(is_aside(&name), expected, "{name}");
        }
    }

    #[test]
    fn stamp_is_the_time_in_utc() {
        for (seconds, expected) in [
            (0, "19700101-000000.000"),
            (951_782_399, "20000228-235959.000"),
            (951_868_800, "20000301-000000.000"),
            (1_795_383_180, "20261122-213300.000"),
            (4_107_542_400, "21000301-000000.000"),
        ] {
            assert_eq!(stamp(seconds * 1_000), expected);
            assert!(is_stamp(stamp(seconds * 1_000 + 7).as_bytes()));
        }
        assert!(!is_stamp(b"1") && !is_stamp(b"20261122_213300.000"));
    }

    #[test]
    fn full_or_old_file_is_set_aside_unless_empty() {
        let rotation = rotation(None);
        for (length, more, age, expected) in [
            (0, 100, 100, false),
            (6, 4, 4, false),
            (6, 5, 0, true),
            (1, 0, 5, true),
            (11, 0, 0, true),
        ] {
            assert_eq!(rotation.is_due(length, more, age), expected, "{length} {more} {age}");
        }
    }

    #[test]
    fn old_files_are_not_replaced_and_newest_are_kept() {
        for (name, before, after) in [("out", "out.", ""), ("out.json.gz", "out.json.", ".gz")] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let rotation = rotation(Some(2));
            let location = Location::fixed(path.clone());
            for text in ["one", "two", "three"] {
                fs::write(&path, text).unwrap();
                Rotation::set_aside(&location.folder().unwrap(), 1_000_000_000).unwrap();
            }
            fs::write(folder.path().join("out.1"), "another's").unwrap();
            assert!(rotation.prune(&location.folder().unwrap()).unwrap().is_empty());
            let read = |ms| {
                let name = format!("{before}19700101-000001.00{ms}{after}");
                fs::read_to_string(folder.path().join(name)).ok()
            };
            let kept = [0, 1, 2].map(read);
            assert_eq!(kept, [None, Some("two".to_owned()), Some("three".to_owned())], "{name}");
            assert!(folder.path().join("out.1").exists());
        }
    }
}
