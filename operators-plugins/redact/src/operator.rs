//! The operator that applies the rules to batches.

use tremor_pdk::{EventMut, Field, Part, Path, Replacement, TextFields, prelude::*};

use crate::{
    config::Config,
    rule::{Content, Rule},
};

/// Removes personal data and secrets from each event.
pub struct Redact {
    rules: Vec<Rule>,
    /// Fields of the payload and of the metadata, if there are any.
    parts: Vec<PartFields>,
    content: Content,
}

/// The fields of all rules in one part of an event.
struct PartFields {
    part: Part,
    fields: TextFields,
    /// For each field, the position of its rule, in ascending order.
    rules: Vec<usize>,
}

impl PartFields {
    /// Returns the fields of a part, or `None` if no rule has a field in it.
    fn new(part: Part, rules: &[Rule]) -> Option<Self> {
        let of_rule = |(number, rule): (usize, &Rule)| -> Vec<(usize, Path)> {
            let fields = rule.fields.iter().filter(|field| field.part() == part);
            fields.map(|field| (number, field.path().clone())).collect()
        };
        let fields = rules.iter().enumerate().flat_map(of_rule);
        let (rules, paths): (Vec<_>, Vec<_>) = fields.unzip();
        (!rules.is_empty()).then(|| Self { part, fields: TextFields::new(part, paths), rules })
    }
}

impl Redact {
    fn apply(&mut self, event: &mut EventMut<'_>, capacity: &mut usize) -> Verdict {
        if event.value().is_none() {
            return match event.get().raw() {
                Some(_) => Verdict::Reject(Error::bad_data(
                    "the event is bytes that no codec has decoded: give its connector a `codec`",
                )),
                None => Verdict::Keep,
            };
        }
        let missing = self.missing(event);
        if let Err(error) = self.redact(event, capacity) {
            return Verdict::Reject(error);
        }
        match missing {
            Some(error) => Verdict::Reject(error),
            None => Verdict::Keep,
        }
    }

    /// Returns the error of the first field that must exist, and that the event does not have.
    fn missing(&self, event: &EventMut<'_>) -> Option<Error> {
        let fields = self.rules.iter().filter(|rule| rule.rejects).flat_map(|rule| &rule.fields);
        let mut missing = fields.filter(|field| field.get(event.get()).is_none());
        missing.next().map(|field| {
            Error::bad_data(format_args!(
                "cannot redact {}: the event has no such field",
                name(field)
            ))
        })
    }

    fn redact(&mut self, event: &mut EventMut<'_>, capacity: &mut usize) -> Result<()> {
        let Self { rules, parts, content } = self;
        for PartFields { part, fields, rules: of_fields } in parts {
            let limit = *capacity;
            event.replace_texts(fields, capacity, |value, within, out| {
                if !content.load(value) {
                    return Ok(Replacement::Unchanged);
                }
                let mut applied = None;
                for position in within {
                    // Several fields of a rule may contain the value.
                    let rule = of_fields.get(*position).copied();
                    if rule != applied {
                        applied = rule;
                        rule.and_then(|rule| rules.get(rule))
                            .map_or(Ok(()), |rule| content.apply(rule, limit))?;
                    }
                }
                Ok(content.replacement(value, out))
            })?;
            if *part == Part::Payload {
                // Dead letters and copies of the event must not contain what was removed.
                event.forget_original();
            }
        }
        Ok(())
    }
}

/// Returns the name of a field in messages.
fn name(field: &Field) -> String {
    match field.to_string() {
        name if name.is_empty() => "`.`".to_owned(),
        name => format!("`{name}`"),
    }
}

impl Operator for Redact {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut capacity = batch.growth_at_most();
        output.divert(batch, |event| self.apply(event, &mut capacity));
        Ok(())
    }
}

impl Component for Redact {
    const NAME: &str = "redact";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let rules = config.compile()?;
        let parts = [Part::Payload, Part::Metadata];
        let parts = parts.into_iter().filter_map(|part| PartFields::new(part, &rules)).collect();
        Ok(Self { rules, parts, content: Content::default() })
    }
}

#[cfg(test)]
mod tests;
