//! Files of a new plugin, rendered from the templates in `runtime/templates/plugin`.

use minijinja::{Environment, Error, UndefinedBehavior, Value, context, syntax::SyntaxConfig};

use super::{Kind, Name};

macro_rules! template {
    ($($path:literal),+) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/plugin/", $($path,)+ ".j2"))
    };
}

/// The parts of a plugin that depend on its kind: description, template of the code, and template of the flow.
pub(super) struct Example {
    description: &'static str,
    pub(super) code: &'static str,
    flow: &'static str,
}

macro_rules! example {
    ($kind:literal, $description:literal) => {
        Example {
            description: $description,
            code: template!($kind, "/lib.rs"),
            flow: template!($kind, "/flow.yaml"),
        }
    };
}

impl Example {
    pub(super) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Source => example!("source", "Counts down."),
            Kind::Sink => example!("sink", "Writes events to the log."),
            Kind::Connector => example!("connector", "Counts down, and writes events to the log."),
            Kind::Operator => example!("operator", "Keeps one of every few events."),
            Kind::Codec => example!("codec", "Decodes and encodes words like `key=value`."),
            Kind::Preprocessor => example!("preprocessor", "Splits streams at a separator."),
            Kind::Postprocessor => example!("postprocessor", "Starts each message with a prefix."),
        }
    }
}

/// Returns the files, each with its path in the folder of the plugin. `dependency` is the content of the TOML table of
/// the dependency on `tremor-pdk`.
///
/// # Errors
/// A template is invalid, which a test rules out.
pub(super) fn render(
    name: &Name,
    kind: Kind,
    dependency: &str,
) -> Result<[(&'static str, String); 5], Error> {
    let example = Example::of(kind);
    let values = context! {
        name => name.as_str(),
        type => name.type_name(),
        description => example.description,
        kind => kind.component().as_str(),
        pdk => dependency,
    };
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
    let render = |template: &str, values: &Value| environment.render_str(template, values.clone());
    Ok([
        (".gitignore", render(template!("gitignore"), &values)?),
        ("Cargo.toml", render(template!("Cargo.toml"), &values)?),
        ("README.md", render(template!("README.md"), &values)?),
        ("flow.yaml", render(example.flow, &values)?),
        ("src/lib.rs", render(example.code, &values)?),
    ])
}
