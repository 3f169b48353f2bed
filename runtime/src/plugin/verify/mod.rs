//! Verification of a plugin: checks its file, its metadata and its layout, and then runs the conformance suite of the
//! plugin development kit in a child process.
//!
//! The child is the `tremor` binary with the hidden command `tremor plugin-verify`. It checks one component, and writes
//! a line before and after each check. If the child ends or hangs during a check, that check has failed, and a new
//! child continues with the next check.

mod child;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tremor_pdk::testing::conformance::{self, Checked, Fault, Outcome, Report};

pub use self::child::verify_main;
use super::{
    ArtefactMetadata, Describer, Error, ErrorKind, Library, Policy,
    describe::process::{Finished, run},
    program,
};
use crate::{flow, redact};

/// Hidden command of the binary.
const COMMAND: &str = "plugin-verify";

/// Beginning of each line that a child writes for its parent, on both of its outputs.
const MARK: &str = "tremor-plugin-verify: ";

/// Question to a child.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    library: PathBuf,
    policy: Policy,
    kind: String,
    name: String,
    stateless: bool,
    schema: Option<Json>,
    config: Json,
    samples: Vec<Vec<u8>>,
    folder: PathBuf,
    /// `true` if the folder exists only for these checks. It is then restored to its initial state before each check.
    is_scratch: bool,
    /// Results of the checks that were already performed.
    before: Report,
}

/// Message of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Begins(String),
    Ends(Checked),
    /// The library cannot be loaded, or has no such component.
    Refused(String),
}

/// Configurations and samples for the checks, by the name of the component.
#[derive(Debug, Default)]
pub struct Configurations {
    configs: BTreeMap<String, Vec<(Json, PathBuf)>>,
    samples: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Configurations {
    /// Adds a configuration for a component from a JSON or YAML file.
    ///
    /// Relative paths in it are relative to the folder of the file. If a component has several configurations, it
    /// is checked with each of them.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn add(&mut self, component: &str, file: &Path) -> Result<(), flow::Error> {
        let config = flow::read_yaml(file)?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        self.configs.entry(component.to_owned()).or_default().push((config, folder));
        Ok(())
    }

    /// Adds the contents of a file as a sample: a message in the format of a codec, or a byte stream of a
    /// processor.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn add_sample(&mut self, component: &str, file: &Path) -> io::Result<()> {
        let sample = fs::read(file)?;
        self.samples.entry(component.to_owned()).or_default().push(sample);
        Ok(())
    }

    /// Returns the first name that belongs to none of these components.
    pub fn unknown(&self, components: &[ArtefactMetadata]) -> Option<&str> {
        let is_known = |name: &String| components.iter().any(|component| component.name == *name);
        let mut names = self.configs.keys().chain(self.samples.keys());
        names.find(|name| !is_known(name)).map(String::as_str)
    }
}

/// Results of the checks of a library.
#[derive(Debug, Serialize)]
pub struct Verification {
    /// Path of the library.
    pub library: PathBuf,
    /// Checks of the library as a whole.
    pub stages: Report,
    /// Results for the components, one for each configuration.
    pub components: Vec<Verified>,
}

/// Results of the checks of a component with one configuration.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// Kind of the component, as in metadata.
    pub kind: String,
    /// Name of the component.
    pub name: String,
    /// Configuration that the component was checked with.
    pub config: Json,
    /// Results of the checks.
    #[serde(flatten)]
    pub report: Report,
}

impl Verification {
    /// Returns the results of all checks.
    pub fn checks(&self) -> impl Iterator<Item = &Checked> {
        let components = self.components.iter().map(|component| &component.report);
        std::iter::once(&self.stages).chain(components).flat_map(|report| &report.checks)
    }
}

