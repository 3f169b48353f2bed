//! `tremor plugin`: lists, describes and verifies plugins, and creates new ones. Only child processes load plugins.

mod new;

use std::{
    fmt::Write as _,
    io::Write as _,
    iter,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};
use tremor_runtime::components::shadowed;
use tremor_runtime::plugin::{ArtefactMetadata, Describer, Error, Library, Registry, SearchPath};

use super::{Failure, PluginArguments, keys, logging, verify};

/// Kinds of components, as in metadata.
const KINDS: [&str; 5] = ["connector", "operator", "codec", "preprocessor", "postprocessor"];

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Creates the crate of a new plugin, which builds, passes its test and runs in a flow.
    New(new::Arguments),
    /// Lists the plugins in the plugin path.
    List {
        /// Folder or file to search before the plugin path.
        path: Option<PathBuf>,
    },
    /// Describes a library: its metadata, its components and their configurations.
    Inspect {
        /// Library, manifest of an executable, or name of a component.
        path: PathBuf,
        /// Prints JSON, with the schema of each configuration.
        #[arg(long)]
        json: bool,
    },
    /// Checks that a library and its components keep the contract of plugins.
    Verify(verify::Arguments),
}

pub(crate) fn execute(command: Command, plugins: &PluginArguments) -> Result<(), Failure> {
    match command {
        Command::New(arguments) => new::execute(&arguments, plugins),
        Command::List { path } => list(path, plugins),
        Command::Inspect { path, json } => inspect(&path, json, plugins),
        Command::Verify(arguments) => {
            let (text, result) = verify::execute(&arguments, plugins)?;
            print(&text).and(result)
        }
    }
}

fn scan(path: Option<PathBuf>, plugins: &PluginArguments) -> Result<Registry, Failure> {
    let paths: Vec<SearchPath> = match path.map(|path| SearchPath::new(path, "the command line")) {
        Some(given) => iter::once(given).chain(plugins.named_paths()).collect(),
        None => plugins.search_paths(),
    };
    let mut failure = Failure::default();
    if paths.iter().all(|it| it.is_fallback && !it.path.exists()) {
        let missing = paths.iter().map(|it| format!("`{}`", it.path.display()));
        failure.usage(&format_args!(
            "error: there is no folder to search for plugins: cannot find {}\n  help: name one, as PATH, with \
             `--plugin-path`, or in TREMOR_PLUGIN_PATH",
            missing.collect::<Vec<_>>().join(" and ")
        ));
    }
    let (registry, problems) = Registry::scan(&paths);
    for problem in problems.into_iter().chain(shadowed(&registry)) {
        logging::warn(&problem);
    }
    failure.or(registry)
}

fn list(path: Option<PathBuf>, plugins: &PluginArguments) -> Result<(), Failure> {
    let registry = scan(path, plugins)?;
    let mut rows = vec![["KIND", "NAME", "PLUGIN", "VERSION", "ABI", "LIBRARY"].map(str::to_owned)];
    for library in registry.libraries() {
        let metadata = library.metadata();
        for artefact in &metadata.artefacts {
            rows.push([
                artefact.kind.clone(),
                artefact.name.clone(),
                metadata.name.clone(),
                metadata.version.clone(),
                metadata.abi.clone(),
                library.path().display().to_string(),
            ]);
        }
    }
    print(&table(&rows))
}

fn table(rows: &[[String; 6]]) -> String {
    let mut text = String::new();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn inspect(path: &Path, json: bool, plugins: &PluginArguments) -> Result<(), Failure> {
    let library = find(path, plugins)?;
    let inspected = Inspected::new(&library, plugins);
    print(&if json { inspected.json() } else { inspected.text() })
}

/// Finds a library by its path, or by the name of a component.
fn find(path: &Path, plugins: &PluginArguments) -> Result<Library, Failure> {
    let wrong = |error: Error| Failure::of_usage(format_args!("error: {error}"));
    if path.components().count() != 1 || path.exists() {
        return Library::inspect(path).map_err(wrong);
    }
    let (name, registry) = (path.to_string_lossy(), scan(None, plugins)?);
    match KINDS.iter().find_map(|kind| registry.find(kind, &name).transpose()) {
        Some(found) => found.cloned().map_err(wrong),
        None => Err(Failure::of_usage(format_args!(
            "error: there is no file and no component `{name}`\n  help: `tremor plugin list` lists all \
             components"
        ))),
    }
}

/// Library with the descriptions of its configurations.
struct Inspected<'l> {
    library: &'l Library,
    /// Reason why the library cannot be loaded, as far as that is known without loading it.
    objection: Option<Error>,
    components: Vec<Component<'l>>,
}

