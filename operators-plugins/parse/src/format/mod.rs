//! The formats, and the parser of each.

mod apache;
mod csv;
mod grok;
mod json;
mod key_value;
mod nginx;
mod pattern;
mod request;
mod strptime;
mod timestamp;
mod url;
mod zone;

#[cfg(test)]
mod properties;

use tremor_pdk::{Result, Writer};

use self::{
    csv::Csv, grok::Grok, json::Json, key_value::KeyValue, pattern::Pattern, timestamp::Timestamp,
    url::Query, zone::Zone,
};
use crate::{
    config::{Config, Format},
    stop::Stop,
    types::Types,
};

/// A parser of a format, with its options.
#[derive(Debug)]
pub(crate) enum Parser {
    KeyValue(KeyValue),
    NginxCombined,
    NginxError(Zone),
    Apache { is_combined: bool },
    Regex(Pattern),
    Json(Json),
    Csv(Csv),
    Timestamp(Timestamp),
    Url,
    Query(Query),
    Grok(Grok),
}

impl Parser {
    /// Creates the parser for a configuration.
    ///
    /// # Errors
    /// An option of the format is invalid or missing.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        Ok(match config.format {
            Format::KeyValue => Self::KeyValue(KeyValue::new(config)?),
            Format::NginxCombined => Self::NginxCombined,
            Format::NginxError => Self::NginxError(Zone::new(config.timezone.as_deref())?),
            Format::ApacheCommon => Self::Apache { is_combined: false },
            Format::ApacheCombined => Self::Apache { is_combined: true },
            Format::Regex => Self::Regex(Pattern::new(config)?),
            Format::Json => Self::Json(Json::default()),
            Format::Csv => Self::Csv(Csv::new(config)?),
            Format::Timestamp => Self::Timestamp(Timestamp::new(config)?),
            Format::Url => Self::Url,
            Format::Query => Self::Query(Query::new(Types::new(config.types.as_ref()))),
            Format::Grok => Self::Grok(Grok::new(config)?),
        })
    }

    /// Returns whether the format also accepts a value that is a number.
    pub(crate) fn takes_numbers(&self) -> bool {
        matches!(self, Self::Timestamp(_))
    }

    /// Writes the value of a text. `now` is the time of the event, in ns since the Unix epoch.
    ///
    /// # Errors
    /// The text does not have the format. The written value is then incomplete.
    #[inline]
    pub(crate) fn write(
        &mut self,
        text: &str,
        now: u64,
        out: &mut Writer<'_>,
    ) -> std::result::Result<(), Stop> {
        match self {
            Self::Json(json) => return json.value(text, out),
            Self::Csv(csv) => return csv.value(text, out),
            Self::Timestamp(timestamp) => return timestamp.value(text, now, out),
            _ => out.begin_object(),
        }
        match self {
            Self::KeyValue(pairs) => pairs.pairs(text, out)?,
            Self::NginxCombined => nginx::combined(text, out)?,
            Self::NginxError(zone) => nginx::error(text, zone, out)?,
            Self::Apache { is_combined } => apache::access(text, *is_combined, out)?,
            Self::Regex(pattern) => pattern.pairs(text, out)?,
            Self::Url => url::parts(text, out)?,
            Self::Query(query) => query.pairs(text, 0, out)?,
            Self::Grok(grok) => grok.pairs(text, out)?,
            Self::Json(_) | Self::Csv(_) | Self::Timestamp(_) => {}
        }
        out.end_object();
        Ok(())
    }
}
