//! Helpers for tests.

use tremor_pdk::{Batch, Error, Writer};

use crate::{config::Config, format::Parser, stop::Stop};

/// Returns the parser of a configuration, or the message of its error.
pub(crate) fn try_parser(config: serde_json::Value) -> Result<Parser, String> {
    let config: Config = serde_json::from_value(config).unwrap();
    Parser::new(&config).map_err(|error| error.to_string())
}

/// Returns the parser of a valid configuration.
pub(crate) fn parser(config: serde_json::Value) -> Parser {
    try_parser(config).unwrap()
}

/// Returns the value that `write` writes, as JSON.
pub(crate) fn written(
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Stop>,
) -> Result<String, Stop> {
    let mut batch = Batch::new();
    batch.push(&()).unwrap();
    let (mut stopped, mut event) = (None, batch.last_mut().unwrap());
    let result = event.write_value(|out| {
        write(out).map_err(|stop| {
            stopped = Some(stop);
            Error::bad_data("stopped")
        })
    });
    match (stopped, result) {
        (Some(stop), _) => Err(stop),
        (None, Err(error)) => Err(Stop::new(0, error.to_string())),
        (None, Ok(())) => Ok(batch.first().unwrap().value().unwrap().to_string()),
    }
}

/// Returns the value to which a parser converts a text, as JSON, or the message of its error.
pub(crate) fn parsed(parser: &mut Parser, text: &str) -> Result<String, String> {
    written(|out| parser.write(text, 0, out)).map_err(|stop| stop.describe(text))
}
