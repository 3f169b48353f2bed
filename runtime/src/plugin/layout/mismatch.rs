//! Layout mismatches on one screen: `abi_stable`'s own text for one added method is 15 KB.

use std::fmt::{Display, Write};

use abi_stable::{
    abi_stability::abi_checking::{AbiInstability, AbiInstabilityError, AbiInstabilityErrors},
    type_layout::{TLField, TLFieldOrFunction, TypeLayout},
};
use tremor_abi::version::AbiVersion;

use crate::plugin::{Error, ErrorKind, Library};

/// How long a description of a field may be, in characters.
const FIELD: usize = 120;

/// Renders what is wrong with the layout of `library`. The check's interface was the plugin's
/// module, its implementation the host's: what `abi_stable` calls expected is the plugin's.
pub(super) fn mismatch(library: &Library, errors: &AbiInstabilityErrors) -> Error {
    let (place, difference, others) = describe(errors);
    let mut message = format!("its types are laid out differently from this tremor's\n  {place}");
    // Writing to a string cannot fail.
    let _ = write!(message, "\n  differs:  {difference}");
    if others > 0 {
        let _ = write!(message, "\n  … and in {others} more places");
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

/// Where the difference is, what it is, and in how many more places there is one.
fn describe(errors: &AbiInstabilityErrors) -> (String, String, usize) {
    let told: Vec<_> = errors.errors.iter().filter(|error| !error.errs.is_empty()).collect();
    // The innermost is the cause; what contains it differs because it does.
    let deepest = told.iter().map(|error| error.stack_trace.len()).max().unwrap_or(0);
    let Some(cause) = told.iter().find(|error| error.stack_trace.len() == deepest) else {
        return (String::new(), "abi_stable does not say how".to_owned(), 0);
    };
    let types = types(errors, cause);
    let place = match types.last() {
        Some((plugin, _)) => format!("type:     `{}`{}", plugin.full_type(), way(&types)),
        None => String::new(),
    };
    let difference = types
        .last()
        .and_then(|(plugin, host)| fields(plugin, host))
        .or_else(|| cause.errs.first().map(instability))
        .unwrap_or_default();
    (place, difference, told.len() - 1)
}

/// A type as it is in the plugin and in the host.
type Pair = (&'static TypeLayout, &'static TypeLayout);

/// The types on the way from the root module to the one that differs. A field that has another
/// type altogether makes a difference of the type that it is a field of.
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

/// The last few types around the one that differs: ours, since those of `abi_stable` (pointers,
/// tables of functions) say nothing.
fn way(types: &[Pair]) -> String {
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

/// The first field in which two types differ.
fn fields(plugin: &'static TypeLayout, host: &'static TypeLayout) -> Option<String> {
    let all = |layout: &'static TypeLayout| -> Vec<TLField> {
        layout.get_fields().map(|fields| fields.iter().collect()).unwrap_or_default()
    };
    let (plugins, hosts) = (all(plugin), all(host));
    for position in 0..plugins.len().max(hosts.len()) {
        let told = match (plugins.get(position), hosts.get(position)) {
            (Some(plugin), Some(host)) if text(plugin) != text(host) => {
                format!(
                    "field {}: {} in the plugin, {} here",
                    position + 1,
                    text(plugin),
                    text(host)
                )
            }
            (Some(plugin), None) => format!("field {} is not known here", text(plugin)),
            (None, Some(host)) => format!("field {} is missing in the plugin", text(host)),
            _ => continue,
        };
        return Some(told);
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
        format!("{what} {} in the plugin, {} here", shortened(plugin), shortened(host))
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
            both("number of fields that are always there:", pair.expected, pair.found)
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
