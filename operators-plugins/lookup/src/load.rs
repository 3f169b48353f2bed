//! Reading of tables from files.

mod rfc4180;

use std::{
    cell::Cell,
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use csv::ByteRecord;
use tremor_pdk::{Error, Memory, Result};

use self::rfc4180::{Mistake, Quotes};
use crate::{
    config::{Format, TableConfig},
    record::{fields, put_json, put_number, put_text},
    table::{Builder, Table},
};

/// Maximum length of a row in the file, in bytes.
const MAX_ROW: usize = 1 << 20;

/// Maximum number of different columns.
const MAX_COLUMNS: usize = 4096;

/// Number of bytes that are read from a file at once.
const BUFFER: usize = 64 << 10;

/// Reads a table of rows.
///
/// # Errors
/// Names the file, the line, and the mistake.
pub(crate) fn load(path: &Path, config: &TableConfig, memory: Memory) -> Result<Table> {
    let read = || {
        let (file, since_row) = (open(path)?, Cell::new(0));
        let reader =
            BufReader::with_capacity(BUFFER, Limited { file: &file, since_row: &since_row });
        let builder = Builder::new(config.by, config.max_memory, memory);
        match config.format {
            Format::JsonLines => json_lines(reader, &since_row, config, builder),
            _ => csv(reader, &file, &since_row, config, builder),
        }
    };
    read().map_err(|error| at_path(path, error))
}

/// Adds the path of a file to its error.
pub(crate) fn at_path(path: &Path, error: Error) -> Error {
    error.context(format_args!("cannot read the table `{}`", path.display()))
}

/// Opens a file. Anything else, such as a pipe or a folder, is an error, and is not opened.
pub(crate) fn open(path: &Path) -> Result<File> {
    let check = |metadata: io::Result<std::fs::Metadata>| match metadata {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(metadata) => {
            let found = if metadata.is_dir() { "a folder" } else { "a pipe, a socket or a device" };
            Err(Error::configuration(format_args!("expected a file, found {found}")))
        }
        Err(error) => Err(Error::configuration(error)),
    };
    check(path.metadata())?;
    let file = File::open(path).map_err(Error::configuration)?;
    check(file.metadata())?;
    Ok(file)
}

/// A file of which a row has a limited length.
struct Limited<'c> {
    file: &'c File,
    /// Bytes that were read since the last row began.
    since_row: &'c Cell<usize>,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row.get() > MAX_ROW {
            let message = format!("a row takes more than {MAX_ROW} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let read = self.file.read(buffer)?;
        self.since_row.set(self.since_row.get() + read);
        Ok(read)
    }
}

/// Skips a byte order mark at the beginning, and returns its length.
fn skip_mark(reader: &mut impl BufRead) -> Result<u64> {
    let start = reader.fill_buf().map_err(Error::configuration)?;
    if start.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
        return Ok(3);
    }
    Ok(0)
}

fn empty() -> Error {
    Error::configuration("the file is empty: expected at least one line")
}

/// Returns an error with the number of the line, from 1.
fn at_line(line: u64, error: impl std::fmt::Display) -> Error {
    Error::configuration(format_args!("line {line}: {error}"))
}

fn no_column(key: &str, name: &str, columns: &[String]) -> Error {
    let shown: Vec<_> = columns.iter().take(20).map(|column| format!("`{column}`")).collect();
    Error::configuration(format_args!(
        "invalid `{key}`: the table has no column `{name}`; its columns are {}",
        shown.join(", ")
    ))
}

/// Lines of the records of a file of CSV.
struct Lines<'f> {
    file: &'f File,
    /// Length of the byte order mark.
    mark: u64,
}

impl Lines<'_> {
    /// Returns the line in which a record begins. The position of a record is that of the end of the line before it, or
    /// of the empty lines before it.
    fn of(&self, position: &csv::Position) -> u64 {
        let (mut line, mut at) = (position.line(), position.byte() + self.mark);
        let mut buffer = [0; 4096];
        loop {
            let read = self.file.read_at(&mut buffer, at).unwrap_or_default();
            for byte in &buffer[..read] {
                match byte {
                    b'\n' => line += 1,
                    b'\r' => {}
                    _ => return line,
                }
            }
            if read == 0 {
                return line;
            }
            at += read as u64;
        }
    }

    /// Returns an error of a record.
    fn error(&self, record: &ByteRecord, error: impl std::fmt::Display) -> Error {
        at_line(record.position().map_or(0, |position| self.of(position)), error)
    }

    /// Returns a column of a record as text.
    fn text<'r>(&self, record: &'r ByteRecord, column: usize, name: &str) -> Result<&'r str> {
        std::str::from_utf8(record.get(column).unwrap_or_default()).map_err(|_| {
            self.error(record, format_args!("the value of the column `{name}` is not UTF-8"))
        })
    }

    /// Returns the names of the columns.
    fn columns(&self, record: &ByteRecord) -> Result<Vec<String>> {
        if record.len() > MAX_COLUMNS {
            return Err(self.error(record, format_args!("more than {MAX_COLUMNS} columns")));
        }
        let mut columns: Vec<String> = Vec::with_capacity(record.len());
        for column in 0..record.len() {
            let name = self.text(record, column, &(column + 1).to_string())?;
            if columns.iter().any(|column| column == name) {
                let message = format_args!("the column `{name}` appears twice: rename one");
                return Err(self.error(record, message));
            }
            columns.push(name.to_owned());
        }
        Ok(columns)
    }
}

