//! `tremor plugin new`: creates the crate of a plugin, which builds, passes its test and runs. Or a plugin in Python.

mod name;
mod python;
mod templates;

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{self, Path, PathBuf},
};

use tremor_runtime::flow;

use self::{name::Name, templates::Example};
use super::{super::Failure, PluginArguments, print};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the crate, and of its component in flow files.
    name: String,
    /// Kind of the plugin. A plugin in Python is a source, the default, or a sink.
    #[arg(long, value_enum, required_unless_present = "lang")]
    kind: Option<Kind>,
    /// Language of the plugin.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Folder to create; by default, a folder with the plugin's name in the current folder.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// `tremor-pdk` to build with: a version, the folder of that crate, or the URL of a git repository that
    /// contains it. By default, the crate in the clone of tremor that contains this program.
    #[arg(long, value_name = "VERSION|DIR|URL")]
    pdk: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    Rust,
    Python,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Source,
    Sink,
    Connector,
    Operator,
    Codec,
    Preprocessor,
    Postprocessor,
}

impl Kind {
    /// Returns the kind of the component: sources and sinks are connectors in flow files.
    fn component(self) -> flow::Kind {
        match self {
            Self::Source | Self::Sink | Self::Connector => flow::Kind::Connector,
            Self::Operator => flow::Kind::Operator,
            Self::Codec => flow::Kind::Codec,
            Self::Preprocessor => flow::Kind::Preprocessor,
            Self::Postprocessor => flow::Kind::Postprocessor,
        }
    }
}

pub(super) fn execute(arguments: &Arguments, plugins: &PluginArguments) -> Result<(), Failure> {
    let Arguments { name, kind, lang, path, pdk } = arguments;
    if *lang == Language::Python {
        return python::execute(name, *kind, path.as_deref(), pdk.as_deref(), plugins);
    }
    let Some(kind) = *kind else {
        return Err(Failure::of_usage(format_args!(
            "error: `--kind` is missing\n  help: add the kind of the plugin, such as `--kind source`"
        )));
    };
    let name = Name::parse(name, kind, Example::of(kind).code)?;
    let pdk = &*pdk.clone().or_else(kit_of_clone).ok_or_else(no_kit)?;
    let folder = path.clone().unwrap_or_else(|| name.as_str().into());
    let dependency = dependency(pdk)?;
    let files = templates::render(&name, kind, &dependency).map_err(|error| {
        Failure::of_usage(format_args!("error: cannot render the templates: {error}"))
    })?;
    write(&folder, &files)?;
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    print(&format!(
        "created {folder}: {names}\n\nNext:\n\n  cd {folder}\n  cargo test\n  cargo build\n  \
         {run}\n{notes}",
        folder = quoted(&folder),
        names = names.join(", "),
        run = run_command(plugins),
        notes = notes(pdk, &dependency, plugins),
    ))
}

/// Returns the error that the kit is missing. The kit has to be given, because no version of it has been published.
fn no_kit() -> Failure {
    Failure::of_usage(format_args!(
        "error: cannot find the crate `tremor-pdk`: it is not on crates.io yet, and this program is not in a \
         clone of tremor\n  help: add `--pdk DIR`, where DIR is the folder `tremor-pdk` of a clone, or `--pdk URL` \
         with the URL of a git repository"
    ))
}

/// Returns the folder of the kit in the clone that contains this program, if there is one.
fn kit_of_clone() -> Option<String> {
    let program = env::current_exe().ok()?;
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join("tremor-pdk"));
    folders.find(|folder| is_kit(folder))?.into_os_string().into_string().ok()
}

/// Returns whether the folder contains the crate of the kit.
fn is_kit(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|manifest| manifest.contains("name = \"tremor-pdk\""))
}

