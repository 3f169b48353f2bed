//! The operator `set`, which sets and removes fields of the payload and the metadata.

use std::ops::Range;

use rustix::system::uname;
use tremor_abi::batch::{Edits, FieldWriter, HostBatch, Part};
use tremor_pdk::{
    Batch, Component, ComponentContext, Error, EventMut, EventRef, Operator, Output, Result, Value,
    Verdict,
    template::{Field, Template, TimeCache},
};

use super::condition::{self, Condition, given};
use crate::codec::syslog::civil::append_rfc3339;

/// Sets and removes fields of the payload and the metadata.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Edits, which are applied in this order.
    edits: Vec<Edit>,
}

/// An edit: `field` with exactly one of `value`, `copy`, `template`, `now` and `hostname`, or `remove`.
#[tremor_pdk::config]
struct Edit {
    /// Field that is set. Missing objects on its path are created.
    field: Option<Field>,
    /// Constant of any type.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<serde_json::Value>")]
    value: Option<Value<'static>>,
    /// Field whose value is copied.
    copy: Option<Field>,
    /// Text with the values of fields in braces.
    template: Option<Template>,
    /// Time when the event was read.
    now: Option<Time>,
    /// `true` for the name of the host.
    hostname: Option<bool>,
    /// `true` if a field that exists stays unchanged.
    #[serde(default)]
    keep_existing: bool,
    /// Treatment of events that do not have the field of `copy`, or have no text for a field of `template`.
    missing: Option<Missing>,
    /// Fields that are removed, if they exist.
    remove: Option<Vec<Field>>,
    /// Condition of the events to which the edit is applied.
    when: Option<condition::Config>,
}

/// Form of a time.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Time {
    /// Text in the form of RFC 3339, in UTC with nine digits after the point.
    Rfc3339,
    /// Nanoseconds since the Unix epoch.
    Ns,
}

#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Missing {
    /// The field that would be set stays unchanged.
    Skip,
    /// The event leaves by `err`.
    Err,
}

const SOURCES: &str = "`value`, `copy`, `template`, `now` or `hostname`";

impl Edit {
    /// Compiles an edit into one step for each field that it sets or removes. Adds its condition to `conditions`.
    fn compile(mut self, conditions: &mut Conditions) -> Result<Vec<Step>> {
        let when = match self.when.take() {
            Some(when) => Some(conditions.add(when).map_err(|error| error.context("`when`"))?),
            None => None,
        };
        if let Some(remove) = &self.remove {
            let is_alone = self.field.is_none() && self.source()?.is_none();
            if !is_alone || self.keep_existing || self.missing.is_some() {
                let message = "`remove`: expected no other key besides it: remove fields in an edit of their own";
                return Err(Error::configuration(message));
            }
            return remove.iter().map(|field| Step::remove(field, when)).collect();
        }
        let source = self.source()?;
        let Some(field) = self.field else {
            return Err(Error::configuration("expected `field` or `remove`, found neither"));
        };
        let Some(source) = source else {
            return Err(Error::configuration(format_args!(
                "expected {SOURCES} for the field `{field}`, found none"
            )));
        };
        let reads = matches!(source, Source::Copy(_) | Source::Template(..));
        if self.missing.is_some() && !reads {
            let message = "`missing`: expected `copy` or `template`, which can lack a field";
            return Err(Error::configuration(message));
        }
        let rejects = self.missing == Some(Missing::Err);
        let set = Setting { source, keep_existing: self.keep_existing, rejects };
        Ok(vec![Step { field, set: Some(set), when }])
    }

    fn source(&self) -> Result<Option<Source>> {
        let mut sources = Vec::new();
        sources.extend(self.value.clone().map(Source::Constant));
        sources.extend(self.copy.clone().map(Source::Copy));
        let template = |template| Source::Template(template, TimeCache::default());
        sources.extend(self.template.clone().map(template));
        sources.extend(self.now.map(Source::Now));
        match self.hostname {
            None => {}
            Some(true) => {
                let name = uname().nodename().to_string_lossy().into_owned();
                sources.push(Source::Constant(Value::from(name)));
            }
            Some(false) => {
                let message = "`hostname`: expected `true`, found `false`";
                return Err(Error::configuration(message));
            }
        }
        if sources.len() > 1 {
            return Err(Error::configuration(format_args!(
                "expected only one of {SOURCES}, found {}",
                sources.len()
            )));
        }
        Ok(sources.pop())
    }
}

