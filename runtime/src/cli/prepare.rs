//! Preparation of flows: reads the flow files of the command line, and finds the components that the flows use.

use std::{
    cell::RefCell,
    collections::HashSet,
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tracing::Level;
#[cfg(not(feature = "link-static"))]
use tremor_runtime::plugin::{Describer, ErrorKind};
use tremor_runtime::{
    components::Components,
    flow::{self, Draft, Environment, Flow},
    plugin::{Error, Policy, SearchPath},
};

use super::{Failure, Prepared, logging};

/// Environment variable with folders and files to search for plugins, after those of the command line.
const VARIABLE: &str = "TREMOR_PLUGIN_PATH";

/// Folder of installed plugins, below a folder `lib`.
const INSTALLED: &str = "tremor/plugins";

#[derive(Args)]
pub(super) struct PluginArguments {
    /// Folder or file to search for plugins; may be repeated. The paths in the flow are searched before it, and
    /// those in the variable `TREMOR_PLUGIN_PATH` after it. Without the option and the variable, the installed plugins
    /// are searched: `../lib/tremor/plugins` beside the program, and `/usr/lib/tremor/plugins`.
    #[arg(
        long = "plugin-path",
        global = true,
        value_name = "DIR",
        value_delimiter = if cfg!(windows) { ';' } else { ':' }
    )]
    pub(super) paths: Vec<PathBuf>,
    /// Loads plugins that were built with `panic = "abort"`. A panic in such a plugin ends the process.
    #[arg(long, global = true)]
    allow_panic_abort: bool,
    /// Rejects plugins that a group may write to, or that a user other than you and root owns. Without this option
    /// they only cause a warning.
    #[arg(long, global = true)]
    strict_plugins: bool,
    /// Warnings that were printed, so that a warning is not repeated for another flow.
    #[arg(skip)]
    warned: RefCell<HashSet<String>>,
    /// Components that were found in search paths, so that flows with the same paths share them.
    #[arg(skip)]
    found: RefCell<Vec<Found>>,
}

/// Search paths with the components that were found in them.
type Found = (Vec<SearchPath>, Arc<Components>);

impl PluginArguments {
    pub(super) fn policy(&self) -> Policy {
        Policy { allow_panic_abort: self.allow_panic_abort, strict: self.strict_plugins }
    }

    /// Returns the paths of the command line and of the variable, in the order of the search. Without such a path,
    /// returns the folders of installed plugins, which may be missing.
    pub(super) fn search_paths(&self) -> Vec<SearchPath> {
        let named = self.named_paths();
        if named.is_empty() { installed().map(SearchPath::fallback).collect() } else { named }
    }

    /// Returns the paths of the command line and of the variable, in the order of the search.
    pub(super) fn named_paths(&self) -> Vec<SearchPath> {
        let given = self.paths.iter().map(|path| SearchPath::new(path, "`--plugin-path`"));
        let variable = env::var_os(VARIABLE).unwrap_or_default();
        let further = env::split_paths(&variable).map(|path| SearchPath::new(path, VARIABLE));
        given.chain(further).filter(|named| !named.path.as_os_str().is_empty()).collect()
    }

    /// Searches for plugins again when flows are prepared the next time.
    pub(super) fn forget(&self) {
        self.found.borrow_mut().clear();
    }

    /// Reads and checks flows. The errors of all flows are reported together.
    pub(super) fn prepare(
        &self,
        files: &[PathBuf],
        environment: &Environment<'_>,
    ) -> Result<Vec<Prepared>, Failure> {
        self.prepare_with(files, |file| flow::read(file, environment))
    }

    /// Implements [`PluginArguments::prepare`]. `read` creates the drafts of the flows from files.
    pub(super) fn prepare_with(
        &self,
        files: &[PathBuf],
        read: impl Fn(&Path) -> Result<Draft, flow::Error>,
    ) -> Result<Vec<Prepared>, Failure> {
        let mut prepared = Vec::with_capacity(files.len());
        let mut failure = self.missing_paths();
        let drafts: Vec<_> = files.iter().map(|file| read(file)).collect();
        if drafts.len() > 1 {
            self.look_ahead(drafts.iter().flatten().map(Draft::flow));
        }
        for draft in drafts {
            let checked = draft
                .map_err(Failure::of_usage)
                .and_then(|draft| self.check(draft, |draft, components| draft.check(components)));
            match checked {
                Ok(good) => prepared.push(good),
                Err(error) => failure.usage(&error),
            }
        }
        for Prepared { flow, .. } in &prepared {
            let flow_name = || logging::fields([("flow", flow.name().into())]);
            let print = |text: String| logging::print(Level::WARN, &text, flow_name());
            flow.warnings.iter().for_each(|warning| print(warning.to_string()));
        }
        let mut names: Vec<&str> = prepared.iter().map(|prepared| prepared.flow.name()).collect();
        names.sort_unstable();
        if let Some(name) =
            names.windows(2).find_map(|pair| (pair[0] == pair[1]).then_some(pair[0]))
        {
            failure.usage(&format_args!(
                "error: two flows are named `{name}`\n  help: give one of them another `name:`"
            ));
        }
        failure.or(prepared)
    }

    /// Returns errors for paths of the command line and of the variable that do not exist.
    fn missing_paths(&self) -> Failure {
        let mut failure = Failure::default();
        for SearchPath { path, origin, .. } in self.named_paths() {
            if !path.exists() {
                failure.usage(&format_args!(
                    "error: {}: there is no such file or folder\n  help: correct {origin}",
                    path.display()
                ));
            }
        }
        failure
    }