/// Component with the schema of its configuration; `None` if the library cannot be loaded.
struct Component<'l> {
    metadata: &'l ArtefactMetadata,
    schema: Option<Result<Option<Json>, Error>>,
}

impl<'l> Inspected<'l> {
    fn new(library: &'l Library, plugins: &PluginArguments) -> Self {
        let objection = library.check(plugins.policy()).err();
        let describer = Describer::new(plugins.policy());
        let component = |metadata: &'l ArtefactMetadata| {
            let ask = || describer.config_schema(library, &metadata.kind, &metadata.name);
            Component { metadata, schema: objection.is_none().then(ask) }
        };
        let components = library.metadata().artefacts.iter().map(component).collect();
        Self { library, objection, components }
    }

    fn text(&self) -> String {
        let metadata = self.library.metadata();
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        line("library", &self.library.path().display());
        line("name", &metadata.name);
        line("version", &metadata.version);
        line("description", &metadata.description);
        line("abi", &metadata.abi);
        line("interface", &metadata.interface);
        if let Some(pdk) = &metadata.pdk {
            line("pdk", pdk);
        }
        if let Some(panic) = &metadata.panic {
            line("panic", panic);
        }
        if let Some(command) = self.library.command() {
            line("command", &command.join(" "));
        }
        match self.library.hash() {
            Some(hash) => line("hash", &hash),
            None => line("hash", &"unknown: the file has changed since it was read"),
        }
        match &self.objection {
            None => line("loads", &"yes, according to the checks before loading"),
            Some(error) => line("loads", &format_args!("no: {error}")),
        }
        for Component { metadata: component, schema } in &self.components {
            line(&component.kind, &format_args!("{} - {}", component.name, component.description));
            if let Some(codec) = &component.codec {
                let default = component.default_codec.as_deref();
                let default =
                    default.map(|default| format!(", default {default}")).unwrap_or_default();
                line("  codec", &format_args!("{codec}{default}"));
            }
            match schema {
                None => {}
                Some(Ok(Some(schema))) => line("  config", &keys::text(schema, 4)),
                Some(Ok(None)) => line("  config", &"anything"),
                Some(Err(error)) => line("  config", &format_args!("unknown: {error}")),
            }
        }
        text
    }

    fn json(&self) -> String {
        let component = |component: &Component<'_>| {
            let schema = component.schema.as_ref();
            let ArtefactMetadata { kind, name, description, codec, default_codec, .. } =
                component.metadata;
            json!({
                "kind": kind, "name": name, "description": description,
                "codec": codec, "default_codec": default_codec,
                "config": schema.and_then(|schema| schema.as_ref().ok()),
                "error": schema.and_then(|schema| Some(schema.as_ref().err()?.to_string())),
            })
        };
        let metadata = self.library.metadata();
        let all = json!({
            "library": self.library.path(), "name": metadata.name, "version": metadata.version,
            "description": metadata.description, "abi": metadata.abi,
            "interface": metadata.interface, "pdk": metadata.pdk, "panic": metadata.panic,
            "command": self.library.command(),
            "hash": self.library.hash().as_ref().map(ToString::to_string),
            "error": self.objection.as_ref().map(ToString::to_string),
            "components": self.components.iter().map(component).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}

/// Writes a result to stdout. A closed pipe is not an error, but ends the output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::of_flow(format_args!("error: cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