/// A field that is set or removed.
struct Step {
    field: Field,
    /// `None` if the field is removed.
    set: Option<Setting>,
    /// Number of the condition of the edit.
    when: Option<usize>,
}

/// The value to which a field is set.
struct Setting {
    source: Source,
    /// `true` if a field that exists stays unchanged.
    keep_existing: bool,
    /// `true` if events without the fields that the source reads are rejected.
    rejects: bool,
}

enum Source {
    Constant(Value<'static>),
    Copy(Field),
    /// The cache contains times of the last event.
    Template(Template, TimeCache),
    Now(Time),
}

impl Step {
    fn remove(field: &Field, when: Option<usize>) -> Result<Self> {
        if field.part() == Part::Payload && field.path().is_empty() {
            let message =
                "`remove`: the whole payload cannot be removed: discard events with `filter`";
            return Err(Error::configuration(message));
        }
        Ok(Self { field: field.clone(), set: None, when })
    }

    /// Returns the fields whose values the step copies.
    fn copies(&self) -> Vec<&Field> {
        match self.set.as_ref().map(|set| &set.source) {
            None | Some(Source::Constant(_) | Source::Now(_)) => Vec::new(),
            Some(Source::Copy(field)) => vec![field],
            Some(Source::Template(template, _)) => template.fields().collect(),
        }
    }

    /// Returns an upper bound of the bytes that the step adds to an event besides the values of fields: constants, texts
    /// of templates, times, and keys of objects.
    fn added(&self) -> usize {
        let Some(set) = &self.set else { return 0 };
        let value = match &set.source {
            // A value has at most one node more than its JSON has characters at which a key or a value begins.
            Source::Constant(value) => {
                let json = value.to_string();
                let nodes = 1 + json.matches(['{', '[', ',', ':']).count();
                json.len() + nodes * NODE
            }
            Source::Copy(_) => 0,
            Source::Template(template, _) => {
                let text = template.to_string();
                let times = text.matches(":+").count();
                // Each byte of a format may become several bytes, such as those of the name of a month.
                NODE + text.len() + times.min(1) * text.len() * TIME
            }
            Source::Now(_) => NODE + TIME,
        };
        // Each key of the path begins a pair of an object.
        let path = self.field.to_string();
        let keys = 1 + path.matches(['.', '[']).count();
        value + path.len() + keys * 2 * NODE
    }

    /// Returns the fields that the step reads.
    fn reads<'s>(&'s self, conditions: &'s Conditions) -> Vec<&'s Field> {
        let mut fields = self.copies();
        if self.set.as_ref().is_some_and(|set| set.keep_existing) {
            fields.push(&self.field);
        }
        let condition = self.when.and_then(|when| conditions.list.get(when));
        fields.extend(condition.into_iter().flat_map(Condition::fields));
        fields
    }

    /// Returns the condition of the whole pass to which the step belongs. Fields cannot be removed on a condition of
    /// their own.
    fn condition_of_pass(&self) -> Option<usize> {
        if self.set.is_none() { self.when } else { None }
    }
}

/// Edits of one part of the event that do not depend on each other, so that they are applied together.
struct Pass {
    part: Part,
    edits: Edits,
    fields: Vec<(Field, Setting, Option<usize>)>,
    /// Number of the condition of all edits of the pass.
    when: Option<usize>,
}

/// The conditions of edits.
#[derive(Default)]
struct Conditions {
    list: Vec<Condition>,
    /// For each condition, whether the current event met it when the first field of its edit was edited.
    met: Vec<Option<bool>>,
}

impl Conditions {
    fn add(&mut self, config: condition::Config) -> Result<usize> {
        self.list.push(config.compile()?);
        self.met.push(None);
        Ok(self.list.len() - 1)
    }

