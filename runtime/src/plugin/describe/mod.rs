//! Questions about the configurations of a plugin. A child process answers them.
//!
//! Therefore no code of plugins runs in this process while plugins are searched and checked, and a plugin that crashes
//! or hangs does not end this process.
//!
//! The child is the `tremor` binary with the hidden command `tremor plugin-describe`, which only calls
//! [`describe_main`]. Schemas are cached by the contents of the library.
//!
//! A child process also checks configurations against schemas. The validator has some MiB of code and tables, which
//! would otherwise stay in the memory of a process that runs flows for months.

mod cache;
mod child;
pub(super) mod process;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::child::describe_main;
use self::{
    cache::Cache,
    process::{Finished, run},
};
use super::{
    Error, ErrorKind, Library, Policy,
    connector::{self, InstanceInfo},
    isolated, program,
};

/// Hidden command of the binary.
pub const COMMAND: &str = "plugin-describe";

/// Time limit of a child process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a child process that checks configurations against schemas. After a timeout, this process checks the
/// configurations itself.
const FIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Argument instead of the path of a library: standard input contains pairs of a schema and a configuration.
const FIT: &str = "--fit";

/// Argument after the path of a library: standard input contains questions.
const CHECK: &str = "--check";

/// Beginning of the line on standard output that contains the answer. Other lines may come from the plugin.
const MARK: &str = "tremor-plugin-describe: ";

/// Schemas of the artefacts of a library, by kind and name ([`id`]); `None` for an artefact without a schema.
type Schemas = BTreeMap<String, Option<Value>>;

/// Returns the identifier of an artefact within its library.
fn id(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// Answer of a child process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The schemas of a library. `hash` is the hash of the library's contents.
    Schemas { hash: Option<String>, schemas: Schemas },
    /// The result for each configuration, in the order of the questions.
    Checked(Vec<Result<InstanceInfo, Wrong>>),
    /// `true` if all configurations fit their schemas.
    Fit(bool),
    /// The library cannot be loaded, or has no such artefact.
    Refused(String),
}

/// Reason that a plugin gave for rejecting a configuration.
#[derive(Debug, Serialize, Deserialize)]
struct Wrong(String);

/// A question whether a configuration is valid: kind and name of a component, its configuration, and the folder to
/// which relative paths are relative.
pub(crate) type Question<'q> = (&'q str, &'q str, &'q Value, &'q Path);

/// Client that asks plugins about their configurations.
#[derive(Clone, Debug)]
pub struct Describer {
    program: PathBuf,
    timeout: Duration,
    cache: Option<Cache>,
    policy: Policy,
    compares: bool,
}

impl Describer {
    /// Creates a client that runs this program as the child process, uses the user's cache, and waits ten seconds
    /// for an answer.
    ///
    /// This program has to be the `tremor` binary, or a program that has the hidden command.
    pub fn new(policy: Policy) -> Self {
        Self {
            program: program::own(),
            timeout: TIMEOUT,
            cache: Cache::of_user(),
            policy,
            compares: false,
        }
    }

    /// Makes a child process also check configurations against schemas, including configurations of built-in
    /// components.
    #[must_use]
    pub fn comparing(self) -> Self {
        Self { compares: true, ..self }
    }

    /// Sets the path of the `tremor` binary that is run as the child process.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Returns the path of the `tremor` binary that is run as the child process.
    pub(crate) fn binary(&self) -> &Path {
        &self.program
    }

    /// Returns the libraries that may be loaded.
    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Sets the maximum time to wait for an answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the folder of the cache; `None` disables the cache.
    #[must_use]
    pub fn cache(self, folder: Option<&Path>) -> Self {
        Self { cache: folder.map(Cache::new), ..self }
    }

    /// Returns the JSON Schema of an artefact's configuration. Returns `None` if the artefact has no schema. Only its
    /// constructor then checks configurations.
    ///
    /// # Errors
    /// Errors of [`Library::check`], and kind [`Describe`](ErrorKind::Describe).
    pub fn config_schema(
        &self,
        library: &Library,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        if let Some(linked) = library.linked_component(kind, name) {
            return Ok((linked.config_schema)());
        }
        if let Some(executable) = library.executable() {
            return Ok(executable.schema(name).cloned());
        }
        let artefact = &*id(kind, name);
        let cache = self.cache.as_ref().and_then(|cache| Some((cache, library.hash()?)));
        if let Some(schemas) = cache.and_then(|(cache, hash)| cache.get(hash)) {
            return Ok(schemas.get(artefact).cloned().flatten());
        }
        match self.ask(library, &[], Vec::new())? {
            Answer::Schemas { hash, mut schemas } => {
                if let Some((cache, known)) = cache
                    && hash == Some(known.to_string())
                {
                    cache.put(known, &schemas);
                }
                Ok(schemas.remove(artefact).flatten())
            }
            answer => Err(self.unexpected(library, &answer)),
        }
    }