/// Checks the library at `path`. A check that takes longer than `limit` fails. `is_built_in` returns whether there is a
/// built-in component with a kind, as in metadata, and a name.
pub fn verify(
    path: &Path,
    policy: Policy,
    configurations: &Configurations,
    limit: Duration,
    is_built_in: impl Fn(&str, &str) -> bool,
) -> Verification {
    let mut verification = Verification {
        library: path.to_owned(),
        stages: Report::default(),
        components: Vec::new(),
    };
    let loaded = load(path, policy, is_built_in);
    let passes = match &loaded {
        // An executable has no layout.
        Ok((library, _)) if library.executable().is_some() => STAGES.len() - 1,
        Ok(_) => STAGES.len(),
        Err((stage, _)) => *stage,
    };
    let stages = &mut verification.stages.checks;
    stages.extend(STAGES[..passes].iter().map(|[name, ..]| passed(name)));
    let (library, schemas) = match loaded {
        Ok(loaded) => loaded,
        Err((stage, error)) => {
            let [check, contract, help] = STAGES[stage].map(str::to_owned);
            let fault = Fault { seen: error.to_string(), contract, help };
            stages.push(Checked { check, outcome: Outcome::Failed(fault) });
            return verification;
        }
    };
    for (component, schema) in library.metadata().artefacts.iter().zip(schemas) {
        let configs = configurations.configs.get(&component.name);
        let samples = configurations.samples.get(&component.name).map_or(&[][..], Vec::as_slice);
        let mut check = |config: &Json, folder: Option<&Path>| {
            let hidden =
                schema.as_ref().map_or(Ok(()), |schema| flow::keep_secrets(config, schema));
            let report = check(
                &library,
                policy,
                component,
                schema.as_ref(),
                (config, folder),
                samples,
                limit,
            );
            let (kind, name) = (component.kind.clone(), component.name.clone());
            // If the secrets of a configuration could not be determined, the whole configuration is hidden.
            let config = hidden.map_or_else(|_| redact::REDACTED.into(), |()| config.clone());
            verification.components.push(Verified { kind, name, config, report });
        };
        match configs {
            None => check(&conformance::working(schema.as_ref()), None),
            Some(configs) => {
                configs.iter().for_each(|(config, folder)| check(config, Some(folder)));
            }
        }
    }
    verification
}

/// Checks of a library as a whole, in the order of loading. Each entry has the name of the check, the rule that it
/// checks, and advice for a violation. The last check loads the library in a child process and asks for its schemas.
const STAGES: [[&str; 3]; 5] = [
    ["file", "a plugin is a shared library for this system", "name the library that cargo built"],
    [
        "access",
        "nobody but you and root may write to a plugin or its folder",
        "remove the write access of others: `chmod go-w`",
    ],
    [
        "metadata",
        "a plugin lists in its metadata what it offers, and for which version of the ABI it was built",
        "export it with `tremor_pdk::export!`, and rebuild it with a kit for this version of tremor",
    ],
    [
        "names",
        "flow files can name each component, and no built-in component has its name",
        "change the `NAME` of the component",
    ],
    [
        "layout",
        "a plugin loads, its types are laid out as in this tremor, and it offers what its metadata lists",
        "export it with one `tremor_pdk::export!`, and rebuild it with a kit for this version of tremor",
    ],
];

fn passed(name: &str) -> Checked {
    Checked { check: name.to_owned(), outcome: Outcome::Passed }
}

/// Library with the schemas of its components.
type Loaded = (Library, Vec<Option<Json>>);

/// Performs the checks of the library as a whole. An error has the index of the check that failed.
fn load(
    path: &Path,
    policy: Policy,
    is_built_in: impl Fn(&str, &str) -> bool,
) -> Result<Loaded, (usize, Error)> {
    let loaded = Library::inspect(path).and_then(|library| {
        library.check(policy)?;
        Ok(library)
    });
    let library = loaded.map_err(|error| {
        let stage = match error.kind() {
            ErrorKind::Access => 1,
            ErrorKind::NotAPlugin
            | ErrorKind::BadMetadata
            | ErrorKind::AbiVersion
            | ErrorKind::PanicAbort => 2,
            _ => 0,
        };
        (stage, error)
    })?;
    library.check_names(is_built_in).map_err(|error| (3, error))?;
    let describer = Describer::new(policy).cache(None);
    let artefacts = library.metadata().artefacts.iter();
    let schemas = artefacts
        .map(|artefact| describer.config_schema(&library, &artefact.kind, &artefact.name))
        .collect::<Result<_, _>>()
        .map_err(|error| (4, error))?;
    Ok((library, schemas))
}