    /// Finds the components of a flow and checks the flow against them.
    pub(super) fn check(
        &self,
        mut draft: Draft,
        check: impl FnOnce(Draft, &Components) -> Result<Flow, flow::Error>,
    ) -> Result<Prepared, Failure> {
        missing_folders(draft.flow()).into_iter().for_each(|missing| draft.add(missing));
        let components = self
            .shared(&own_paths(draft.flow()))
            .map_err(|error| Failure::of_usage(format_args!("error: {error}")))?;
        let flow = check(draft, &components).map_err(Failure::of_usage)?;
        for objection in components.libraries(&flow).iter().filter_map(|it| it.objection()) {
            self.warn(&format!("{objection}; `--strict-plugins` rejects such plugins"));
        }
        Ok(Prepared { flow, components })
    }

    /// Asks plugins about the configurations of several flows at once.
    fn look_ahead<'f>(&self, flows: impl IntoIterator<Item = &'f Flow>) {
        let mut groups: Vec<(Arc<Components>, Vec<&Flow>)> = Vec::new();
        for flow in flows {
            // Errors are reported when the flow is checked.
            let Ok(components) = self.shared(&own_paths(flow)) else { continue };
            match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &components)) {
                Some((_, group)) => group.push(flow),
                None => groups.push((components, vec![flow])),
            }
        }
        groups.into_iter().for_each(|(components, flows)| components.look_ahead(flows));
    }

    /// Returns the components for a flow that names the plugin paths `own`. The same paths are searched only once.
    fn shared(&self, own: &[SearchPath]) -> Result<Arc<Components>, Error> {
        let is_same =
            |(paths, _): &&Found| paths.iter().map(|it| &it.path).eq(own.iter().map(|it| &it.path));
        let known = self.found.borrow().iter().find(is_same).cloned();
        if let Some((_, components)) = known {
            return Ok(components);
        }
        let components = Arc::new(self.components(own)?);
        self.found.borrow_mut().push((own.to_owned(), components.clone()));
        Ok(components)
    }

    /// Returns the components of [`PluginArguments::search_paths`]. Plugins that only flow files name are not included.
    pub(super) fn available(&self) -> Result<Components, Failure> {
        self.missing_paths().or(())?;
        self.components(&[]).map_err(|error| Failure::of_usage(format_args!("error: {error}")))
    }

    /// Finds components in the flow's own plugin paths and then in [`PluginArguments::search_paths`].
    #[cfg(not(feature = "link-static"))]
    #[expect(clippy::unnecessary_wraps, reason = "the function of the other build can fail")]
    fn components(&self, own: &[SearchPath]) -> Result<Components, Error> {
        let paths: Vec<SearchPath> = own.iter().cloned().chain(self.search_paths()).collect();
        let describer = Describer::new(self.policy()).comparing();
        let (components, problems) = Components::find(&paths, describer, self.policy());
        // A broken library that the flow does not use only causes a warning: the user may miss its components. A
        // missing path is reported as an error elsewhere.
        let broken = problems.iter().filter(|it| it.error.kind() != ErrorKind::NotFound);
        broken.for_each(|problem| self.warn(&problem.to_string()));
        Ok(components)
    }

    /// Returns the components of this build, which contains its plugins and searches for no other plugins.
    #[cfg(feature = "link-static")]
    fn components(&self, _own: &[SearchPath]) -> Result<Components, Error> {
        Components::linked(super::linked::plugins(), self.policy())
    }

    fn warn(&self, message: &str) {
        if self.warned.borrow_mut().insert(message.to_owned()) {
            tracing::warn!("{message}");
        }
    }
}

/// Returns the folders in which an installation has its plugins: `../lib/tremor/plugins` relative to the folder of this
/// program, after symbolic links to the program are resolved, and the folder of packages.
fn installed() -> impl Iterator<Item = PathBuf> {
    let program = env::current_exe().map(|program| program.canonicalize().unwrap_or(program));
    let beside =
        program.ok().and_then(|it| Some(it.parent()?.parent()?.join("lib").join(INSTALLED)));
    let package = Path::new("/usr/lib").join(INSTALLED);
    let is_package = beside.as_ref() == Some(&package);
    beside.into_iter().chain((!is_package).then_some(package))
}

/// Returns the plugin paths that a flow file names.
fn own_paths(flow: &Flow) -> Vec<SearchPath> {
    let origin = format!("`plugins` of {}", flow.path().display());
    flow.spec.plugins.iter().map(|path| SearchPath::new(&path.value, &*origin)).collect()
}

/// Returns errors for entries of `plugins` that do not exist.
fn missing_folders(flow: &Flow) -> Vec<flow::Diagnostic> {
    // Linked plugins need no folder.
    let needed = !cfg!(feature = "link-static");
    let missing = flow.spec.plugins.iter().filter(|path| needed && !path.value.exists());
    missing
        .map(|path| {
            let message = format!("{}: there is no such file or folder", path.value.display());
            let build = match &path.value {
                path if path.ends_with("target/release") => " with `cargo build --release`",
                path if path.ends_with("target/debug") => " with `cargo build`",
                _ => "",
            };
            let help = format!("build the plugins{build}, or correct the path");
            flow.error(path.at, message).help(help)
        })
        .collect()
}
