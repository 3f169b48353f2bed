//! The configuration of codecs, as it stands in a flow.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tremor_abi::document::MAX_DEPTH;

use super::{Error, ErrorKind, csv, json, msgpack};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct JsonOptions {
    sorted_keys: bool,
    big_integers: BigIntegers,
    max_depth: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self { sorted_keys: false, big_integers: BigIntegers::Error, max_depth: MAX_DEPTH }
    }
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum BigIntegers {
    Error,
    Float,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MsgpackOptions {
    max_depth: usize,
}

impl Default for MsgpackOptions {
    fn default() -> Self {
        Self { max_depth: MAX_DEPTH }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CsvOptions {
    delimiter: String,
    quote: Option<String>,
    headers: Option<Vec<String>>,
    numbers: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: ",".into(), quote: Some("\"".into()), headers: None, numbers: false }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NoOptions {}

pub(super) fn json(config: &Value) -> Result<(json::DecodeOptions, json::EncodeOptions), Error> {
    let options: JsonOptions =
        parse("json", &["sorted_keys", "big_integers", "max_depth"], config)?;
    let decode = json::DecodeOptions {
        max_depth: depth("json", options.max_depth)?,
        big_integers_as_floats: options.big_integers == BigIntegers::Float,
    };
    Ok((decode, json::EncodeOptions { sorted_keys: options.sorted_keys }))
}

pub(super) fn msgpack(config: &Value) -> Result<msgpack::DecodeOptions, Error> {
    let options: MsgpackOptions = parse("msgpack", &["max_depth"], config)?;
    Ok(msgpack::DecodeOptions { max_depth: depth("msgpack", options.max_depth)? })
}

pub(super) fn csv(config: &Value) -> Result<csv::Options, Error> {
    let given: CsvOptions = parse("csv", &["delimiter", "quote", "headers", "numbers"], config)?;
    let one = |name: &str, text: &str| match *text.as_bytes() {
        [byte] => Ok(byte),
        _ => Err(wrong("csv", &format!("`{name}` must be one ASCII character, not {text:?}"))),
    };
    let options = csv::Options {
        delimiter: one("delimiter", &given.delimiter)?,
        quote: given.quote.map(|quote| one("quote", &quote)).transpose()?,
        headers: given.headers,
        numbers: given.numbers,
    };
    options.check().map_err(|error| wrong("csv", &error))?;
    Ok(options)
}

pub(super) fn none(codec: &str, config: &Value) -> Result<(), Error> {
    parse(codec, &[], config).map(|NoOptions {}| ())
}

fn parse<T: DeserializeOwned + Default>(
    codec: &str,
    known: &[&str],
    config: &Value,
) -> Result<T, Error> {
    if config.is_null() {
        return Ok(T::default());
    }
    let Value::Object(options) = config else {
        return Err(wrong(codec, "the options must be a map"));
    };
    if let Some(unknown) = options.keys().find(|option| !known.contains(&option.as_str())) {
        let help = match (near(unknown, known), known) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, []) => "it takes none".to_owned(),
            (None, known) => format!("it takes {}", known.join(", ")),
        };
        return Err(wrong(codec, &format!("unknown option `{unknown}`: {help}")));
    }
    T::deserialize(config).map_err(|error| wrong(codec, &error.to_string()))
}

fn depth(codec: &str, max_depth: usize) -> Result<usize, Error> {
    if (1..=MAX_DEPTH).contains(&max_depth) {
        return Ok(max_depth);
    }
    Err(wrong(codec, &format!("`max_depth` must be from 1 to {MAX_DEPTH}, not {max_depth}")))
}

fn wrong(codec: &str, what: &str) -> Error {
    Error::new(ErrorKind::Configuration, format!("codec `{codec}`: {what}"))
}

/// The known name that somebody who wrote `name` may have meant.
pub(super) fn near<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let score = |known: &str| strsim::jaro_winkler(name, known);
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.8).then_some(best)
}
