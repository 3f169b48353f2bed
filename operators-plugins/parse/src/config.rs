//! The configuration and its checks.

use std::collections::BTreeMap;

use tremor_pdk::{Error, Field, Insertion, Part, Result};

use crate::{field::name, types::Type};

/// The format of the text, its field, and the target of the result.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Format of the text.
    pub format: Format,
    /// Field with the text. Default: the whole payload.
    #[serde(default)]
    pub field: String,
    /// Field to which the result is written. `.` adds the fields of the result to the event, or
    /// replaces the payload if the text is the whole payload. Default: `.`, or the field of the
    /// text if the result is not an object.
    pub target: Option<String>,
    /// `true` to keep the field with the text. Otherwise the field is removed after its text was
    /// parsed.
    #[serde(default)]
    pub keep_field: bool,
    /// Treatment of events whose text does not have the format.
    #[serde(default)]
    pub on_error: OnError,
    /// Types of the fields of the result by their names, for the formats `key_value`, `regex`,
    /// `grok`, `csv` and `query`. Default: text.
    pub types: Option<BTreeMap<String, Type>>,
    /// Regular expression of the format `regex`, with a named group for each field; or pattern of the format `grok`.
    pub pattern: Option<String>,
    /// Additional patterns by their names, for the format `grok`.
    pub definitions: Option<BTreeMap<String, String>>,
    /// Text between a key and its value, for the format `key_value`. Default: `=`.
    pub key_value_delimiter: Option<String>,
    /// Text between two pairs, for the format `key_value`. Default: a space, which may be repeated.
    pub field_delimiter: Option<String>,
    /// For the format `key_value`: `true` if a key without a value becomes a field with the value
    /// `true`. Otherwise such a key is an error. Default: `true`.
    pub accept_standalone_key: Option<bool>,
    /// Character between two values, for the format `csv`. Default: `,`.
    pub delimiter: Option<String>,
    /// Names of the values, for the format `csv`. Default: the result is an array.
    pub columns: Option<Vec<String>>,
    /// Form of the text for the format `timestamp`: a format of `strptime`, such as
    /// `%d/%b/%Y:%H:%M:%S %z`, or `rfc3339`, `rfc2822`, `unix`, `unix_ms`, `unix_us` or `unix_ns`.
    /// Default: `rfc3339`.
    pub time_format: Option<String>,
    /// Time zone of times that do not name their zone, such as `Europe/Berlin`, for the formats
    /// `timestamp` and `nginx_error`. `local` is the zone of the machine. Default: `UTC`.
    pub timezone: Option<String>,
    /// Form of the result for the format `timestamp`. Default: `rfc3339`.
    pub output: Option<TimeOutput>,
}

/// The format of a text.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Pairs of a key and a value, such as `level=warn msg="no space left"`.
    KeyValue,
    /// Access log of nginx in the format `combined`.
    NginxCombined,
    /// Error log of nginx.
    NginxError,
    /// Access log of Apache in the format `common`.
    ApacheCommon,
    /// Access log of Apache in the format `combined`.
    ApacheCombined,
    /// Text that a regular expression matches.
    Regex,
    /// A value of JSON.
    Json,
    /// A record of comma-separated values.
    Csv,
    /// A time.
    Timestamp,
    /// An absolute URL.
    Url,
    /// The query of a URL, such as `a=1&b=two+words`.
    Query,
    /// Text that a grok pattern matches.
    Grok,
}

impl Format {
    /// Returns the name of the format in a configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KeyValue => "key_value",
            Self::NginxCombined => "nginx_combined",
            Self::NginxError => "nginx_error",
            Self::ApacheCommon => "apache_common",
            Self::ApacheCombined => "apache_combined",
            Self::Regex => "regex",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Timestamp => "timestamp",
            Self::Url => "url",
            Self::Query => "query",
            Self::Grok => "grok",
        }
    }
}

/// Treatment of events whose text does not have the format.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The event leaves by `err`.
    #[default]
    Err,
    /// The event passes with its payload unchanged, and with the error in the metadata `%parse.error`.
    Pass,
}

