//! Configurations against JSON Schemas.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::Duration,
};

use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use super::{
    super::{
        diagnostic::{Diagnostic, Report},
        spec::Config,
        suggest::{did_you_mean, list, near, quote},
    },
    words,
};

/// How long may be worked on a schema, or on a configuration with it. A few lines of a schema can be
/// work for years.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a configuration cannot be compared with its schema.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("its schema is none: {0}")]
    Invalid(#[from] ValidationError<'static>),
    #[error("its schema takes longer than {0:?}")]
    TooLong(Duration),
    #[error("no thread can be started: {0}")]
    NoThread(#[from] io::Error),
}

/// The schema of a configuration, ready for use.
pub(super) struct Schema {
    text: Value,
    validator: Arc<Validator>,
    limit: Duration,
}

impl Schema {
    /// # Errors
    /// Why this is no schema.
    pub(super) fn new(text: Value) -> Result<Self, SchemaError> {
        let schema = text.clone();
        // With options it would be compiled once more into this crate: 1 MiB of code. It fetches nothing,
        // since nothing turns its features for that on.
        let validator = within(LIMIT, move || jsonschema::draft202012::new(&schema))??;
        Ok(Self { text, validator: Arc::new(validator), limit: LIMIT })
    }

    /// Whether a configuration fits, however long it takes to find out.
    pub(super) fn admits(&self, config: &Value) -> bool {
        self.validator.is_valid(config)
    }

    /// What does not fit.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn errors(&self, config: &Value) -> Result<Vec<ValidationError<'static>>, SchemaError> {
        let (validator, config) = (Arc::clone(&self.validator), config.clone());
        within(self.limit, move || {
            // What takes too long takes no memory until then, while errors take some each.
            let fits = validator.is_valid(&config);
            let errors = (!fits).then(|| validator.iter_errors(&config));
            errors.into_iter().flatten().map(ValidationError::to_owned).collect()
        })
    }

    /// Reports what does not fit; `true` if all does. `owner` is what is configured, in the words
    /// of a message: "connector type `file`".
    pub(super) fn check(&self, config: &Config, owner: &str, report: &mut Report) -> bool {
        match self.errors(config.value()) {
            Ok(mut errors) => {
                let unknown = config.unknown();
                errors.retain(|error| unknown.iter().all(|value| is_sure(error, value)));
                let complaint = Complaint { schema: &self.text, config, owner, errors: &errors };
                errors.iter().for_each(|error| complaint.report(error, report));
                errors.is_empty()
            }
            Err(why) => {
                let message = format!("the configuration of {owner} cannot be checked: {why}");
                report.push(report.error(config.at(), message));
                false
            }
        }
    }
}

/// The result of work on a thread of its own. One that takes too long is left to itself: the process
/// has nothing to do but to say so and end.
///
/// # Errors
/// It took too long, panicked, or could not be started.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SchemaError> {
    let (sender, receiver) = sync_channel(1);
    let worker = move || _ = sender.send(work());
    thread::Builder::new().name("schema".to_owned()).spawn(worker)?;
    receiver.recv_timeout(limit).map_err(|_| SchemaError::TooLong(limit))
}

/// Turns what the validator says into diagnostics.
struct Complaint<'c> {
    schema: &'c Value,
    config: &'c Config,
    owner: &'c str,
    /// All that does not fit.
    errors: &'c [ValidationError<'static>],
}

