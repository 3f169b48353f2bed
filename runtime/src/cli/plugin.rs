//! `tremor plugin`: lists and describes plugins, without loading them.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use tremor_runtime::plugin::{Describer, Library, Registry, SearchPath};

use super::{Failure, PluginArguments};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists the plugins in the plugin path.
    List {
        /// A folder or file to search before the plugin path.
        path: Option<PathBuf>,
    },
    /// Describes a library: its metadata, its components and their configurations.
    Inspect {
        /// The library, or the name of a connector.
        path: PathBuf,
    },
}

pub(crate) fn execute(command: Command, plugins: &PluginArguments) -> Result<(), Failure> {
    match command {
        Command::List { path } => list(path, plugins),
        Command::Inspect { path } => inspect(&path, plugins),
    }
}

fn scan(path: Option<PathBuf>, plugins: &PluginArguments) -> Result<Registry, Failure> {
    let given = path.map(|path| SearchPath::new(path, "the command line"));
    let paths: Vec<SearchPath> = given.into_iter().chain(plugins.search_paths()).collect();
    let mut failure = Failure::default();
    if paths.is_empty() {
        failure.usage(
            &"error: there is no folder to search for plugins\n  help: name one, as PATH, with \
              `--plugin-path`, or in TREMOR_PLUGIN_PATH",
        );
    }
    let (registry, problems) = Registry::scan(&paths);
    for problem in problems {
        eprintln!("warning: {problem}");
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

fn inspect(path: &Path, plugins: &PluginArguments) -> Result<(), Failure> {
    let mut failure = Failure::default();
    let library = if path.components().count() == 1 && !path.exists() {
        let name = path.to_string_lossy().into_owned();
        match scan(None, plugins)?.find("connector", &name) {
            Ok(Some(library)) => library.clone(),
            Ok(None) => {
                failure.usage(&format_args!(
                    "error: there is no file and no connector `{name}`\n  help: `tremor plugin \
                     list` lists all components"
                ));
                return Err(failure);
            }
            Err(error) => {
                failure.usage(&format_args!("error: {error}"));
                return Err(failure);
            }
        }
    } else {
        match Library::inspect(path) {
            Ok(library) => library,
            Err(error) => {
                failure.usage(&format_args!("error: {error}"));
                return Err(failure);
            }
        }
    };
    print(&description(&library, plugins))
}

fn description(library: &Library, plugins: &PluginArguments) -> String {
    let metadata = library.metadata();
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("library", &library.path().display());
    line("name", &metadata.name);
    line("version", &metadata.version);
    line("description", &metadata.description);
    line("abi", &metadata.abi);
    line("pdk", &metadata.pdk);
    line("panic", &metadata.panic);
    line("hash", &library.hash());
    let checked = library.check(plugins.policy());
    match &checked {
        Ok(()) => line("loads", &"yes, as far as the file shows"),
        Err(error) => line("loads", &format_args!("no: {error}")),
    }
    for artefact in &metadata.artefacts {
        let kind = &artefact.kind;
        line(kind, &format_args!("{} - {}", artefact.name, artefact.description));
        if let Some(codec) = &artefact.codec {
            let default = artefact.default_codec.as_deref();
            let default = default.map(|default| format!(", default {default}")).unwrap_or_default();
            line("  codec", &format_args!("{codec}{default}"));
        }
        if checked.is_err() {
            continue;
        }
        match Describer::new(plugins.policy()).config_schema(library, kind, &artefact.name) {
            Ok(Some(schema)) => line("  config", &format_args!("{schema:#}")),
            Ok(None) => line("  config", &"anything"),
            Err(error) => line("  config", &format_args!("unknown: {error}")),
        }
    }
    text
}

/// Writes a result to stdout; a closed pipe only ends the output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::of_flow(format_args!("error: cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
