//! The configuration and its checks.

use std::path::Path;

use tremor_pdk::{Error, Result, units::Size};

/// Memory of a table unless `max_memory` is set.
const MAX_MEMORY: Size = Size::of_bytes(256 << 20);

/// The table, the field with the key, and the target of the fields.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// File with the table, relative to the flow file. It is read again after it has changed.
    #[schemars(extend("x-file" = "read"))]
    pub file: String,
    /// Format of the file. Default: `csv` for the extension `csv`, `json_lines` for `jsonl` and `ndjson`, and `maxmind`
    /// for `mmdb`.
    pub format: Option<Format>,
    /// Character between two values of a line, for the format `csv`. Default: `,`.
    pub delimiter: Option<String>,
    /// Column of the table that contains the keys. Default: the first column.
    #[serde(rename = "match")]
    pub column: Option<String>,
    /// Comparison of the key of an event with the keys of the table.
    #[serde(default)]
    pub by: By,
    /// Field with the key of the event, a text or a number. A path that starts with `%` is a field of the metadata.
    pub key: String,
    /// Field to which an object with the fields of the row is written. `.` adds the fields to the event.
    pub into: String,
    /// Columns that are written. Default: all columns except for the one with the keys. For a database of MaxMind: paths
    /// such as `country.iso_code`. Default: the whole record.
    pub fields: Option<Vec<String>>,
    /// Treatment of events whose key matches no row.
    #[serde(default)]
    pub missing: Missing,
    /// Maximum memory of the table, in bytes.
    #[serde(default = "max_memory")]
    pub max_memory: Size,
}

/// The format of the file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
    /// A JSON object on each line.
    JsonLines,
    /// A database of MaxMind, such as `GeoLite2`: records of IP networks. The key is an IP address.
    Maxmind,
}

/// Comparison of the key of an event with the keys of the table.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The key of the event equals the key of the row.
    #[default]
    Exact,
    /// The key of the event is an IP address within the network of the row. The row with the smallest network counts.
    Cidr,
    /// The key of the event begins with the key of the row. The row with the longest key counts.
    Prefix,
}

/// Treatment of events whose key matches no row.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// The event passes unchanged.
    #[default]
    Skip,
    /// The event leaves by `err`.
    Err,
    /// These fields are written in place of those of a row.
    Default(serde_json::Map<String, serde_json::Value>),
}

/// The part of the configuration that determines the contents of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableConfig {
    pub(crate) format: Format,
    pub(crate) delimiter: u8,
    pub(crate) column: Option<String>,
    pub(crate) by: By,
    pub(crate) fields: Option<Vec<String>>,
    pub(crate) max_memory: usize,
}

fn max_memory() -> Size {
    MAX_MEMORY
}

impl Config {
    /// Returns the part of the configuration that determines the contents of the table.
    ///
    /// # Errors
    /// A value is invalid.
    pub(crate) fn table(&self) -> Result<TableConfig> {
        let format = self.format()?;
        if format == Format::Maxmind {
            for (key, is_set) in [("match", self.column.is_some()), ("by", self.by != By::Exact)] {
                if is_set {
                    return Err(Error::configuration(format_args!(
                        "`{key}` does not apply to `format: maxmind`, whose keys are networks: remove it"
                    )));
                }
            }
        }
        let delimiter = match (&self.delimiter, format) {
            (None, _) => b',',
            (Some(_), Format::JsonLines | Format::Maxmind) => {
                return Err(Error::configuration(
                    "`delimiter` applies only to `format: csv`: remove it, or change `format`",
                ));
            }
            (Some(text), Format::Csv) => match *text.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => byte,
                _ => {
                    return Err(Error::configuration(format_args!(
                        "invalid `delimiter` {text:?}: expected one ASCII character other than `\"` and the end of a \
                         line"
                    )));
                }
            },
        };
        if let Some(fields) = &self.fields {
            if fields.is_empty() {
                return Err(Error::configuration(
                    "`fields` is empty: add a column, or remove the key",
                ));
            }
            if let Some(twice) = (1..fields.len()).find(|at| fields[..*at].contains(&fields[*at])) {
                return Err(Error::configuration(format_args!(
                    "invalid `fields`: `{}` appears twice; remove one of them",
                    fields[twice]
                )));
            }
        }
        Ok(TableConfig {
            format,
            delimiter,
            column: self.column.clone(),
            by: self.by,
            fields: self.fields.clone(),
            max_memory: self.max_memory.in_memory(),
        })
    }

    fn format(&self) -> Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let extension = Path::new(&self.file).extension().and_then(|it| it.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "ndjson") => Ok(Format::JsonLines),
            Some("mmdb") => Ok(Format::Maxmind),
            _ => Err(Error::configuration(format_args!(
                "the extension of `file` `{}` is not `csv`, `jsonl`, `ndjson` or `mmdb`: set `format` to `csv`, `json_lines` or \
                 `maxmind`",
                self.file
            ))),
        }
    }
}
