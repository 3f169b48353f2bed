//! The contents of a file: a table of rows, or a database of MaxMind.

use std::path::Path;

use tremor_pdk::{Memory, Result};

use crate::{
    config::{Format, TableConfig},
    load::{self, at_path},
    maxmind::{Database, Record},
    record::Limited,
    table::{Row, Table},
};

/// The contents of a file in memory.
pub(crate) enum Data {
    Table(Table),
    Database(Box<Database>),
}

/// The row or the record of a key.
pub(crate) enum Found<'d> {
    Row(Row<'d>),
    Record(Record<'d>),
}

impl Data {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file and the mistake.
    pub(crate) fn load(path: &Path, config: &TableConfig, memory: Memory) -> Result<Self> {
        match config.format {
            Format::Csv | Format::JsonLines => load::load(path, config, memory).map(Self::Table),
            Format::Maxmind => load::open(path)
                .and_then(|file| Database::load(&file, config, memory))
                .map(|database| Self::Database(Box::new(database)))
                .map_err(|error| at_path(path, error)),
        }
    }

    /// Returns what an event with this key gets.
    pub(crate) fn find(&self, key: &str) -> Option<Found<'_>> {
        match self {
            Self::Table(table) => table.find(key).map(Found::Row),
            Self::Database(database) => database.find(key).map(Found::Record),
        }
    }

    /// Returns the number of keys of a table, and the number of rows that a later row has replaced.
    pub(crate) fn keys(&self) -> Option<(usize, u64)> {
        match self {
            Self::Table(table) => Some((table.len(), table.duplicates())),
            Self::Database(_) => None,
        }
    }

    /// Returns the memory of the contents in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Table(table) => table.bytes(),
            Self::Database(database) => database.bytes(),
        }
    }
}

impl Found<'_> {
    /// Writes an object with the values.
    ///
    /// # Errors
    /// The record of a database cannot be decoded.
    pub(crate) fn write(self, out: &mut Limited<'_, '_>) -> Result<()> {
        match self {
            Self::Row(row) => {
                row.write(out);
                Ok(())
            }
            Self::Record(record) => record.write(out),
        }
    }
}