/// Returns the dependency on `tremor-pdk` as the content of a TOML table.
fn dependency(pdk: &str) -> Result<String, Failure> {
    // JSON and TOML have the same syntax for these texts.
    let text = |text: &str| serde_json::Value::from(text).to_string();
    if pdk.starts_with(|first: char| first.is_ascii_digit() || "=^~".contains(first)) {
        return Ok(format!("version = {}", text(pdk)));
    }
    if pdk.contains("://") {
        return Ok(format!("git = {}", text(pdk)));
    }
    if !is_kit(Path::new(pdk)) {
        return Err(Failure::of_usage(format_args!(
            "error: {pdk}: there is no crate `tremor-pdk` in this folder\n  help: give `--pdk` the \
             folder `tremor-pdk` of a clone of tremor, a version or a URL"
        )));
    }
    let folder = path::absolute(pdk).map_err(|error| cannot_make(Path::new(pdk), &error))?;
    Ok(format!("path = {}", text(&folder.to_string_lossy())))
}

/// Creates the folder with these files. Returns an error if the folder exists.
fn write<P: AsRef<Path>>(folder: &Path, files: &[(P, String)]) -> Result<(), Failure> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|error| cannot_make(parent, &error))?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::of_usage(format_args!(
            "error: {}: the folder already exists, and nothing in it was changed\n  help: choose another name, \
             or another folder with `--path`",
            folder.display()
        )),
        _ => cannot_make(folder, &error),
    })?;
    for (name, text) in files {
        let path = folder.join(name);
        let written = fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| File::create_new(&path)?.write_all(text.as_bytes()));
        written.map_err(|error| cannot_make(&path, &error))?;
    }
    Ok(())
}

fn cannot_make(path: &Path, error: &io::Error) -> Failure {
    Failure::of_usage(format_args!(
        "error: {}: {error}\n  help: set the folder of the plugin with `--path`, and that of its kit with `--pdk`",
        path.display()
    ))
}

/// Returns the command that runs the flow with this program. The command names the plugins next to this program, unless
/// the user named other plugins.
fn run_command(plugins: &PluginArguments) -> String {
    let program = env::current_exe().unwrap_or_default();
    let tremor = if is_on_path() { "tremor".to_owned() } else { quoted(&program) };
    let mut folders = plugins.paths.clone();
    // The command runs in another folder, so relative paths in the variable are made absolute.
    let variable = env::var_os("TREMOR_PLUGIN_PATH").unwrap_or_default();
    folders.extend(env::split_paths(&variable).filter(|it| it.is_relative() && it.exists()));
    if plugins.named_paths().is_empty() {
        folders.extend(program.parent().filter(|folder| has_plugins(folder)).map(Path::to_owned));
    }
    let folders = folders.iter().map(|folder| path::absolute(folder).unwrap_or(folder.clone()));
    let options: Vec<_> =
        folders.map(|folder| format!("--plugin-path {} ", quoted(&folder))).collect();
    format!("{tremor} run {}flow.yaml", options.concat())
}

/// Returns whether the program was started by its name alone, so that the shell finds it in every folder.
fn is_on_path() -> bool {
    let name = env::args_os().next().unwrap_or_default();
    let paths = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&paths);
    Path::new(&name).components().count() == 1
        && folders.any(|folder| folder.is_absolute() && folder.join(&name).is_file())
}

fn has_plugins(folder: &Path) -> bool {
    let [prefix, suffix] = [env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX];
    folder.join(format!("{prefix}connector_stdio{suffix}")).is_file()
}

/// Returns notes for the user about a version of the kit that may not be published, and about plugins that were not
/// found.
fn notes(pdk: &str, dependency: &str, plugins: &PluginArguments) -> String {
    let mut notes = Vec::new();
    if dependency.starts_with("version") {
        notes.push(format!(
            "\nIf cargo does not find `tremor-pdk` {pdk}, this version is not published. Then create the \
             plugin again\nwith `--pdk DIR`: DIR is the folder `tremor-pdk` of a clone of tremor.\n"
        ));
    }
    notes.push(notes_of_path(plugins));
    notes.concat()
}

/// Returns a note about plugins that were not found; empty if they were.
fn notes_of_path(plugins: &PluginArguments) -> String {
    let beside = env::current_exe().is_ok_and(|it| it.parent().is_some_and(has_plugins));
    if plugins.search_paths().iter().all(|it| !it.path.exists()) && !beside {
        return "\nThe flow also uses plugins that come with tremor. Name their folder with \
             `--plugin-path DIR`,\nor in the variable TREMOR_PLUGIN_PATH.\n"
            .to_owned();
    }
    String::new()
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