/// Checks a component. Starts another child process if one ended before all checks were done.
fn check(
    library: &Library,
    policy: Policy,
    component: &ArtefactMetadata,
    schema: Option<&Json>,
    (config, folder): (&Json, Option<&Path>),
    samples: &[Vec<u8>],
    limit: Duration,
) -> Report {
    let skipped = |reason: String| {
        let outcome = Outcome::Skipped { reason };
        Report { checks: vec![Checked { check: "makes".to_owned(), outcome }] }
    };
    let scratch = match tempfile::tempdir() {
        Ok(scratch) => scratch,
        Err(error) => {
            return skipped(format!("cannot create a folder for temporary files: {error}"));
        }
    };
    if library.executable().is_some() {
        let folder = folder.unwrap_or(scratch.path());
        return check_executable(library, policy, component, (config, folder), limit);
    }
    let mut question = Question {
        library: library.path().to_owned(),
        policy,
        kind: component.kind.clone(),
        name: component.name.clone(),
        stateless: component.stateless,
        schema: schema.cloned(),
        config: config.clone(),
        samples: samples.to_vec(),
        folder: folder.unwrap_or(scratch.path()).to_owned(),
        is_scratch: folder.is_none(),
        before: Report::default(),
    };
    let count = conformance::checks(&component.kind).len();
    // A child that has finished no check is not replaced, because another child would not finish one either.
    while question.before.checks.len() < count {
        match ask(&question, limit) {
            Ok(checks) if checks.is_empty() => {
                return skipped("the process that checks it returned no result".to_owned());
            }
            Ok(checks) => question.before.checks.extend(checks),
            Err(error) => return skipped(error.to_string()),
        }
    }
    question.before
}

/// Checks a connector of an executable: whether its process starts, speaks the protocol, and accepts the configuration.
/// The other checks drive an instance with a clock that they control, and are skipped.
fn check_executable(
    library: &Library,
    policy: Policy,
    component: &ArtefactMetadata,
    (config, folder): (&Json, &Path),
    limit: Duration,
) -> Report {
    let describer = Describer::new(policy).cache(None).timeout(limit);
    let subject = (&*component.kind, &*component.name);
    let made = match describer.check(library, subject, config, folder) {
        Ok(_) => Outcome::Passed,
        Err(error) if error.kind() == ErrorKind::Configuration => Outcome::Skipped {
            reason: format!("the configuration is rejected: {}", error.message()),
        },
        Err(error) => Outcome::Failed(Fault {
            seen: error.message().to_owned(),
            contract: "the process of an executable answers HELLO and CHECK".to_owned(),
            help: "`docs/isolation.md` describes the protocol".to_owned(),
        }),
    };
    let names = conformance::checks(&component.kind);
    let outcome = |name: &str| match name {
        "makes" => made.clone(),
        _ => Outcome::Skipped { reason: "not checked for executables".to_owned() },
    };
    let checks =
        names.iter().map(|name| Checked { check: (*name).to_owned(), outcome: outcome(name) });
    Report { checks: checks.collect() }
}

