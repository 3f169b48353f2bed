//! Finding of texts.

mod address;
mod card;
mod iban;

use std::ops::Range;

use regex::Regex;
use tremor_pdk::{Error, Result};

/// A kind of text.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// E-mail addresses.
    Email,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Numbers of payment cards with a valid check digit.
    CreditCard,
    /// International bank account numbers with valid check digits.
    Iban,
    /// Tokens that follow the word `Bearer`.
    BearerToken,
    /// JSON Web Tokens.
    Jwt,
}

/// Finds texts of one kind.
pub(crate) enum Finder {
    /// A regular expression.
    Regex(Regex),
    /// A regular expression of which only the first group is found.
    Group(Regex),
    /// E-mail addresses; texts without these characters contain none.
    Email(Regex),
    Ipv4,
    Ipv6,
    Card,
    Iban,
}

/// An e-mail address, also with the `@` of a URL. The part before the `@` begins with a letter or a digit, so that a
/// quote before the address is not a part of it.
const EMAIL: &str = r"(?x) [\p{L}\p{N}_] [\p{L}\p{M}\p{N}._%+'\&-]* (?:@|%40)
    [\p{L}\p{N}] [\p{L}\p{M}\p{N}-]* (?: \. [\p{L}\p{N}] [\p{L}\p{M}\p{N}-]* )+";

const BEARER: &str = r"(?i)(?-u:\b)bearer(?:[ \t]+|%20|\+)([A-Za-z0-9._~+/-]+=*)";

const JWT: &str = r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*";

impl Finder {
    pub(crate) fn of(pattern: Pattern) -> Result<Self> {
        let regex = |pattern| Regex::new(pattern).map_err(Error::internal);
        Ok(match pattern {
            Pattern::Email => Self::Email(regex(EMAIL)?),
            Pattern::Ipv4 => Self::Ipv4,
            Pattern::Ipv6 => Self::Ipv6,
            Pattern::CreditCard => Self::Card,
            Pattern::Iban => Self::Iban,
            Pattern::BearerToken => Self::Group(regex(BEARER)?),
            Pattern::Jwt => Self::Regex(regex(JWT)?),
        })
    }

    /// Compiles a regular expression of the configuration.
    ///
    /// # Errors
    /// The expression is invalid, too large, or matches the empty text.
    pub(crate) fn of_regex(pattern: &str) -> Result<Self> {
        let parsed = regex_syntax::parse(pattern).map_err(Error::configuration)?;
        if parsed.properties().minimum_len() == Some(0) {
            return Err(Error::configuration(format_args!(
                "the expression `{pattern}` matches the empty text: write `+` instead of `*`"
            )));
        }
        Regex::new(pattern).map(Self::Regex).map_err(Error::configuration)
    }

    /// Returns the range of the first text in `text` that begins at byte `from` or later. The range is never empty.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        match self {
            Self::Regex(regex) => regex.find_at(text, from).map(|found| found.range()),
            Self::Group(regex) => regex.captures_at(text, from)?.get(1).map(|found| found.range()),
            Self::Email(regex) => {
                memchr::memchr2(b'@', b'%', &text.as_bytes()[from..])?;
                regex.find_at(text, from).map(|found| found.range())
            }
            Self::Ipv4 => address::find_ipv4(text.as_bytes(), from),
            Self::Ipv6 => address::find_ipv6(text, from),
            Self::Card => card::find(text.as_bytes(), from),
            Self::Iban => iban::find(text.as_bytes(), from),
        }
    }
}

#[cfg(test)]
mod tests;