    /// Returns whether the current event meets a condition. An edit without a condition applies to every event.
    fn hold(&mut self, when: Option<usize>, event: EventRef<'_>) -> bool {
        let Some(when) = when else { return true };
        match (self.list.get(when), self.met.get_mut(when)) {
            (Some(condition), Some(met)) => *met.get_or_insert_with(|| condition.holds(event)),
            _ => true,
        }
    }
}

impl Pass {
    fn new(steps: Vec<Step>) -> Result<Self> {
        let part = steps.first().map_or(Part::Payload, |step| step.field.part());
        let when = steps.first().and_then(Step::condition_of_pass);
        let (mut set, mut remove, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step.set {
                None => remove.push(step.field.path().clone()),
                Some(setting) => {
                    set.push(step.field.path().clone());
                    fields.push((step.field, setting, step.when));
                }
            }
        }
        let edits = Edits::new(&set, &remove).map_err(Error::configuration)?;
        Ok(Self { part, edits, fields, when })
    }
}

/// Returns whether `step` has to be applied after `earlier`: it edits another part of the event, removes fields on another
/// condition, or edits or reads a field that overlaps the one that `earlier` edits.
fn depends(step: &Step, earlier: &Step, conditions: &Conditions) -> bool {
    let edited = &earlier.field;
    step.field.part() != edited.part()
        || step.condition_of_pass() != earlier.condition_of_pass()
        || step.field.overlaps(edited)
        || step.reads(conditions).into_iter().any(|read| read.overlaps(edited))
}

/// Size of a value or a key in the document of an event, besides its text, in bytes.
const NODE: usize = 16;

/// Upper bound of the length of a time in RFC 3339, and of the text of a byte of a format of strftime, in bytes.
const TIME: usize = 64;

/// Value of [`Set::growth`] above which the size of events is always measured. Otherwise a small batch could grow too
/// much: its weight counts a text once that several fields contain.
const GROWTH: usize = 16;

/// The operator `set`.
pub(crate) struct Set {
    passes: Vec<Pass>,
    conditions: Conditions,
    /// Upper bound of the factor by which copies and templates enlarge an event.
    growth: usize,
    /// Upper bound of the bytes that constants, texts of templates and keys add to an event.
    added: usize,
    /// Values of the fields of a pass for the current event.
    values: Vec<Planned>,
    /// Texts of the values of a pass.
    text: String,
}

/// The value of a field for the current event.
enum Planned {
    /// The field stays unchanged.
    Unchanged,
    /// The constant, or the copy of a field.
    Source,
    /// Text at this range of [`Set::text`].
    Text(Range<usize>),
    /// Time in ns since the Unix epoch.
    Ns(u64),
}

impl Component for Set {
    const NAME: &str = "set";
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        if config.edits.is_empty() {
            return Err(Error::configuration("`edits`: expected at least one edit, found none"));
        }
        let mut passes: Vec<Vec<Step>> = Vec::new();
        let mut conditions = Conditions::default();
        for (position, edit) in config.edits.into_iter().enumerate() {
            let at = |error: Error| error.context(format_args!("`edits[{position}]`"));
            for step in edit.compile(&mut conditions).map_err(at)? {
                // Each path is checked here, because an error of a pass does not have the position of the edit.
                let path = std::slice::from_ref(step.field.path());
                Edits::new(path, &[]).map_err(Error::configuration).map_err(at)?;
                match passes.last_mut() {
                    Some(pass)
                        if !pass.iter().any(|earlier| depends(&step, earlier, &conditions)) =>
                    {
                        pass.push(step);
                    }
                    _ => passes.push(vec![step]),
                }
            }
        }
        // A pass copies the whole event at most once for each field that it reads.
        let growth = passes.iter().fold(1_usize, |growth, pass| {
            let copies: usize = pass.iter().map(|step| step.copies().len()).sum();
            growth.saturating_mul(1 + copies)
        });
        let added = passes.iter().flatten().map(Step::added).sum();
        let passes = passes.into_iter().map(Pass::new).collect::<Result<_>>()?;
        Ok(Self { passes, conditions, growth, added, values: Vec::new(), text: String::new() })
    }
}

