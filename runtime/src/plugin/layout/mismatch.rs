//! Short descriptions of layout mismatches. The text of `abi_stable` for a single added method is 15 KB long.

use std::fmt::{Display, Write};

use abi_stable::{
    abi_stability::abi_checking::{AbiInstability, AbiInstabilityError, AbiInstabilityErrors},
    type_layout::{TLField, TLFieldOrFunction, TypeLayout},
};
use tremor_abi::version::AbiVersion;

use crate::plugin::{Error, ErrorKind, Library};

/// Maximum length of the description of a field, in characters.
const FIELD: usize = 120;

/// Describes why the layout of `library` does not fit.
///
/// In the terms of `abi_stable`, the plugin's module is the interface and the host's module the implementation.
/// `expected` is therefore the plugin's type.
pub(super) fn mismatch(library: &Library, errors: &AbiInstabilityErrors) -> Error {
    let (location, difference, others) = describe(errors);
    let mut message =
        format!("its types are laid out differently from this tremor's\n  {location}");
    // Writing to a string cannot fail.
    let _ = write!(message, "\n  differs:  {difference}");
    if others > 0 {
        let _ = write!(message, "\n  … and {others} more differences");
    }
    let (plugin, host) = (library.abi_version(), AbiVersion::CURRENT);
    let _ = write!(
        message,
        "\n  plugin:   ABI {plugin}, tremor-pdk {}\n  tremor:   ABI {host}",
        library.metadata().pdk.as_deref().unwrap_or("unknown")
    );
    Error::new(ErrorKind::Layout, library.path(), message).help(format!(
        "rebuild the plugin with an unchanged `tremor-pdk` for ABI {host}, from a clean build"
    ))
}

/// Returns the type that differs, the difference, and the number of further differences.
fn describe(errors: &AbiInstabilityErrors) -> (String, String, usize) {
    let differing: Vec<_> = errors.errors.iter().filter(|error| !error.errs.is_empty()).collect();
    // The innermost difference is the cause. Types that contain it differ only because of it.
    let deepest = differing.iter().map(|error| error.stack_trace.len()).max().unwrap_or(0);
    let Some(cause) = differing.iter().find(|error| error.stack_trace.len() == deepest) else {
        return (String::new(), "abi_stable gave no details".to_owned(), 0);
    };
    let types = types(errors, cause);
    let location = match types.last() {
        Some((plugin, _)) => format!("type:     `{}`{}", plugin.full_type(), containers(&types)),
        None => String::new(),
    };
    let difference = types
        .last()
        .and_then(|(plugin, host)| fields(plugin, host))
        .or_else(|| cause.errs.first().map(instability))
        .unwrap_or_default();
    (location, difference, differing.len() - 1)
}

/// Type in the plugin and the corresponding type in the host.
type Pair = (&'static TypeLayout, &'static TypeLayout);

/// Returns the types on the path from the root module to the type that differs.
///
/// If a field has an entirely different type, the difference counts as one of the type that contains the field.
fn types(errors: &AbiInstabilityErrors, cause: &AbiInstabilityError) -> Vec<Pair> {
    let steps = cause.stack_trace.iter().filter_map(|step| match (&step.expected, &step.found) {
        (TLFieldOrFunction::Field(plugin), TLFieldOrFunction::Field(host)) => {
            Some((plugin.layout(), host.layout()))
        }
        _ => None,
    });
    let mut types: Vec<Pair> = vec![(errors.interface, errors.implementation)];
    types.extend(steps);
    let is_other = |(plugin, host): &Pair| plugin.name() != host.name();
    while types.len() > 1 && types.last().is_some_and(is_other) {
        types.pop();
    }
    types
}

/// Returns the last few types that contain the type that differs.
///
/// Only types of this project are included. Types of `abi_stable`, such as pointers and tables of functions, do not
/// help to find the cause.
fn containers(types: &[Pair]) -> String {
    const SHOWN: usize = 4;
    let around = types[..types.len() - 1].iter().map(|(plugin, _)| plugin);
    let ours =
        around.filter(|plugin| plugin.package() == "tremor-abi" && plugin.name() != "VTable");
    let mut names: Vec<_> = ours.map(|plugin| plugin.name()).collect();
    names.dedup();
    match &names[names.len().saturating_sub(SHOWN)..] {
        [] => String::new(),
        last => format!(", in {}", last.join(" > ")),
    }
}

/// Returns a description of the first field in which two types differ.
fn fields(plugin: &'static TypeLayout, host: &'static TypeLayout) -> Option<String> {
    let all = |layout: &'static TypeLayout| -> Vec<TLField> {
        layout.get_fields().map(|fields| fields.iter().collect()).unwrap_or_default()
    };
    let (plugins, hosts) = (all(plugin), all(host));
    for position in 0..plugins.len().max(hosts.len()) {
        let described = match (plugins.get(position), hosts.get(position)) {
            (Some(plugin), Some(host)) if text(plugin) != text(host) => {
                format!(
                    "field {}: {} in the plugin, {} in this tremor",
                    position + 1,
                    text(plugin),
                    text(host)
                )
            }
            (Some(plugin), None) => format!("field {} is unknown to this tremor", text(plugin)),
            (None, Some(host)) => format!("field {} is missing in the plugin", text(host)),
            _ => continue,
        };
        return Some(described);
    }
    None
}

fn text(field: &TLField) -> String {
    format!("`{}: {}`", field.name(), shortened(field.full_type()))
}

fn shortened(text: impl Display) -> String {
    let text = text.to_string();
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(FIELD) {
        words.truncate(end);
        words.push('…');
    }
    words
}

fn instability(error: &AbiInstability) -> String {
    fn both(what: &str, plugin: impl Display, host: impl Display) -> String {
        format!("{what} {} in the plugin, {} in this tremor", shortened(plugin), shortened(host))
    }
    match error {
        AbiInstability::Size(pair) => both("size in bytes:", pair.expected, pair.found),
        AbiInstability::Alignment(pair) => both("alignment:", pair.expected, pair.found),
        AbiInstability::Name(pair) => both("type", pair.expected, pair.found),
        AbiInstability::Package(pair) => both("of package", pair.expected, pair.found),
        AbiInstability::PackageVersion(pair) => {
            both("of package version", pair.expected.version, pair.found.version)
        }
        AbiInstability::FieldCountMismatch(pair) => {
            both("number of fields:", pair.expected, pair.found)
        }
        AbiInstability::MismatchedPrefixSize(pair) => {
            both("number of fields that always exist:", pair.expected, pair.found)
        }
        AbiInstability::UnexpectedField(pair) => {
            both("field", pair.expected.name(), pair.found.name())
        }
        AbiInstability::TooManyVariants(pair) => {
            both("number of variants:", pair.expected, pair.found)
        }
        AbiInstability::UnexpectedVariant(pair) => both("variant", pair.expected, pair.found),
        other => shortened(format!("{other:?}")),
    }
}
