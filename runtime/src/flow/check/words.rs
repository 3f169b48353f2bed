//! Descriptions of what the keywords of a JSON Schema require.

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::super::suggest::{did_you_mean, quote};

/// Returns a description of the value that the keyword expected instead of `found`, and advice if there is any.
pub(super) fn expected(kind: &Kind, found: &Value) -> (String, Option<String>) {
    let text = match kind {
        Kind::Type { kind } => return expected_type(&types_of(kind), found),
        Kind::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().collect();
            let near = found.as_str().and_then(|text| {
                did_you_mean(text, options.iter().filter_map(|value| value.as_str()))
            });
            return (one_of(&options), near);
        }
        Kind::Constant { expected_value } => value(expected_value),
        Kind::Minimum { limit } => format!("{limit} or more"),
        Kind::Maximum { limit } => format!("{limit} or less"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit: 1 } => "a text that is not empty".to_owned(),
        Kind::MinLength { limit } => format!("a text of {limit} or more characters"),
        Kind::MaxLength { limit: 1 } => "a text of one character".to_owned(),
        Kind::MaxLength { limit } => format!("a text of at most {limit} characters"),
        Kind::MinItems { limit: 1 } => "a list that is not empty".to_owned(),
        Kind::MinItems { limit } => format!("a list of {limit} or more items"),
        Kind::MaxItems { limit } => format!("a list of at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("a list of {limit} items"),
        Kind::MinProperties { limit } => format!("a map of {limit} or more keys"),
        Kind::MaxProperties { limit } => format!("a map of at most {limit} keys"),
        Kind::UniqueItems => "a list without repeated items".to_owned(),
        Kind::Pattern { pattern } => format!("a text that matches the pattern {}", quote(pattern)),
        Kind::Format { format } => format!("a text of the format `{format}`"),
        Kind::OneOfMultipleValid { .. } => "a value that fits exactly one alternative".to_owned(),
        kind => format!("a value that fits the keyword `{}` of the schema", kind.keyword()),
    };
    (text, None)
}

/// Returns the description of a time, a size or an address and advice on how to write it, if `schema` is the schema of
/// one of these.
///
/// The texts for times and sizes are the same as those for the runtime's own keys.
pub fn with_unit(schema: &Value) -> Option<(String, &'static str)> {
    match schema.get("pattern")?.as_str()? {
        "^[0-9]+ *(ms|s|m|h)$" => {
            let help = "write a whole number and `ms`, `s`, `m` or `h`, such as `250ms` or `5s`";
            Some(("a time with its unit".to_owned(), help))
        }
        "^[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$" => {
            let help = "write a whole number, 1 or more, alone or with `KiB`, `MiB` or `GiB`";
            let most = schema.get("maximum").map(|most| format!(" from 1 to {most}"));
            Some((format!("a number of bytes{}", most.unwrap_or_default()), help))
        }
        "^.+:[0-9]+$" => {
            let help = "write `HOST:PORT`, such as `0.0.0.0:9000`, `[::1]:9000` or `logs.example.com:9000`";
            Some(("an address with its port".to_owned(), help))
        }
        _ => None,
    }
}

/// Returns the expected types and advice, for a value of another type.
pub(super) fn expected_type(types: &[JsonType], found: &Value) -> (String, Option<String>) {
    (types_in_words(types), wrong_type_help(types, found))
}

fn types_of(kind: &TypeKind) -> Vec<JsonType> {
    match kind {
        TypeKind::Single(single) => vec![*single],
        TypeKind::Multiple(several) => several.iter().collect(),
    }
}

/// Returns the description of the type that an alternative expects. `schema` is the schema of the alternative.
pub(super) fn alternative(error: &ValidationError<'_>, schema: Option<&Value>) -> String {
    let Kind::Type { kind } = error.kind() else { return "another value".to_owned() };
    let types = types_in_words(&types_of(kind));
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let keys: Vec<_> =
        required.into_iter().flatten().filter_map(Value::as_str).map(quote).collect();
    match keys.as_slice() {
        [] => types,
        [key] => format!("{types} with the key {key}"),
        keys => format!("{types} with the keys {}", keys.join(" and ")),
    }
}

fn types_in_words(types: &[JsonType]) -> String {
    // `null` is left out: the file has a value here, so its author probably did not mean `null`.
    let named: Vec<_> = types
        .iter()
        .filter(|kind| types.len() == 1 || **kind != JsonType::Null)
        // If the expected types include numbers, whole numbers are not named separately.
        .filter(|kind| **kind != JsonType::Integer || !types.contains(&JsonType::Number))
        .map(|kind| match kind {
            JsonType::Array => "a list",
            JsonType::Boolean => "true or false",
            JsonType::Integer => "a whole number",
            JsonType::Null => "nothing",
            JsonType::Number => "a number",
            JsonType::Object => "a map",
            JsonType::String => "a text",
        })
        .collect();
    named.join(" or ")
}

