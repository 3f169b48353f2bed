//! Checks of configurations against JSON Schemas.

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

/// Maximum time for compiling a schema, or for checking a configuration against it.
///
/// Without a limit, a schema of a few lines could take years.
const LIMIT: Duration = Duration::from_secs(10);

/// Reason why a configuration cannot be checked against its schema.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("its schema is invalid: {0}")]
    Invalid(#[from] ValidationError<'static>),
    #[error("the check against its schema took longer than {0:?}")]
    TooLong(Duration),
    #[error("cannot start a thread: {0}")]
    NoThread(#[from] io::Error),
}

/// Compiled schema of a configuration.
pub(super) struct Schema {
    text: Value,
    validator: Arc<Validator>,
    limit: Duration,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The schema is invalid, or compiling it takes too long.
    pub(super) fn new(text: Value) -> Result<Self, SchemaError> {
        let schema = text.clone();
        // Do not use `jsonschema::options`: the compiler would generate the code of the validator again in this crate,
        // which adds 1 MiB to the program. The validator does not fetch schemas, because its features for that are not
        // enabled.
        let validator = within(LIMIT, move || jsonschema::draft202012::new(&schema))??;
        Ok(Self { text, validator: Arc::new(validator), limit: LIMIT })
    }

    /// Returns whether a configuration fits the schema. There is no time limit.
    pub(super) fn admits(&self, config: &Value) -> bool {
        self.validator.is_valid(config)
    }

    /// Returns the errors of a configuration.
    ///
    /// # Errors
    /// The check took too long, or no thread could be started.
    fn errors(&self, config: &Value) -> Result<Vec<ValidationError<'static>>, SchemaError> {
        let (validator, config) = (Arc::clone(&self.validator), config.clone());
        within(self.limit, move || {
            // The list of errors is created only if the configuration does not fit. Otherwise a check that takes too
            // long would collect errors in memory until the process ends.
            let fits = validator.is_valid(&config);
            let errors = (!fits).then(|| validator.iter_errors(&config));
            errors.into_iter().flatten().map(ValidationError::to_owned).collect()
        })
    }

    /// Reports the errors of a configuration. Returns `true` if there are none.
    ///
    /// `owner` is the configured component as messages name it, such as "connector type `file`".
    pub(super) fn check(&self, config: &Config, owner: &str, report: &mut Report) -> bool {
        match self.errors(config.value()) {
            Ok(mut errors) => {
                let unknown = config.unknown();
                errors
                    .retain(|error| unknown.iter().all(|value| holds_for_any_value(error, value)));
                let complaint = Complaint { schema: &self.text, config, owner, errors: &errors };
                errors.iter().for_each(|error| complaint.report(error, report));
                errors.is_empty()
            }
            Err(why) => {
                let message = format!("cannot check the configuration of {owner}: {why}");
                report.push(report.error(config.at(), message));
                false
            }
        }
    }
}

/// Runs `work` on a thread of its own and returns its result.
///
/// If `work` takes too long, its thread continues to run, because the process only reports the error and exits.
///
/// # Errors
/// Returns an error if the work took too long or panicked, or if the thread could not be started.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SchemaError> {
    let (sender, receiver) = sync_channel(1);
    let worker = move || _ = sender.send(work());
    thread::Builder::new().name("schema".to_owned()).spawn(worker)?;
    receiver.recv_timeout(limit).map_err(|_| SchemaError::TooLong(limit))
}

