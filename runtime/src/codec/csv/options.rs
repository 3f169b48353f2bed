//! Options of the CSV codec.

use serde::{Deserialize, Deserializer, de::Error as _};
use tremor_pdk::{Error, Result};

/// Format of records. The [module](super) describes the options.
#[tremor_pdk::config]
#[derive(Clone, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct Options {
    /// Separator of the fields, one ASCII character.
    #[serde(deserialize_with = "ascii")]
    #[schemars(with = "char")]
    pub delimiter: u8,
    /// Quotation mark of fields, one ASCII character, or `null` for none.
    #[serde(deserialize_with = "ascii_or_null")]
    #[schemars(with = "Option<char>")]
    pub quote: Option<u8>,
    /// Names of the fields, in order; without names, records are arrays.
    pub headers: Option<Vec<String>>,
    /// `true` if unquoted fields may be numbers.
    pub numbers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), headers: None, numbers: false }
    }
}

impl Options {
    /// Returns the options if they are consistent.
    ///
    /// # Errors
    /// Returns an error of kind "configuration" that names the option, the expected value and the found value.
    pub(crate) fn checked(self) -> Result<Self> {
        let wrong = |what: std::fmt::Arguments<'_>| Err(Error::configuration(what));
        check_separators(self.delimiter, self.quote)?;
        let headers = self.headers.as_deref().unwrap_or_default();
        if self.headers.is_some() && headers.is_empty() {
            return wrong(format_args!(
                "`headers`: expected at least one name, found none; omit `headers` for arrays"
            ));
        }
        let twice = (1..headers.len()).find(|at| headers[..*at].contains(&headers[*at]));
        match twice {
            Some(at) => wrong(format_args!(
                "`headers`: expected different names, found {:?} twice",
                headers[at]
            )),
            None => Ok(self),
        }
    }
}

/// Checks that the characters of a format do not end a line and are different.
///
/// # Errors
/// Returns an error of kind "configuration" that names the option, the expected value and the found value.
pub(crate) fn check_separators(delimiter: u8, quote: Option<u8>) -> Result<()> {
    let wrong = |what: std::fmt::Arguments<'_>| Err(Error::configuration(what));
    for (name, byte) in [("delimiter", Some(delimiter)), ("quote", quote)] {
        if let Some(byte @ (b'\r' | b'\n')) = byte {
            return wrong(format_args!(
                "`{name}`: expected a character that does not end a line, found {:?}",
                char::from(byte)
            ));
        }
    }
    if quote == Some(delimiter) {
        return wrong(format_args!(
            "`quote`: expected a character other than `delimiter`, found {:?}",
            char::from(delimiter)
        ));
    }
    Ok(())
}

pub(crate) fn ascii<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    ascii_or_null(deserializer)?.ok_or_else(|| D::Error::custom("expected one ASCII character"))
}

pub(crate) fn ascii_or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u8>, D::Error> {
    let read = |found: char| {
        u8::try_from(found).ok().filter(u8::is_ascii).ok_or_else(|| {
            D::Error::custom(format_args!("expected one ASCII character, found {found:?}"))
        })
    };
    Option::<char>::deserialize(deserializer)?.map(read).transpose()
}
