//! The configuration.

use tremor_pdk::{Error, Field, Result};

use crate::{
    change::{Change, Mask},
    pattern::{Finder, Pattern},
    rule::Rule,
};

/// Minimum length of the key of a keyed hash, in bytes. Whoever can guess the key can find the text of a hash.
const MIN_KEY: usize = 16;

/// The rules, and the key of keyed hashes.
#[tremor_pdk::config]
pub struct Config {
    /// Secret of at least 16 bytes, for `hash: hmac_sha256`.
    #[schemars(extend("writeOnly" = true))]
    pub key: Option<String>,
    /// Rules, which are applied in this order.
    pub rules: Vec<RuleConfig>,
}

/// A rule: the texts that are found, and what replaces them. At most one of `replace`, `mask` and `hash` is set.
#[tremor_pdk::config]
pub struct RuleConfig {
    /// Fields that are redacted. An array or an object stands for all texts and numbers in it, and `.` for all texts and
    /// numbers of the event. A path that starts with `%` is a field of the metadata.
    pub fields: Vec<Field>,
    /// Kinds of texts that are found in the fields. Without `patterns` and `regex`, the whole fields are redacted.
    pub patterns: Option<Vec<Pattern>>,
    /// Regular expressions whose matches are found in the fields.
    pub regex: Option<Vec<String>>,
    /// Text that replaces each text that is found. Default: `[redacted]`.
    pub replace: Option<String>,
    /// Replaces characters of each text that is found.
    pub mask: Option<Mask>,
    /// Replaces each text that is found by its hash, in hexadecimal digits.
    pub hash: Option<Hash>,
    /// Treatment of events that lack one of the fields.
    #[serde(default)]
    pub missing: Missing,
}

/// A hash function.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Hash {
    /// SHA-256. Texts that can be guessed, such as addresses, can be found by trying them.
    Sha256,
    /// HMAC-SHA-256 with the secret `key`.
    HmacSha256,
}

/// Treatment of events that lack one of the fields.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// The other fields are redacted.
    #[default]
    Skip,
    /// The event leaves by `err`, after the other fields were redacted.
    Err,
}

impl Config {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Names the rule, the key and the mistake. No error contains the secret.
    pub(crate) fn compile(&self) -> Result<Vec<Rule>> {
        if self.rules.is_empty() {
            return Err(Error::configuration("`rules`: expected at least one rule, found none"));
        }
        let is_keyed = self.rules.iter().any(|rule| rule.hash == Some(Hash::HmacSha256));
        match &self.key {
            None if is_keyed => {
                return Err(Error::configuration(
                    "`hash: hmac_sha256` needs a secret: set `key`, for example to `${file:/etc/tremor/redact.key}`",
                ));
            }
            Some(key) if key.len() < MIN_KEY => {
                return Err(Error::configuration(format_args!(
                    "invalid `key`: expected at least {MIN_KEY} bytes, found {}; create one with `openssl rand -hex 32`",
                    key.len()
                )));
            }
            Some(_) if !is_keyed => {
                return Err(Error::configuration(
                    "`key` has no effect: set `hash: hmac_sha256` in a rule, or remove `key`",
                ));
            }
            _ => {}
        }
        let rules = self.rules.iter().enumerate().map(|(number, rule)| {
            rule.compile(self.key.as_deref())
                .map_err(|error| error.context(format_args!("`rules[{number}]`")))
        });
        rules.collect()
    }
}

impl RuleConfig {
    fn compile(&self, key: Option<&str>) -> Result<Rule> {
        if self.fields.is_empty() {
            return Err(Error::configuration(
                "`fields`: expected at least one field, found none; `.` stands for the whole event",
            ));
        }
        for (name, is_empty) in [
            ("patterns", self.patterns.as_ref().is_some_and(Vec::is_empty)),
            ("regex", self.regex.as_ref().is_some_and(Vec::is_empty)),
        ] {
            if is_empty {
                return Err(Error::configuration(format_args!(
                    "`{name}` is empty: add an element, or remove the key to redact the whole fields"
                )));
            }
        }
        let mut finders = Vec::new();
        for pattern in self.patterns.iter().flatten() {
            finders.push(Finder::of(*pattern)?);
        }
        for (number, regex) in self.regex.iter().flatten().enumerate() {
            let finder = Finder::of_regex(regex)
                .map_err(|error| error.context(format_args!("`regex[{number}]`")))?;
            finders.push(finder);
        }
        let change = match (&self.replace, self.mask, self.hash) {
            (None, None, None) => Change::replace("[redacted]"),
            (Some(text), None, None) => Change::replace(text),
            (None, Some(mask), None) => Change::Mask(mask),
            (None, None, Some(Hash::Sha256)) => Change::Sha256,
            (None, None, Some(Hash::HmacSha256)) => Change::hmac(key.unwrap_or_default())?,
            _ => {
                return Err(Error::configuration(
                    "expected at most one of `replace`, `mask` and `hash`, found several",
                ));
            }
        };
        Ok(Rule {
            fields: self.fields.clone(),
            finders,
            change,
            rejects: self.missing == Missing::Err,
        })
    }
}