/// Converts errors of the validator to diagnostics.
struct Complaint<'c> {
    schema: &'c Value,
    config: &'c Config,
    owner: &'c str,
    /// Errors of the configuration.
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
                let message = format!("missing key {} in {}", quote(key), self.named(pointer));
                report.push(
                    report
                        .error(self.config.span(pointer), message)
                        .maybe_help(self.about(error, key)),
                );
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.alternatives(error, context, report);
            }
            kind => {
                let found = self.config.describe(pointer);
                if let Some((expected, help)) = self.enclosing(error).and_then(words::with_unit) {
                    report.push(self.wrong(pointer, &expected, &found, report).help(help));
                    return;
                }
                let (expected, help) = words::expected(kind, error.instance());
                let help =
                    help.filter(|_| !self.config.is_reference(pointer) || is_about_quotes(kind));
                report.push(self.wrong(pointer, &expected, &found, report).maybe_help(help));
            }
        }
    }

    /// Returns whether `key`, which is missing, is probably the correct spelling of an unknown key in the same map. A
    /// separate message reports the unknown key.
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
        let value = self.named(pointer);
        let message = format!("{value}: expected {expected}, found {found}");
        report.error(self.config.span(pointer), message)
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
        let message = format!("unknown key {} in {}", quote(key), self.named(pointer));
        report
            .error(self.config.key_span(pointer, key), message)
            .maybe_help(did_you_mean(key, known.iter().copied()))
            .help(keys)
    }

    /// Reports a value that fits none of several alternatives. If it is clear which alternative was meant, reports the
    /// errors of this alternative, otherwise the possible alternatives.
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
        if let Some(mixed) = words::mixed(context, pointer) {
            let found = self.config.describe(pointer);
            let others = mixed.others.iter();
            let others = others.map(|error| words::alternative(error, self.enclosing(error)));
            let constants = mixed.constants.iter().map(|value| words::value(value));
            let expected = words::one_of_texts(constants.chain(others).collect());
            report.push(self.wrong(pointer, &expected, &found, report));
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

    /// Returns a description of the value at a JSON pointer for messages: the configuration itself, or a path in it.
    fn named(&self, pointer: &str) -> String {
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

    /// Returns the description of a missing key from the schema.
    fn about(&self, error: &ValidationError<'_>, key: &str) -> Option<String> {
        let property = self.enclosing(error)?.get("properties")?.get(key)?;
        let description = property.get("description")?.as_str()?;
        let first = description.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>();
        Some(format!("{}: {}", quote(key), first.join(" ")))
    }

    /// Returns the schema that contains the failed keyword.
    fn enclosing(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)
    }
}

/// Returns whether an error occurs whatever the value at the pointer `unknown` is. This value is not known, and `null`
/// replaces it in the checked configuration.
fn holds_for_any_value(error: &ValidationError<'_>, unknown: &str) -> bool {
    use ValidationErrorKind as Kind;
    let pointer = error.instance_path().as_str();
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_within(pointer, unknown) {
        return false;
    }
    // The error is about a list or a map that contains the unknown value. The keys of that map or the length of that
    // list are known.
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

/// Returns whether the help for a failed keyword only says how a value has to be written. Such help does not reveal the
/// value.
fn is_about_quotes(kind: &ValidationErrorKind) -> bool {
    matches!(kind, ValidationErrorKind::Type { .. })
}

/// Returns whether the error is the one with which the validator reports that a map must be empty.
fn closes_a_map(error: &ValidationError<'_>) -> bool {
    let keyword = error.schema_path().as_str().rsplit('/').next();
    matches!(keyword, Some("additionalProperties" | "unevaluatedProperties"))
}

/// Maximum number of references and combinations of schemas that are followed to collect keys.
const MAX_HOPS: usize = 8;

/// Collects the keys that a schema defines. Follows references and combinations of schemas.
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
    fn check_that_takes_too_long_is_abandoned() {
        // Each level refers to the next one twice.
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
        assert_eq!(why.to_string(), "the check against its schema took longer than 1ms");
    }

    #[test]
    fn schemas_referred_to_are_not_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.json");
        std::fs::write(&file, "{}").unwrap();
        for elsewhere in [format!("file://{}", file.display()), "http://127.0.0.1:9/".to_owned()] {
            let said = Schema::new(json!({ "$ref": elsewhere })).err().map(|why| why.to_string());
            assert!(said.is_some_and(|said| said.contains("resolve-")), "{elsewhere}");
        }
    }
}
