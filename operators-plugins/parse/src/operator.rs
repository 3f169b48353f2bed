//! The operator that applies a parser to batches.

use std::borrow::Cow;

use tremor_pdk::{EventMut, EventRef, Field, Insertion, Path, Shape, Value, prelude::*};

use crate::{
    config::{Config, OnError},
    field::name,
    format::Parser,
};

/// Parses the text of a field of each event into fields.
#[derive(Debug)]
pub struct Parse {
    parser: Parser,
    /// Name of the format, for messages.
    format: &'static str,
    field: Field,
    /// Position of the result; `None` if it replaces the payload.
    insertion: Option<Insertion>,
    on_error: OnError,
    error_path: Path,
    /// The text of the current event, which is copied because it lies in the buffers to which the result is written. The
    /// buffer is reused for its capacity.
    text: String,
}

impl Parse {
    fn apply(&mut self, event: &mut EventMut<'_>) -> Verdict {
        if event.value().is_none() {
            return match event.get().raw() {
                Some(_) => Verdict::Reject(Error::bad_data(
                    "the event is bytes that no codec has decoded: give its connector a `codec`, such as \
                     `string`",
                )),
                None => Verdict::Keep,
            };
        }
        match self.parse(event) {
            Ok(()) => Verdict::Keep,
            Err(error) if self.on_error == OnError::Err => Verdict::Reject(error),
            Err(error) => {
                self.annotate(event, &error);
                Verdict::Keep
            }
        }
    }

    fn parse(&mut self, event: &mut EventMut<'_>) -> Result<()> {
        let text = text(&self.field, event.get(), self.parser.takes_numbers())?;
        self.text.clear();
        self.text.push_str(&text);
        let now = event.get().ingest_ns();
        let Self { parser, text, field, format, .. } = self;
        let write = |out: &mut Writer<'_>| {
            parser.write(text, now, out).map_err(|stop| {
                let (name, stop) = (name(field), stop.describe(text));
                Error::bad_data(format_args!("cannot parse {name} as `{format}`: {stop}"))
            })
        };
        match &mut self.insertion {
            None => event.write_value(write),
            Some(insertion) => event.insert(insertion, write),
        }
    }

    /// Writes the error to the metadata. Metadata that is not an object is unchanged.
    fn annotate(&self, event: &mut EventMut<'_>, error: &Error) {
        let message = Value::from(error.to_string());
        // Ignore the error, which means that a value on the path is not an object. The metadata is
        // then unchanged.
        let _ = event.metadata_mut().set_path(&self.error_path, message);
    }
}

/// Returns the text of the field of an event. If `numbers` is set, a number is converted to text.
fn text<'b>(field: &Field, event: EventRef<'b>, numbers: bool) -> Result<Cow<'b, str>> {
    let Some(value) = field.get(event) else {
        return Err(Error::bad_data(format_args!("the event has no field {}", name(field))));
    };
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    if let Some(data) = value.as_bytes() {
        return match std::str::from_utf8(data) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(Error::bad_data(format_args!(
                "{} is binary data that is not UTF-8 at byte {}",
                name(field),
                error.valid_up_to()
            ))),
        };
    }
    let shape = value.shape();
    if numbers && matches!(shape, Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_))
    {
        return Ok(value.to_string().into());
    }
    let (name, found) = (name(field), shape.name());
    Err(Error::bad_data(format_args!("{name} is not text: found {found}")))
}

impl Operator for Parse {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.apply(event));
        Ok(())
    }
}

impl Component for Parse {
    const NAME: &str = "parse";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        config.check()?;
        let (field, insertion) = config.fields()?;
        Ok(Self {
            parser: Parser::new(&config)?,
            format: config.format.name(),
            field,
            insertion,
            on_error: config.on_error,
            error_path: "parse.error".parse().map_err(Error::internal)?,
            text: String::new(),
        })
    }
}

#[cfg(test)]
mod tests;
