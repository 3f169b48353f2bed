//! Rotation: decides when the file is renamed, chooses its new name, and deletes old files.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use tremor_pdk::{Host, Problem};

use crate::{compression::Compression, config::Rotate};

/// Settings of rotation, for one file.
#[derive(Debug)]
pub(super) struct Rotation {
    path: PathBuf,
    max_bytes: Option<u64>,
    every_ns: Option<u64>,
    keep: Option<usize>,
    /// The problem that old files cannot be deleted.
    pub(super) problem: Problem,
}

impl Rotation {
    pub(super) fn new(path: &Path, rotate: &Rotate, host: &Host) -> Self {
        let every_ns = rotate.every.map(|every| every.get().as_nanos());
        Self {
            path: path.to_owned(),
            problem: host.problem("rotation"),
            max_bytes: rotate.max_bytes.map(tremor_pdk::units::Size::get),
            every_ns: every_ns.map(|every| u64::try_from(every).unwrap_or(u64::MAX)),
            keep: rotate.keep.map(|keep| usize::try_from(keep.get()).unwrap_or(usize::MAX)),
        }
    }

    /// Returns whether a file of `length` bytes and age `age_ns` has to be renamed before `more`
    /// bytes are written.
    pub(super) fn is_due(&self, length: u64, more: u64, age_ns: u64) -> bool {
        let is_full = self.max_bytes.is_some_and(|most| length.saturating_add(more) > most);
        let is_old = self.every_ns.is_some_and(|every| age_ns >= every);
        length > 0 && (is_full || is_old)
    }

    /// Renames the file: the new name contains the time in UTC, in ms. If a file of that name
    /// exists, uses the next ms instead of replacing the file.
    pub(super) fn set_aside(&self, now_ns: u64) -> io::Result<()> {
        let mut ms = now_ns / 1_000_000;
        let mut aside = self.aside(&stamp(ms));
        while aside.try_exists()? {
            ms += 1;
            aside = self.aside(&stamp(ms));
        }
        fs::rename(&self.path, aside)
    }

    /// Deletes the oldest renamed files. Returns the files that could not be deleted, with the
    /// errors.
    pub(super) fn prune(&self) -> io::Result<Vec<(PathBuf, io::Error)>> {
        let Some(keep) = self.keep else { return Ok(Vec::new()) };
        let (mut before, after) = self.around();
        before.push(".");
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut old = Vec::new();
        for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            let stamp = name.strip_prefix(before.as_encoded_bytes());
            let stamp = stamp.and_then(|rest| rest.strip_suffix(after.as_encoded_bytes()));
            // The stamp in the name is the time of the rename, and stamps sort by time.
            if let Some(stamp) = stamp.filter(|stamp| is_stamp(stamp)) {
                old.push((stamp.to_vec(), entry.path()));
            }
        }
        old.sort();
        old.truncate(old.len().saturating_sub(keep));
        let delete = |path: PathBuf| fs::remove_file(&path).err().map(|error| (path, error));
        Ok(old.into_iter().filter_map(|(_, path)| delete(path)).collect())
    }

    fn aside(&self, stamp: &str) -> PathBuf {
        let (mut name, after) = self.around();
        name.push(".");
        name.push(stamp);
        name.push(after);
        self.path.with_file_name(name)
    }

    /// Returns the parts of the file name before and after the stamp. The extension of a compressed
    /// file stays last.
    fn around(&self) -> (OsString, OsString) {
        let name = self.path.file_name().unwrap_or_default().to_owned();
        match (self.path.file_stem(), self.path.extension()) {
            (Some(stem), Some(extension)) if Compression::Auto.of(&self.path).is_some() => {
                let mut after = OsString::from(".");
                after.push(extension);
                (stem.to_owned(), after)
            }
            _ => (name, OsString::new()),
        }
    }
}

/// Formats a time in ms since the epoch, such as `20261122-213300.042`.
pub(super) fn stamp(ms: u64) -> String {
    let (days, ms_of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (s, ms) = (ms_of_day / 1_000, ms_of_day % 1_000);
    let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}.{ms:03}")
}

fn is_stamp(text: &[u8]) -> bool {
    text.len() == 19
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
    use std::{fs, path::Path};

    use super::{Rotation, is_stamp, stamp};

    fn rotation(path: &Path, keep: Option<usize>) -> Rotation {
        let problem = tremor_pdk::testing::TestHost::new().host().problem("rotation");
        Rotation { path: path.to_owned(), max_bytes: Some(10), every_ns: Some(5), keep, problem }
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
        let rotation = rotation(Path::new("out"), None);
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
            let rotation = rotation(&path, Some(2));
            for text in ["one", "two", "three"] {
                fs::write(&path, text).unwrap();
                rotation.set_aside(1_000_000_000).unwrap();
            }
            fs::write(folder.path().join("out.1"), "another's").unwrap();
            assert!(rotation.prune().unwrap().is_empty());
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