fn wrong_type_help(types: &[JsonType], found: &Value) -> Option<String> {
    let expects = |kind| types.contains(&kind);
    let help = match found {
        Value::String(text) => {
            let yes_or_no = ["yes", "no", "on", "off", "y", "n", "true", "false"];
            let number = expects(JsonType::Integer) || expects(JsonType::Number);
            if expects(JsonType::Boolean) && yes_or_no.contains(&text.to_lowercase().as_str()) {
                "YAML 1.2 knows only `true` and `false`, without quotes"
            } else if number && text.parse::<f64>().is_ok() {
                "write it without quotes"
            } else if expects(JsonType::Array) {
                "put it in `[…]` for a list of one item"
            } else {
                return None;
            }
        }
        Value::Number(_) | Value::Bool(_) if expects(JsonType::String) => {
            "put it in quotes if it is meant as a text"
        }
        _ => return None,
    };
    Some(help.to_owned())
}

/// Returns the values as "`a`, `b` or `c`", with "one of" before them if there are several.
pub(super) fn one_of(values: &[&Value]) -> String {
    one_of_texts(values.iter().map(|one| value(one)).collect())
}

/// Returns the texts in the form of [`one_of`].
pub(super) fn one_of_texts(mut shown: Vec<String>) -> String {
    shown.sort_unstable();
    shown.dedup();
    match shown.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("one of {} or {last}", firsts.join(", ")),
    }
}

/// Returns a value as messages show it.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => quote(&other.to_string()),
    }
}

/// Value for which several alternatives expect different constants.
pub(super) struct Choice<'e> {
    /// JSON pointer to the value.
    pub(super) pointer: &'e str,
    /// Permitted values.
    pub(super) values: Vec<&'e Value>,
}

/// Recognises alternatives that all fail because one value matches none of the constants that they expect.
///
/// The alternatives may be the variants of an enumeration. If it is a tagged enumeration, the value is the tag.
pub(super) fn choice<'e>(alternatives: &'e [Vec<ValidationError<'static>>]) -> Option<Choice<'e>> {
    let mut choice: Option<Choice<'e>> = None;
    for errors in alternatives {
        let tag = errors
            .iter()
            .find_map(|error| Some((error.instance_path().as_str(), constants(error)?)));
        let Some((pointer, values)) = tag else {
            if is_null(errors) {
                continue;
            }
            return None;
        };
        let choice = choice.get_or_insert(Choice { pointer, values: Vec::new() });
        if choice.pointer != pointer {
            return None;
        }
        choice.values.extend(values);
    }
    choice
}

/// Returns the constants that the keyword expected, if it expects constants.
fn constants<'e>(error: &'e ValidationError<'static>) -> Option<Vec<&'e Value>> {
    match error.kind() {
        Kind::Constant { expected_value } => Some(vec![expected_value]),
        Kind::Enum { options } => Some(options.as_array()?.iter().collect()),
        _ => None,
    }
}

/// Alternatives of which some are constants and the others are maps or lists.
pub(super) struct Mixed<'e> {
    pub(super) constants: Vec<&'e Value>,
    /// Errors of the alternatives of another type than the value.
    pub(super) others: Vec<&'e ValidationError<'static>>,
}

/// Recognises alternatives that all fail because the value at `pointer` is none of the constants that some of them
/// expect, and has not the type that the others expect.
pub(super) fn mixed<'e>(
    alternatives: &'e [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<Mixed<'e>> {
    let mut mixed = Mixed { constants: Vec::new(), others: Vec::new() };
    for errors in alternatives.iter().filter(|errors| !is_null(errors)) {
        let own = || errors.iter().filter(|error| error.instance_path().as_str() == pointer);
        match own().find_map(constants) {
            Some(constants) => mixed.constants.extend(constants),
            None => mixed.others.push(own().find(|it| matches!(it.kind(), Kind::Type { .. }))?),
        }
    }
    (!mixed.constants.is_empty() && !mixed.others.is_empty()).then_some(mixed)
}

/// Returns the errors of the alternative that was probably meant: the only alternative for which the value at `pointer`
/// has the right type and the right tag.
pub(super) fn meant<'e>(
    alternatives: &'e [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<&'e [ValidationError<'static>]> {
    let fits = |errors: &&Vec<ValidationError<'static>>| {
        !errors.iter().any(|error| match error.kind() {
            Kind::Type { .. } => error.instance_path().as_str() == pointer,
            Kind::Constant { .. } => true,
            _ => false,
        })
    };
    let mut fitting = alternatives.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Returns the expected types if all alternatives fail because the value at `pointer` has the wrong type.
pub(super) fn types(
    alternatives: &[Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<Vec<JsonType>> {
    let mut types = Vec::new();
    for errors in alternatives {
        let own = errors.iter().find_map(|error| match error.kind() {
            Kind::Type { kind } if error.instance_path().as_str() == pointer => {
                Some(types_of(kind))
            }
            _ => None,
        });
        types.extend(own?);
    }
    types.sort_unstable();
    types.dedup();
    Some(types)
}

fn is_null(errors: &[ValidationError<'static>]) -> bool {
    matches!(errors, [error] if matches!(
        error.kind(),
        Kind::Type { kind: TypeKind::Single(JsonType::Null) }
    ))
}