fn csv(
    mut reader: impl BufRead,
    file: &File,
    since_row: &Cell<usize>,
    config: &TableConfig,
    mut builder: Builder,
) -> Result<Table> {
    let lines = Lines { file, mark: skip_mark(&mut reader)? };
    let reader = Quotes::new(reader, config.delimiter);
    let mut options = csv::ReaderBuilder::new();
    let mut reader = options.delimiter(config.delimiter).has_headers(false).from_reader(reader);
    let mut record = ByteRecord::new();
    let mut next = |record: &mut ByteRecord| -> Result<bool> {
        since_row.set(0);
        let position = reader.position().clone();
        reader.read_byte_record(record).map_err(|error| {
            if let Some(mistake) = Mistake::of(&error) {
                return Error::configuration(mistake);
            }
            let line = lines.of(&position);
            match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => at_line(
                    line,
                    format_args!(
                        "expected {expected_len} values, as in the first line, found {len}"
                    ),
                ),
                _ => at_line(line, error),
            }
        })
    };
    if !next(&mut record)? {
        return Err(empty());
    }
    let columns = lines.columns(&record)?;
    columns.iter().try_for_each(|name| builder.count_column(name))?;
    let find = |key: &str, name: &str| {
        let found = columns.iter().position(|column| column == name);
        found.ok_or_else(|| no_column(key, name, &columns))
    };
    let key = config.column.as_deref().map_or(Ok(0), |name| find("match", name))?;
    let taken: Vec<usize> = match &config.fields {
        Some(fields) => fields.iter().map(|name| find("fields", name)).collect::<Result<_>>()?,
        None => (0..columns.len()).filter(|column| *column != key).collect(),
    };
    let mut values = Vec::new();
    while next(&mut record)? {
        values.clear();
        put_number(taken.len(), &mut values);
        for column in &taken {
            put_number(*column, &mut values);
            put_text(lines.text(&record, *column, &columns[*column])?, &mut values);
        }
        let key = lines.text(&record, key, &columns[key])?;
        builder.add(key, &values).map_err(|error| {
            let line = record.position().map_or(0, |position| lines.of(position));
            error.context(format_args!("line {line}"))
        })?;
    }
    builder.build(columns)
}

/// Names of columns and their numbers, in the order in which they were found.
#[derive(Default)]
struct Columns(HashMap<String, usize>);

impl Columns {
    /// Returns the number of a column. A new column is counted as memory of the table.
    ///
    /// # Errors
    /// The table has too many columns, or their names take too much memory.
    fn number(&mut self, name: &str, builder: &mut Builder) -> Result<usize> {
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        let number = self.0.len();
        if number == MAX_COLUMNS {
            return Err(Error::configuration(format_args!("more than {MAX_COLUMNS} columns")));
        }
        builder.count_column(name)?;
        self.0.insert(name.to_owned(), number);
        Ok(number)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the names by their numbers.
    fn into_names(self) -> Vec<String> {
        let mut names: Vec<_> = self.0.into_iter().collect();
        names.sort_unstable_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

fn json_lines(
    mut reader: impl BufRead,
    since_row: &Cell<usize>,
    config: &TableConfig,
    mut builder: Builder,
) -> Result<Table> {
    skip_mark(&mut reader)?;
    let mut columns = Columns::default();
    let mut key_column = config.column.clone();
    let (mut bytes, mut values, mut row) = (Vec::new(), Vec::new(), Vec::new());
    let mut line = 0;
    loop {
        since_row.set(0);
        bytes.clear();
        line += 1;
        if reader.read_until(b'\n', &mut bytes).map_err(|error| at_line(line, error))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            at_line(line, format_args!("not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        if text.trim_ascii().is_empty() {
            continue;
        }
        let fields = fields(text)
            .map_err(|error| at_line(line, format_args!("expected a JSON object: {error}")))?;
        if key_column.is_none() {
            key_column = fields.first().map(|(name, _)| name.clone());
        }
        let key_column = key_column.as_deref().unwrap_or_default();
        let (mut key, mut count) = (None, 0);
        values.clear();
        for (name, value) in &fields {
            let is_key = name == key_column;
            if is_key {
                key = Some(key_text(value).ok_or_else(|| {
                    at_line(line, format_args!("`{name}` is not a text or a number"))
                })?);
            }
            let number = columns
                .number(name, &mut builder)
                .map_err(|error| error.context(format_args!("line {line}")))?;
            if config.fields.as_ref().map_or(!is_key, |taken| taken.contains(name)) {
                put_number(number, &mut values);
                put_json(value, 1, &mut values)
                    .map_err(|error| at_line(line, format_args!("`{name}`: {error}")))?;
                count += 1;
            }
        }
        let Some(key) = key else {
            return Err(at_line(line, format_args!("the row has no field `{key_column}`")));
        };
        row.clear();
        put_number(count, &mut row);
        row.extend_from_slice(&values);
        builder.add(&key, &row).map_err(|error| error.context(format_args!("line {line}")))?;
    }
    let missing = config.fields.iter().flatten().find(|name| !columns.has(name));
    let names = columns.into_names();
    match missing {
        _ if names.is_empty() => Err(empty()),
        Some(name) => Err(no_column("fields", name, &names)),
        None => builder.build(names),
    }
}

/// Returns the text of a key in JSON, or `None` if the key is not a text or a number.
fn key_text(json: &str) -> Option<String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).ok(),
        Some(b'-' | b'0'..=b'9') => Some(json.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