/// Form of a time.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TimeOutput {
    /// Text such as `2024-07-15T16:24:59Z`, in UTC.
    #[default]
    Rfc3339,
    /// Seconds since the Unix epoch, without the fraction.
    Unix,
    /// Milliseconds since the Unix epoch, without the fraction.
    UnixMs,
    /// Microseconds since the Unix epoch, without the fraction.
    UnixUs,
    /// Nanoseconds since the Unix epoch.
    UnixNs,
}

impl Config {
    /// Checks that all keys belong to the format.
    pub(crate) fn check(&self) -> Result<()> {
        use Format::{Csv, Grok, KeyValue, NginxError, Query, Regex, Timestamp};
        let keys: [(&str, bool, &[Format]); 11] = [
            ("types", self.types.is_some(), &[KeyValue, Regex, Grok, Csv, Query]),
            ("pattern", self.pattern.is_some(), &[Regex, Grok]),
            ("definitions", self.definitions.is_some(), &[Grok]),
            ("key_value_delimiter", self.key_value_delimiter.is_some(), &[KeyValue]),
            ("field_delimiter", self.field_delimiter.is_some(), &[KeyValue]),
            ("accept_standalone_key", self.accept_standalone_key.is_some(), &[KeyValue]),
            ("delimiter", self.delimiter.is_some(), &[Csv]),
            ("columns", self.columns.is_some(), &[Csv]),
            ("time_format", self.time_format.is_some(), &[Timestamp]),
            ("timezone", self.timezone.is_some(), &[Timestamp, NginxError]),
            ("output", self.output.is_some(), &[Timestamp]),
        ];
        for (key, is_set, formats) in keys {
            if is_set && !formats.contains(&self.format) {
                let names: Vec<_> =
                    formats.iter().map(|format| format!("`{}`", format.name())).collect();
                return Err(Error::configuration(format_args!(
                    "`{key}` does not apply to `format: {}`, but to {}: remove it, or change `format`",
                    self.format.name(),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Returns whether the result is never an object.
    fn is_scalar(&self) -> bool {
        match self.format {
            Format::Csv => self.columns.is_none(),
            Format::Timestamp => true,
            _ => false,
        }
    }

    /// Returns the field with the text, and the position to which the result is written. Without a position, the result
    /// replaces the payload.
    ///
    /// # Errors
    /// A path is invalid, or two keys contradict each other.
    pub(crate) fn fields(&self) -> Result<(Field, Option<Insertion>)> {
        let is_in_metadata = |field: &Field| field.part() == Part::Metadata;
        let field = Field::of_key("field", &self.field)?;
        let target = match &self.target {
            Some(target) => Field::of_key("target", target)?,
            None if self.is_scalar() && !is_in_metadata(&field) => field.clone(),
            None => Field::of_key("target", ".")?,
        };
        if is_in_metadata(&target) {
            return Err(Error::configuration(format_args!(
                "invalid `target` {}: expected a field of the payload",
                name(&target)
            )));
        }
        if self.keep_field && (field.is_payload() || is_in_metadata(&field)) {
            return Err(Error::configuration(
                "`keep_field` applies only to a `field` of the payload: set `field`, or remove `keep_field`",
            ));
        }
        if field.is_payload() && target.is_payload() {
            return Ok((field, None));
        }
        if self.is_scalar() && target.is_payload() {
            return Err(Error::configuration(format_args!(
                "`format: {}` has no fields to add to the event: set `target` to a field{}",
                self.format.name(),
                if self.format == Format::Csv { ", or set `columns`" } else { "" }
            )));
        }
        let is_removed = !self.keep_field && !field.is_payload() && !is_in_metadata(&field);
        let removed = is_removed.then(|| field.path());
        let insertion = Insertion::new(target.path(), removed).map_err(|error| {
            Error::configuration(format_args!("invalid `field` or `target`: {error}"))
        })?;
        Ok((field, Some(insertion)))
    }
}
