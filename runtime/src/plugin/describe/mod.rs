//! What a plugin knows about its configuration, asked for in a child process: scanning and checking
//! run no foreign code in this one, and a plugin that crashes or hangs ends no other process.
//!
//! The child is the `tremor` binary under a hidden command, `tremor plugin-describe`, which does
//! nothing but [`describe_main`]. What it says of schemas is cached by the library's contents.
//!
//! Such a child also compares configurations with schemas, so that the validator, some MiB of code and
//! tables, need not stay in the memory of a process that runs flows for months.

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
    program,
};

/// The hidden command of the binary.
pub const COMMAND: &str = "plugin-describe";

/// How long a child may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a child may take to compare configurations: this process can do it as well.
const FIT_TIMEOUT: Duration = Duration::from_secs(2);

/// In place of a library's path: pairs of a schema and a configuration are on standard input.
const FIT: &str = "--fit";

/// After a library's path: questions are on standard input.
const CHECK: &str = "--check";

/// In front of the line of standard output that answers: a plugin may print other lines.
const MARK: &str = "tremor-plugin-describe: ";

/// The schemas of a library's artefacts, by kind and name ([`id`]); none where the plugin has none
/// to give.
type Schemas = BTreeMap<String, Option<Value>>;

/// Names an artefact within its library.
fn id(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// What a child answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The schemas of the library with these contents.
    Schemas { hash: Option<String>, schemas: Schemas },
    /// The result for each configuration.
    Checked(Vec<Result<InstanceInfo, Wrong>>),
    /// Whether all configurations fit their schemas.
    Fit(bool),
    /// The library cannot be loaded, or has no such artefact.
    Refused(String),
}

/// Why a configuration is not good, in the plugin's words.
#[derive(Debug, Serialize, Deserialize)]
struct Wrong(String);

/// Whether a configuration is good: the kind and the name of a component, the configuration, and the folder
/// that relative paths start from.
pub(crate) type Question<'q> = (&'q str, &'q str, &'q Value, &'q Path);

/// Asks plugins about their configurations.
#[derive(Clone, Debug)]
pub struct Describer {
    program: PathBuf,
    timeout: Duration,
    cache: Option<Cache>,
    policy: Policy,
    compares: bool,
}

impl Describer {
    /// Asks by way of this program itself, which therefore is the `tremor` binary or knows its
    /// hidden command; caches where the user's caches are; waits ten seconds for an answer.
    pub fn new(policy: Policy) -> Self {
        Self {
            program: program::own(),
            timeout: TIMEOUT,
            cache: Cache::of_user(),
            policy,
            compares: false,
        }
    }

    /// Also has a child compare configurations with schemas, those of what is built in as well.
    #[must_use]
    pub fn comparing(self) -> Self {
        Self { compares: true, ..self }
    }

    /// Asks by way of the `tremor` binary at `program`.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Waits this long for an answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Caches in this folder, or not at all.
    #[must_use]
    pub fn cache(self, folder: Option<&Path>) -> Self {
        Self { cache: folder.map(Cache::new), ..self }
    }

    /// The JSON Schema of an artefact's configuration; none where the plugin has none to give, and
    /// its constructor is what checks.
    ///
    /// # Errors
    /// Those of [`Library::check`], and kind [`Describe`](ErrorKind::Describe).
    pub fn config_schema(
        &self,
        library: &Library,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        if let Some(linked) = library.linked_component(kind, name) {
            return Ok((linked.config_schema)());
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
            answer => Err(self.nonsense(library, &answer)),
        }
    }

    /// Has an instance made of a configuration, to see whether it is good beyond what its schema tells.
    /// Relative paths start from `folder`.
    ///
    /// # Errors
    /// Kind [`Configuration`](ErrorKind::Configuration), where it is not, in the plugin's words.
    /// Those of [`Library::check`], and kind [`Describe`](ErrorKind::Describe).
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
        let wrong = |Wrong(why)| Error::new(ErrorKind::Configuration, library.path(), why);
        let question = (kind, name, config, folder.to_string_lossy());
        let input = serde_json::to_vec(&[question]).unwrap_or_default();
        match self.ask(library, &[CHECK.into()], input)? {
            Answer::Checked(mut checked) if checked.len() == 1 => checked.remove(0).map_err(wrong),
            answer => Err(self.nonsense(library, &answer)),
        }
    }

    /// Has instances made of several configurations, in one child process: the properties of those that are good.
    /// Of those that have none, nothing is known, and each is to be asked about alone: a child that crashes, say, is
    /// at fault for one of them.
    pub(crate) fn check_all(
        &self,
        library: &Library,
        questions: &[Question<'_>],
    ) -> Vec<Option<InstanceInfo>> {
        let input = serde_json::to_vec(questions).unwrap_or_default();
        let asked = !library.is_linked();
        match asked.then(|| self.ask(library, &[CHECK.into()], input)) {
            Some(Ok(Answer::Checked(checked))) if checked.len() == questions.len() => {
                checked.into_iter().map(Result::ok).collect()
            }
            _ => vec![None; questions.len()],
        }
    }

    /// Whether a child says that all of these fit, pairs of a schema and a configuration. Where it does
    /// not say so, for whatever reason, they are to be compared in this process.
    pub fn all_fit(&self, configurations: &[(&Value, &Value)]) -> bool {
        if !self.compares {
            return false;
        }
        let said = self.ask_whether_all_fit(configurations);
        if let Err(error) = &said {
            let program = self.program.display();
            tracing::debug!(%error, %program, "this process compares configurations with schemas");
        }
        said.unwrap_or(false)
    }

    fn ask_whether_all_fit(&self, configurations: &[(&Value, &Value)]) -> io::Result<bool> {
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
                .help("the plugin is at fault: tell its author")
        };
        let ran = run(&self.program, &all, input, self.timeout, None);
        let Finished { status, stdout, stderr } = ran.map_err(|error| {
            let program = self.program.display();
            let message =
                format!("cannot ask for its configuration: `{program}` cannot be run: {error}");
            Error::new(ErrorKind::Describe, library.path(), message)
        })?;
        let status = status.ok_or_else(|| {
            failed(format!("gave no answer about its configuration within {:?}", self.timeout))
        })?;
        match answer(&stdout) {
            Some(Answer::Refused(why)) => Err(Error::without_file(ErrorKind::Describe, why)),
            Some(answer) if status.success() => Ok(answer),
            _ if status.success() => Err(failed(format!(
                "gave an answer about its configuration that cannot be understood{}",
                said(&stderr)
            ))),
            _ => Err(failed(format!(
                "ended its process when it was asked about its configuration ({status}){}",
                said(&stderr)
            ))),
        }
    }

    fn nonsense(&self, library: &Library, answer: &Answer) -> Error {
        let program = self.program.display();
        let message = format!("`{program}` answered another question than was asked: {answer:?}");
        Error::new(ErrorKind::Describe, library.path(), message)
    }
}

/// The answer in what a child wrote to standard output.
fn answer(stdout: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(stdout);
    let line = text.lines().rev().find_map(|line| line.strip_prefix(MARK))?;
    serde_json::from_str(line).ok()
}

/// The last lines of what a child wrote to standard error, to add to a message.
fn said(stderr: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" / ")) }
}