impl Complaint<'_> {
    fn report(&self, error: &ValidationError<'_>, report: &mut Report) {
        use ValidationErrorKind as Kind;
        let pointer = error.instance_path().as_str();
        match error.kind() {
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                for key in unexpected {
                    report.push(self.unknown_key(error, key, report));
                }
            }
            Kind::FalseSchema if closes_a_map(error) => {
                let map = self.config.value().pointer(pointer).and_then(Value::as_object);
                for (key, _) in map.into_iter().flatten() {
                    report.push(self.unknown_key(error, key, report));
                }
            }
            Kind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                if self.is_misspelt(pointer, key) {
                    return;
                }
                let message = format!("missing key {} in {}", quote(key), self.place(pointer));
                report.push(
                    report
                        .error(self.config.place(pointer), message)
                        .maybe_help(self.about(error, key)),
                );
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.alternatives(error, context, report);
            }
            kind => {
                let found = self.config.describe(pointer);
                if let Some((expected, help)) = self.enclosing(error).and_then(words::with_unit) {
                    report.push(self.wrong(pointer, expected, &found, report).help(help));
                    return;
                }
                let (expected, help) = words::expected(kind, error.instance());
                let help =
                    help.filter(|_| !self.config.is_reference(pointer) || is_about_quotes(kind));
                report.push(self.wrong(pointer, &expected, &found, report).maybe_help(help));
            }
        }
    }

    /// Whether an unknown key, which is reported, was probably meant to be this one of the same map.
    fn is_misspelt(&self, pointer: &str, key: &str) -> bool {
        use ValidationErrorKind as Kind;
        let unexpected = self.errors.iter().filter(|it| it.instance_path().as_str() == pointer);
        let mut unexpected = unexpected.filter_map(|error| match error.kind() {
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => Some(unexpected),
            _ => None,
        });
        unexpected.any(|keys| keys.iter().any(|other| !near(other, [key]).is_empty()))
    }

    fn wrong(&self, pointer: &str, expected: &str, found: &str, report: &Report) -> Diagnostic {
        let place = self.place(pointer);
        let message = format!("{place}: expected {expected}, found {found}");
        report.error(self.config.place(pointer), message)
    }

    fn unknown_key(&self, error: &ValidationError<'_>, key: &str, report: &Report) -> Diagnostic {
        let pointer = error.instance_path().as_str();
        let mut known = BTreeSet::new();
        if let Some(object) = self.enclosing(error) {
            collect_properties(self.schema, object, MAX_HOPS, &mut known);
        }
        let known: Vec<_> = known.into_iter().collect();
        let keys = match known.as_slice() {
            [] => "it has no keys".to_owned(),
            known => format!("known keys are {}", list(known)),
        };
        let message = format!("unknown key {} in {}", quote(key), self.place(pointer));
        report
            .error(self.config.key_place(pointer, key), message)
            .maybe_help(did_you_mean(key, known.iter().copied()))
            .help(keys)
    }

    /// None of several alternatives fits: says what is wrong with the one that was meant, or what
    /// there is to choose from.
    fn alternatives(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
        report: &mut Report,
    ) {
        let pointer = error.instance_path().as_str();
        if let Some(choice) = words::choice(context) {
            let found = self.config.describe(choice.pointer);
            let found_value = self.config.value().pointer(choice.pointer);
            let shown = found_value.filter(|_| !self.config.is_reference(choice.pointer));
            let near = shown.and_then(Value::as_str).and_then(|text| {
                did_you_mean(text, choice.values.iter().filter_map(|value| value.as_str()))
            });
            let expected = words::one_of(&choice.values);
            report.push(self.wrong(choice.pointer, &expected, &found, report).maybe_help(near));
            return;
        }
        if let Some(types) = words::types(context, pointer) {
            let found = self.config.describe(pointer);
            let (expected, help) = words::expected_type(&types, error.instance());
            report.push(self.wrong(pointer, &expected, &found, report).maybe_help(help));
            return;
        }
        if let Some(errors) = words::meant(context, pointer) {
            for error in errors {
                self.report(error, report);
            }
            return;
        }
        let found = self.config.describe(pointer);
        let expected = format!("one of {} alternatives", context.len());
        let mut diagnostic = self.wrong(pointer, &expected, &found, report);
        for (index, errors) in context.iter().enumerate() {
            if let Some(error) = errors.first() {
                let why = if self.config.has_references() {
                    error.masked().to_string()
                } else {
                    error.to_string()
                };
                diagnostic = diagnostic.help(format!("not alternative {}: {why}", index + 1));
            }
        }
        report.push(diagnostic);
    }

    /// What a pointer leads to, for a message: the configuration itself, or a path in it.
    fn place(&self, pointer: &str) -> String {
        if pointer.is_empty() {
            return format!("the configuration of {}", self.owner);
        }
        let mut path = String::new();
        for segment in pointer.split('/').skip(1) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            if segment.bytes().all(|byte| byte.is_ascii_digit()) {
                path = format!("{path}[{segment}]");
            } else {
                let dot = if path.is_empty() { "" } else { "." };
                path = format!("{path}{dot}{segment}");
            }
        }
        format!("{} of {}", quote(&path), self.owner)
    }

    /// What the schema says about a key that is missing.
    fn about(&self, error: &ValidationError<'_>, key: &str) -> Option<String> {
        let property = self.enclosing(error)?.get("properties")?.get(key)?;
        let description = property.get("description")?.as_str()?;
        let first = description.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>();
        Some(format!("{}: {}", quote(key), first.join(" ")))
    }

    /// The schema that the failed keyword stands in.
    fn enclosing(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)
    }
}