impl Operator for Set {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { passes, conditions, growth, added, values, text } = self;
        let weight = batch.weight();
        let most = Batch::decoded_at_most(weight);
        // The size of events is measured only if they could exceed the limit.
        let with_added = weight.saturating_add(batch.len().saturating_mul(*added));
        let is_measured = *growth > GROWTH || growth.saturating_mul(with_added) > most;
        let mut capacity = is_measured.then(|| most.saturating_sub(weight));
        output.divert(batch, |event| {
            conditions.met.fill(None);
            let done = passes.iter_mut().try_for_each(|pass| {
                pass.apply(event, capacity.as_mut(), conditions, values, text)
            });
            done.map_or_else(Verdict::Reject, |()| Verdict::Keep)
        });
        Ok(())
    }
}

impl Pass {
    #[inline]
    fn apply(
        &mut self,
        event: &mut EventMut<'_>,
        capacity: Option<&mut usize>,
        conditions: &mut Conditions,
        values: &mut Vec<Planned>,
        text: &mut String,
    ) -> Result<()> {
        if !conditions.hold(self.when, event.get()) {
            return Ok(());
        }
        values.clear();
        text.clear();
        for (field, setting, when) in &mut self.fields {
            values.push(if conditions.hold(*when, event.get()) {
                setting.plan(field, event, text)?
            } else {
                Planned::Unchanged
            });
        }
        let fields = &self.fields;
        let write = |number: usize, writer: &mut FieldWriter<'_>| {
            let (Some(value), Some((_, setting, _))) = (values.get(number), fields.get(number))
            else {
                return;
            };
            match (value, &setting.source) {
                (Planned::Text(range), _) => writer.write(|out| out.str(&text[range.clone()])),
                (Planned::Ns(time), _) => writer.write(|out| out.u64(*time)),
                (Planned::Source, Source::Constant(value)) => {
                    writer.write(|out| out.write_value(value.view()));
                }
                (Planned::Source, Source::Copy(from)) => writer.copy(from.part(), from.path()),
                (Planned::Source | Planned::Unchanged, _) => {}
            }
        };
        match capacity {
            None => event.edit(self.part, &mut self.edits, write),
            Some(capacity) => event.edit_within(self.part, &mut self.edits, capacity, write),
        }
    }
}

impl Setting {
    /// Returns the value of `field` for an event. Appends texts to `text`.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the event lacks a field that has to exist.
    #[inline]
    fn plan(&mut self, field: &Field, event: &EventMut<'_>, text: &mut String) -> Result<Planned> {
        let event = event.get();
        if self.keep_existing && field.get(event).is_some() {
            return Ok(Planned::Unchanged);
        }
        let start = text.len();
        let rejects = self.rejects;
        Ok(match &mut self.source {
            Source::Copy(from) if rejects && from.get(event).is_none() => {
                return Err(Error::bad_data(format_args!(
                    "cannot set `{field}`: expected the field `{from}`, found no such field"
                )));
            }
            Source::Constant(_) | Source::Copy(_) => Planned::Source,
            Source::Now(Time::Ns) => Planned::Ns(event.ingest_ns()),
            Source::Now(Time::Rfc3339) => {
                append_rfc3339(event.ingest_ns(), text);
                Planned::Text(start..text.len())
            }
            Source::Template(template, cache) => match template.render_cached(event, text, cache) {
                Ok(()) => Planned::Text(start..text.len()),
                Err(_) if !rejects => Planned::Unchanged,
                Err(error) => {
                    return Err(Error::bad_data(format_args!("cannot set `{field}`: {error}")));
                }
            },
        })
    }
}

#[cfg(test)]
mod tests;
