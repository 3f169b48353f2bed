//! The operator that applies a table to batches.

use std::{borrow::Cow, sync::Arc};

use tremor_pdk::{EventMut, EventRef, Field, Insertion, Part, Shape, prelude::*};

use crate::{
    config::{Config, Missing},
    data::Data,
    record::{Limited, put_json, write_value},
    shared::{Shared, Watch},
    table::shortened,
};

/// Adds the fields of a row of a table to each event.
pub struct Lookup {
    host: Host,
    shared: Arc<Shared>,
    /// Watch over the file, which starts with the first batch.
    watch: Option<Watch>,
    file: String,
    key: Field,
    insertion: Insertion,
    missing: Otherwise,
}

/// Treatment of events whose key matches no row.
enum Otherwise {
    Skip,
    Reject,
    /// The compact form of the object that is written.
    Write(Vec<u8>),
}

impl Lookup {
    /// Adds the fields of the row of an event, which may take `capacity` bytes, and subtracts them from `capacity`.
    fn apply(&mut self, table: &Data, event: &mut EventMut<'_>, capacity: &mut usize) -> Verdict {
        if event.value().is_none() {
            return match event.get().raw() {
                Some(_) => Verdict::Reject(Error::bad_data(
                    "the event is bytes that no codec has decoded: give its connector a `codec`",
                )),
                None => Verdict::Keep,
            };
        }
        let key = key_text(&self.key, event.get());
        let row = key.as_deref().and_then(|key| table.find(key));
        let written = match (row, &self.missing) {
            (Some(row), _) => insert(event, &mut self.insertion, capacity, |out| row.write(out)),
            (None, Otherwise::Skip) => return Verdict::Keep,
            (None, Otherwise::Reject) => Err(self.unmatched(key.as_deref())),
            (None, Otherwise::Write(object)) => {
                insert(event, &mut self.insertion, capacity, |out| {
                    write_value(&mut &**object, out);
                    Ok(())
                })
            }
        };
        written.map_or_else(Verdict::Reject, |()| Verdict::Keep)
    }

    /// Returns the error of an event that matches no row.
    fn unmatched(&self, key: Option<&str>) -> Error {
        let (key_field, file) = (self.key.to_string(), &self.file);
        let name = if key_field.is_empty() { "." } else { &key_field };
        match key {
            Some(key) => {
                let key = shortened(key);
                Error::bad_data(format_args!(
                    "`{name}` {key:?} matches no row of the table `{file}`"
                ))
            }
            None => Error::bad_data(format_args!(
                "the event has no field `{name}` that is a text or a number"
            )),
        }
    }
}

/// Inserts the value that `write` writes into an event. The value may take `capacity` bytes, and its size is subtracted
/// from `capacity`.
fn insert(
    event: &mut EventMut<'_>,
    insertion: &mut Insertion,
    capacity: &mut usize,
    write: impl FnOnce(&mut Limited<'_, '_>) -> Result<()>,
) -> Result<()> {
    let mut left = *capacity;
    event.insert(insertion, |out| {
        let mut out = Limited::new(out, left);
        write(&mut out)?;
        left = out.left().ok_or_else(|| {
            Error::bad_data(format_args!(
                "cannot add the fields of the table: they take more than the {left} bytes that are left for the events \
                 of its batch; set fewer `fields`"
            ))
        })?;
        Ok(())
    })?;
    *capacity = left;
    Ok(())
}

/// Returns the text of the field of an event: text, or the text of a number. Returns `None` if the field is missing or has
/// another type.
fn key_text<'b>(field: &Field, event: EventRef<'b>) -> Option<Cow<'b, str>> {
    let value = field.get(event)?;
    match value.shape() {
        Shape::String(text) => Some(text.into()),
        Shape::Bytes(data) => std::str::from_utf8(data).ok().map(Into::into),
        Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_) => {
            Some(value.to_string().into())
        }
        _ => None,
    }
}

impl Operator for Lookup {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if self.watch.is_none() {
            self.watch = Some(Watch::start(&self.shared, &self.host));
        }
        let table = self.shared.table();
        let mut capacity = batch.growth_at_most();
        output.divert(batch, |event| self.apply(&table, event, &mut capacity));
        Ok(())
    }
}

impl Component for Lookup {
    const NAME: &str = "lookup";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let key = Field::of_key("key", &config.key)?;
        let into = Field::of_key("into", &config.into)?;
        if into.part() == Part::Metadata {
            return Err(Error::configuration(format_args!(
                "invalid `into` `{}`: expected a field of the payload",
                config.into
            )));
        }
        let insertion = Insertion::new(into.path(), None)
            .map_err(|error| Error::configuration(format_args!("invalid `into`: {error}")))?;
        let table = config.table()?;
        let missing = match &config.missing {
            Missing::Skip => Otherwise::Skip,
            Missing::Err => Otherwise::Reject,
            Missing::Default(fields) => {
                let (json, mut object) = (serde_json::to_string(fields), Vec::new());
                put_json(&json.map_err(Error::configuration)?, 0, &mut object).map_err(
                    |error| Error::configuration(format_args!("invalid `missing`: {error}")),
                )?;
                Otherwise::Write(object)
            }
        };
        let shared = Shared::open(context.id(), &config.file, table, &context)?;
        let (host, file) = (context.into(), config.file);
        Ok(Self { host, shared, watch: None, file, key, insertion, missing })
    }
}

#[cfg(test)]
mod tests;