/// Returns the results of the checks that one child performed, including the check during which the child ended.
fn ask(question: &Question, limit: Duration) -> Result<Vec<Checked>, Error> {
    let program = program::own();
    let failed = |message: String| Error::without_file(ErrorKind::Describe, message);
    let input = serde_json::to_vec(question).map_err(|error| failed(error.to_string()))?;
    let ran = run(&program, &[COMMAND.into()], input, limit, Some(MARK));
    let Finished { status, stdout, stderr } =
        ran.map_err(|error| failed(format!("cannot run `{}`: {error}", program.display())))?;
    let end = match status {
        Some(status) => format!("the plugin ended the process ({status})"),
        None => format!("it did not answer within {limit:?}"),
    };
    let (mut checks, mut begun) = (Vec::new(), None);
    for message in messages(&stdout) {
        match message {
            Message::Begins(name) => begun = Some(name),
            Message::Ends(mut checked) => {
                begun = None;
                note_panic(&mut checked, &stderr);
                checks.push(checked);
            }
            Message::Refused(why) => return Err(failed(why)),
        }
    }
    if let Some(name) = begun {
        let last = output_during(&stderr, &name)
            .lines()
            .next_back()
            .map(str::to_owned)
            .unwrap_or_default();
        let seen = if last.is_empty() { end } else { format!("{end}: {last}") };
        checks.push(conformance::cut_short(&question.kind, &name, &seen));
    }
    Ok(checks)
}

fn messages(stdout: &[u8]) -> Vec<Message> {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().filter_map(|line| line.strip_prefix(MARK));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the text that a child wrote to standard error during a check.
fn output_during(stderr: &[u8], check: &str) -> String {
    let text = String::from_utf8_lossy(stderr);
    let begin = format!("{MARK}{check}\n");
    let output_during = text.split_once(&begin).map_or("", |(_, rest)| rest);
    output_during.split(MARK).next().unwrap_or_default().trim().to_owned()
}

/// Marks a passed check as failed if a panic message was printed during it. The panic may have occurred in a drop, a
/// task or a thread, where no caller notices it.
fn note_panic(checked: &mut Checked, stderr: &[u8]) {
    let output_during = output_during(stderr, &checked.check);
    let Some(panicked) = output_during.lines().position(|line| line.contains("panicked at")) else {
        return;
    };
    if checked.outcome == Outcome::Passed {
        let text: Vec<&str> = output_during.lines().skip(panicked).take(2).collect();
        checked.outcome = Outcome::Failed(Fault {
            seen: format!("a panic reached no caller: {}", text.join(" ")),
            contract: "no part of a plugin panics, including `Drop`, tasks and threads".to_owned(),
            help: "handle the error at the location in the message".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::testing::conformance::{Checked, Outcome};

    use super::{MARK, messages, note_panic, output_during, passed};

    fn outcome(check: &str, stderr: &str) -> Outcome {
        let mut checked = passed(check);
        note_panic(&mut checked, stderr.as_bytes());
        checked.outcome
    }

    #[test]
    fn uncaught_panic_fails_the_check_that_printed_it() {
        let stderr = format!(
            "\n{MARK}pulls\nall is well\n\n{MARK}drains\nthread 'x' panicked at src/lib.rs:1:2:\nno\n"
        );
        assert_eq!(output_during(stderr.as_bytes(), "pulls"), "all is well");
        assert_eq!(outcome("pulls", &stderr), Outcome::Passed);
        assert_eq!(outcome("lives", &stderr), Outcome::Passed);
        let Outcome::Failed(fault) = outcome("drains", &stderr) else { panic!("no fault") };
        assert!(
            fault.seen.ends_with("thread 'x' panicked at src/lib.rs:1:2: no"),
            "{}",
            fault.seen
        );
    }

    #[test]
    fn output_of_plugin_is_not_a_message_of_child() {
        let stdout = format!(
            "hello\n{{\"begins\":\"x\"}}\n{MARK}{{\"begins\":\"pulls\"}}\n{MARK}nonsense\n"
        );
        let messages: Vec<String> =
            messages(stdout.as_bytes()).iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(messages, ["Begins(\"pulls\")"]);
    }

    #[test]
    fn failed_check_keeps_its_fault() {
        let stderr = format!("{MARK}pulls\nthread panicked at x\nno\n");
        let outcome = Outcome::Skipped { reason: "there is no source".to_owned() };
        let mut checked = Checked { check: "pulls".to_owned(), outcome: outcome.clone() };
        note_panic(&mut checked, stderr.as_bytes());
        assert_eq!(checked.outcome, outcome);
    }
}
