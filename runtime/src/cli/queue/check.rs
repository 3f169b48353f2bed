//! `tremor queue check`: reads everything and reports damaged parts.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::json;
use tremor_log::Damage;

use super::{
    super::Failure,
    contents::{Records, damage_json, described, is_damage, shown, text},
    failed, inspect,
};

/// The result of checking a queue.
pub(super) struct Checked {
    folder: PathBuf,
    records: u64,
    waiting: u64,
    /// Segments that a running process reused before they were read.
    reused: u64,
    damage: Vec<Damage>,
    /// Errors of the disk, and records that this version cannot read.
    errors: Vec<String>,
}

impl Checked {
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut inspection = inspect(folder)?.include_settled();
        let mut checked = Self {
            folder: folder.to_owned(),
            records: 0,
            waiting: 0,
            reused: 0,
            damage: inspection.damage.clone(),
            errors: Vec::new(),
        };
        let mut records = Records::default();
        while let Some(segment) = inspection.next_segment() {
            let segment = match segment {
                Ok(segment) => segment,
                Err(error) => {
                    checked.errors.push(error.to_string());
                    continue;
                }
            };
            checked.reused += u64::from(segment.is_reused);
            for info in &segment.records {
                checked.records += 1;
                checked.waiting += u64::from(!info.is_settled);
                // A record that was settled is not read again.
                if info.is_settled {
                    continue;
                }
                match segment.read(info) {
                    Err(error) => checked.errors.push(error.to_string()),
                    Ok(None) => {}
                    Ok(Some(record)) => {
                        if let Err(error) = records.read(&record.bytes) {
                            let error = format!("cannot read record {}: {error}", info.number);
                            checked.errors.push(error);
                        }
                    }
                }
            }
            checked.damage.extend(segment.damage);
        }
        Ok(checked)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let Self { folder, records, waiting, reused, .. } = self;
        let folder = self::text(folder);
        for damage in &self.damage {
            let severity = if is_damage(damage) { "damage" } else { "note" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{severity}: {}", shown(&described(damage)));
        }
        self.errors.iter().for_each(|error| _ = writeln!(text, "damage: {}", shown(error)));
        let _ = writeln!(text, "{folder}: {records} records are intact, {waiting} of them wait");
        if *reused > 0 {
            let _ = writeln!(text, "{folder}: {reused} segments were reused before they were read");
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let all = json!({
            "folder": text(&self.folder), "records": self.records, "waiting": self.waiting,
            "reused": self.reused, "is_damaged": self.faults() > 0,
            "damage": self.damage.iter().map(damage_json).collect::<Vec<_>>(),
            "errors": self.errors.iter().map(|it| shown(it)).collect::<Vec<_>>(),
        });
        format!("{all}\n")
    }

    /// Returns the number of parts because of which events may be lost.
    fn faults(&self) -> usize {
        self.damage.iter().filter(|it| is_damage(it)).count() + self.errors.len()
    }

    pub(super) fn result(&self) -> Result<(), Failure> {
        let folder = text(&self.folder);
        match self.faults() {
            0 => Ok(()),
            1 => Err(failed(&format_args!("a part of the queue {folder} is damaged"))),
            faults => {
                Err(failed(&format_args!("{faults} parts of the queue {folder} are damaged")))
            }
        }
    }
}