    /// Creates an instance to check whether a configuration is valid beyond its schema.
    ///
    /// Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// Kind [`Configuration`](ErrorKind::Configuration) with the plugin's reason if the configuration is invalid;
    /// errors of [`Library::check`]; and kind [`Describe`](ErrorKind::Describe).
    pub fn check(
        &self,
        library: &Library,
        (kind, name): (&str, &str),
        config: &Value,
        folder: &Path,
    ) -> Result<InstanceInfo, Error> {
        if library.is_linked() {
            let folder = folder.to_string_lossy();
            let checked = connector::check(library, (kind, name), config, &folder, self.policy)?;
            return checked.map_err(|error| {
                Error::new(ErrorKind::Configuration, library.path(), error.to_string())
            });
        }
        if library.executable().is_some() {
            return self.check_executable(library, name, config, folder);
        }
        let wrong = |Wrong(why)| Error::new(ErrorKind::Configuration, library.path(), why);
        let question = (kind, name, config, folder.to_string_lossy());
        let input = serde_json::to_vec(&[question]).unwrap_or_default();
        match self.ask(library, &[CHECK.into()], input)? {
            Answer::Checked(mut checked) if checked.len() == 1 => checked.remove(0).map_err(wrong),
            answer => Err(self.unexpected(library, &answer)),
        }
    }

    /// Asks the process of an executable.
    fn check_executable(
        &self,
        library: &Library,
        connector: &str,
        config: &Value,
        folder: &Path,
    ) -> Result<InstanceInfo, Error> {
        let Self { program, policy, timeout, .. } = self;
        let checked =
            isolated::check(program, *policy, library, connector, config, folder, *timeout)?;
        let wrong = |error: tremor_pdk::Error| {
            Error::new(ErrorKind::Configuration, library.path(), error.to_string())
        };
        let sides = checked.map_err(wrong)?;
        let (has_source, has_sink) = (sides.has_source(), sides.has_sink());
        Ok(InstanceInfo { has_source, has_sink, ..InstanceInfo::default() })
    }

    /// Creates instances for several configurations in one child process, and returns the properties of each valid
    /// configuration.
    ///
    /// `None` means that the configuration has to be checked on its own, not that it is invalid. For example, if one
    /// configuration crashes the child process, there are no results for the others either.
    pub(crate) fn check_all(
        &self,
        library: &Library,
        questions: &[Question<'_>],
    ) -> Vec<Option<InstanceInfo>> {
        let input = serde_json::to_vec(questions).unwrap_or_default();
        let needs_child = !library.is_linked() && library.executable().is_none();
        match needs_child.then(|| self.ask(library, &[CHECK.into()], input)) {
            Some(Ok(Answer::Checked(checked))) if checked.len() == questions.len() => {
                checked.into_iter().map(Result::ok).collect()
            }
            _ => vec![None; questions.len()],
        }
    }

    /// Returns `true` if a child process found that all configurations fit their schemas.
    ///
    /// Returns `false` also after any error of the child process. The configurations then have to be checked in this
    /// process.
    pub fn all_fit(&self, configurations: &[(&Value, &Value)]) -> bool {
        if !self.compares {
            return false;
        }
        let answer = self.ask_all_fit(configurations);
        if let Err(error) = &answer {
            let program = self.program.display();
            tracing::debug!(%error, %program, "cannot check configurations in a child process; this process checks them");
        }
        answer.unwrap_or(false)
    }

    fn ask_all_fit(&self, configurations: &[(&Value, &Value)]) -> io::Result<bool> {
        let input = serde_json::to_vec(configurations)?;
        let ran = run(&self.program, &[COMMAND.into(), FIT.into()], input, FIT_TIMEOUT, None)?;
        let status = ran.status.ok_or(io::ErrorKind::TimedOut)?;
        match answer(&ran.stdout) {
            Some(Answer::Fit(fit)) => Ok(fit),
            _ => Err(io::Error::other(format!("no answer, {status}"))),
        }
    }

    fn ask(
        &self,
        library: &Library,
        arguments: &[OsString],
        input: Vec<u8>,
    ) -> Result<Answer, Error> {
        library.check(self.policy)?;
        let mut all = vec![COMMAND.into(), library.path().into()];
        if self.policy.allow_panic_abort {
            all.push("--allow-panic-abort".into());
        }
        if self.policy.strict {
            all.push("--strict-plugins".into());
        }
        all.extend_from_slice(arguments);
        let failed = |message: String| {
            Error::new(ErrorKind::Describe, library.path(), message)
                .help("report this to the author of the plugin")
        };
        let ran = run(&self.program, &all, input, self.timeout, None);
        let Finished { status, stdout, stderr } = ran.map_err(|error| {
            let program = self.program.display();
            let message =
                format!("cannot ask for its configuration: cannot run `{program}`: {error}");
            Error::new(ErrorKind::Describe, library.path(), message)
        })?;
        let status = status.ok_or_else(|| {
            failed(format!("did not answer about its configuration within {:?}", self.timeout))
        })?;
        match answer(&stdout) {
            Some(Answer::Refused(why)) => Err(Error::without_file(ErrorKind::Describe, why)),
            Some(answer) if status.success() => Ok(answer),
            _ if status.success() => Err(failed(format!(
                "returned an invalid answer about its configuration{}",
                last_lines(&stderr)
            ))),
            _ => Err(failed(format!(
                "ended the process that asked about its configuration ({status}){}",
                last_lines(&stderr)
            ))),
        }
    }

    fn unexpected(&self, library: &Library, answer: &Answer) -> Error {
        let program = self.program.display();
        let message = format!("`{program}` returned the answer to another question: {answer:?}");
        Error::new(ErrorKind::Describe, library.path(), message)
    }
}

/// Returns the answer in the standard output of a child process.
fn answer(stdout: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(stdout);
    let line = text.lines().rev().find_map(|line| line.strip_prefix(MARK))?;
    serde_json::from_str(line).ok()
}

/// Returns the last lines of a child's standard error, formatted to be appended to a message.
fn last_lines(stderr: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" / ")) }
}