/// Whether an error holds whatever the value is that a pointer leads to, for which there is a `null`.
fn is_sure(error: &ValidationError<'_>, unknown: &str) -> bool {
    use ValidationErrorKind as Kind;
    let pointer = error.instance_path().as_str();
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_within(pointer, unknown) {
        return false;
    }
    // What holds the value is a list or a map, whose keys and length are known.
    !is_within(unknown, pointer)
        || matches!(
            error.kind(),
            Kind::AdditionalProperties { .. }
                | Kind::UnevaluatedProperties { .. }
                | Kind::FalseSchema
                | Kind::Required { .. }
                | Kind::Type { .. }
                | Kind::MinItems { .. }
                | Kind::MaxItems { .. }
                | Kind::MinProperties { .. }
                | Kind::MaxProperties { .. }
        )
}

/// Whether the help for a failed keyword says how to write a value, and nothing of what it is.
fn is_about_quotes(kind: &ValidationErrorKind) -> bool {
    matches!(kind, ValidationErrorKind::Type { .. })
}

/// Whether this is the validator's shorter way to say that a map must be empty.
fn closes_a_map(error: &ValidationError<'_>) -> bool {
    let keyword = error.schema_path().as_str().rsplit('/').next();
    matches!(keyword, Some("additionalProperties" | "unevaluatedProperties"))
}

/// How many references and combinations are followed for a list of keys.
const MAX_HOPS: usize = 8;

/// Collects the keys that a schema knows, through references and combinations.
fn collect_properties<'s>(
    root: &'s Value,
    schema: &'s Value,
    hops: usize,
    known: &mut BTreeSet<&'s str>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    known.extend(properties.into_iter().flatten().map(|(key, _)| key.as_str()));
    if hops == 0 {
        return;
    }
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(target) = reference
        .and_then(|reference| reference.strip_prefix('#'))
        .and_then(|pointer| root.pointer(pointer))
    {
        collect_properties(root, target, hops - 1, known);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            collect_properties(root, part, hops - 1, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::Schema;

    #[test]
    fn a_schema_that_takes_too_long_is_given_up() {
        // Each level asks the next one twice.
        let level = |next: usize| {
            let next = json!({ "$ref": format!("#/$defs/{next}") });
            json!({ "allOf": [next.clone(), next] })
        };
        let mut levels: Vec<Value> = (1..22).map(level).collect();
        levels.push(json!({ "type": "object" }));
        let levels = levels.into_iter().enumerate().map(|(at, level)| (at.to_string(), level));
        let levels: serde_json::Map<_, _> = levels.collect();
        let schema = json!({ "$ref": "#/$defs/0", "$defs": levels });
        let schema = Schema::new(schema).map_err(|_| "no schema").unwrap();
        let schema = Schema { limit: Duration::from_millis(1), ..schema };
        let why = schema.errors(&json!({})).unwrap_err();
        assert_eq!(why.to_string(), "its schema takes longer than 1ms");
    }

    #[test]
    fn nothing_is_fetched_that_a_schema_refers_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.json");
        std::fs::write(&file, "{}").unwrap();
        for elsewhere in [format!("file://{}", file.display()), "http://127.0.0.1:9/".to_owned()] {
            let said = Schema::new(json!({ "$ref": elsewhere })).err().map(|why| why.to_string());
            assert!(said.is_some_and(|said| said.contains("resolve-")), "{elsewhere}");
        }
    }
}
