//! Whether a plugin keeps its contract: its file, its metadata and its layout, and then the conformance
//! suite of the author's kit, in a child process.
//!
//! The child is the `tremor` binary under a hidden command, `tremor plugin-verify`. It checks one
//! component, and writes a line before each check and one after it. Where it ends or hangs within a
//! check, that check has failed, and another child goes on with the next.

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

/// The hidden command of the binary.
const COMMAND: &str = "plugin-verify";

/// In front of each line that a child writes for its parent, on both of its outputs.
const MARK: &str = "tremor-plugin-verify: ";

/// What a child is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    library: PathBuf,
    policy: Policy,
    kind: String,
    name: String,
    schema: Option<Json>,
    config: Json,
    samples: Vec<Vec<u8>>,
    folder: PathBuf,
    /// Whether the folder is there for the checks alone: each finds in it what the first found.
    is_scratch: bool,
    /// The checks that were made.
    before: Report,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Begins(String),
    Ends(Checked),
    /// The library cannot be loaded, or has no such component.
    Refused(String),
}

/// Configurations that work and samples of formats, by the names of components.
#[derive(Debug, Default)]
pub struct Configurations {
    configs: BTreeMap<String, Vec<(Json, PathBuf)>>,
    samples: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Configurations {
    /// Adds the configuration of a component, from a file of JSON or YAML. Relative paths in it start
    /// from the folder of the file. A component may have several: it is checked with each of them.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn add(&mut self, component: &str, file: &Path) -> Result<(), flow::Error> {
        let config = flow::read_yaml(file)?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        self.configs.entry(component.to_owned()).or_default().push((config, folder));
        Ok(())
    }

    /// Adds a message of the format of a codec, or a byte stream of a processor: the contents of the file.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn add_sample(&mut self, component: &str, file: &Path) -> io::Result<()> {
        let sample = fs::read(file)?;
        self.samples.entry(component.to_owned()).or_default().push(sample);
        Ok(())
    }

    /// The first name that is none of these.
    pub fn unknown(&self, components: &[ArtefactMetadata]) -> Option<&str> {
        let is_known = |name: &String| components.iter().any(|component| component.name == *name);
        let mut names = self.configs.keys().chain(self.samples.keys());
        names.find(|name| !is_known(name)).map(String::as_str)
    }
}

/// What came of the checks of a library.
#[derive(Debug, Serialize)]
pub struct Verification {
    /// The library.
    pub library: PathBuf,
    /// The checks of the library as a whole.
    pub stages: Report,
    /// Its components, with each configuration that they were checked with.
    pub components: Vec<Verified>,
}

/// What came of the checks of a component with one configuration.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// Its kind, in the words of metadata.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The configuration.
    pub config: Json,
    /// The checks.
    #[serde(flatten)]
    pub report: Report,
}

impl Verification {
    /// All checks that were made.
    pub fn checks(&self) -> impl Iterator<Item = &Checked> {
        let components = self.components.iter().map(|component| &component.report);
        std::iter::once(&self.stages).chain(components).flat_map(|report| &report.checks)
    }
}

/// Checks the library at `path`. A check that takes longer than `limit` has failed.
pub fn verify(
    path: &Path,
    policy: Policy,
    configurations: &Configurations,
    limit: Duration,
) -> Verification {
    let mut verification = Verification {
        library: path.to_owned(),
        stages: Report::default(),
        components: Vec::new(),
    };
    let loaded = load(path, policy);
    let passes = loaded.as_ref().map_or_else(|(stage, _)| *stage, |_| STAGES.len());
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
        let given = configurations.configs.get(&component.name);
        let samples = configurations.samples.get(&component.name).map_or(&[][..], Vec::as_slice);
        let mut check = |config: &Json, folder: Option<&Path>| {
            let kept = schema.as_ref().map_or(Ok(()), |schema| flow::keep_secrets(config, schema));
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
            // A configuration that cannot be searched for secrets is not shown.
            let config = kept.map_or_else(|_| redact::REDACTED.into(), |()| config.clone());
            verification.components.push(Verified { kind, name, config, report });
        };
        match given {
            None => check(&conformance::working(schema.as_ref()), None),
            Some(given) => given.iter().for_each(|(config, folder)| check(config, Some(folder))),
        }
    }
    verification
}

/// The checks of a library as a whole in the order of loading, each with its contract and with what
/// helps where it is broken. The last one loads the library, in a child, and asks for its schemas.
const STAGES: [[&str; 3]; 4] = [
    ["file", "a plugin is a shared library for this system", "name the library that cargo built"],
    [
        "access",
        "nobody but you and root may write to a plugin or its folder",
        "take the rights from the others: `chmod go-w`",
    ],
    [
        "metadata",
        "a plugin says in its metadata what it offers, and for which version of the ABI it was built",
        "export it with `tremor_pdk::export!`, and rebuild it with a kit for this version of tremor",
    ],
    [
        "layout",
        "a plugin loads, its types are laid out as in this tremor, and it offers what its metadata says",
        "export it with one `tremor_pdk::export!`, and rebuild it with a kit for this version of tremor",
    ],
];

fn passed(name: &str) -> Checked {
    Checked { check: name.to_owned(), outcome: Outcome::Passed }
}

/// A library with the schemas of its components.
type Loaded = (Library, Vec<Option<Json>>);

/// Goes through the stages; an error comes with the place of the one that failed.
fn load(path: &Path, policy: Policy) -> Result<Loaded, (usize, Error)> {
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
    let describer = Describer::new(policy).cache(None);
    let artefacts = library.metadata().artefacts.iter();
    let schemas = artefacts
        .map(|artefact| describer.config_schema(&library, &artefact.kind, &artefact.name))
        .collect::<Result<_, _>>()
        .map_err(|error| (3, error))?;
    Ok((library, schemas))
}

/// Checks a component, in as many children as it takes.
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
        Err(error) => return skipped(format!("there is no folder for temporary files: {error}")),
    };
    let mut question = Question {
        library: library.path().to_owned(),
        policy,
        kind: component.kind.clone(),
        name: component.name.clone(),
        schema: schema.cloned(),
        config: config.clone(),
        samples: samples.to_vec(),
        folder: folder.unwrap_or(scratch.path()).to_owned(),
        is_scratch: folder.is_none(),
        before: Report::default(),
    };
    let count = conformance::checks(&component.kind).len();
    // Each child ends at least one check, or there is no use in another.
    while question.before.checks.len() < count {
        match ask(&question, limit) {
            Ok(checks) if checks.is_empty() => {
                return skipped("the process that checks it says nothing".to_owned());
            }
            Ok(checks) => question.before.checks.extend(checks),
            Err(error) => return skipped(error.to_string()),
        }
    }
    question.before
}

/// The checks that one child has made, with the one that it did not survive.
fn ask(question: &Question, limit: Duration) -> Result<Vec<Checked>, Error> {
    let program = program::own();
    let failed = |message: String| Error::without_file(ErrorKind::Describe, message);
    let input = serde_json::to_vec(question).map_err(|error| failed(error.to_string()))?;
    let ran = run(&program, &[COMMAND.into()], input, limit, Some(MARK));
    let Finished { status, stdout, stderr } =
        ran.map_err(|error| failed(format!("`{}` cannot be run: {error}", program.display())))?;
    let end = match status {
        Some(status) => format!("the plugin ended the process ({status})"),
        None => format!("there was no answer within {limit:?}"),
    };
    let (mut checks, mut begun) = (Vec::new(), None);
    for said in said(&stdout) {
        match said {
            Said::Begins(name) => begun = Some(name),
            Said::Ends(mut checked) => {
                begun = None;
                note_panic(&mut checked, &stderr);
                checks.push(checked);
            }
            Said::Refused(why) => return Err(failed(why)),
        }
    }
    if let Some(name) = begun {
        let last = words(&stderr, &name).lines().next_back().map(str::to_owned).unwrap_or_default();
        let seen = if last.is_empty() { end } else { format!("{end}: {last}") };
        checks.push(conformance::cut_short(&question.kind, &name, &seen));
    }
    Ok(checks)
}

fn said(stdout: &[u8]) -> Vec<Said> {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().filter_map(|line| line.strip_prefix(MARK));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What a child wrote to standard error during a check.
fn words(stderr: &[u8], check: &str) -> String {
    let text = String::from_utf8_lossy(stderr);
    let begin = format!("{MARK}{check}\n");
    let words = text.split_once(&begin).map_or("", |(_, rest)| rest);
    words.split(MARK).next().unwrap_or_default().trim().to_owned()
}

/// A panic in a drop, in a task or on a thread reaches no caller. The message of its hook does.
fn note_panic(checked: &mut Checked, stderr: &[u8]) {
    let words = words(stderr, &checked.check);
    let Some(panicked) = words.lines().position(|line| line.contains("panicked at")) else {
        return;
    };
    if checked.outcome == Outcome::Passed {
        let text: Vec<&str> = words.lines().skip(panicked).take(2).collect();
        checked.outcome = Outcome::Failed(Fault {
            seen: format!("something panicked that nothing waits for: {}", text.join(" ")),
            contract: "nothing of a plugin panics, a `Drop`, a task and a thread included"
                .to_owned(),
            help: "find the place in the message, and handle the error there".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::testing::conformance::{Checked, Outcome};

    use super::{MARK, note_panic, passed, said, words};

    fn outcome(check: &str, stderr: &str) -> Outcome {
        let mut checked = passed(check);
        note_panic(&mut checked, stderr.as_bytes());
        checked.outcome
    }

    #[test]
    fn a_panic_that_no_caller_hears_of_belongs_to_the_check_in_which_it_was_printed() {
        let stderr = format!(
            "\n{MARK}pulls\nall is well\n\n{MARK}drains\nthread 'x' panicked at src/lib.rs:1:2:\nno\n"
        );
        assert_eq!(words(stderr.as_bytes(), "pulls"), "all is well");
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
    fn what_a_plugin_prints_is_not_taken_for_what_the_child_says() {
        let stdout = format!(
            "hello\n{{\"begins\":\"x\"}}\n{MARK}{{\"begins\":\"pulls\"}}\n{MARK}nonsense\n"
        );
        let said: Vec<String> =
            said(stdout.as_bytes()).iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(said, ["Begins(\"pulls\")"]);
    }

    #[test]
    fn a_check_that_has_failed_keeps_its_fault() {
        let stderr = format!("{MARK}pulls\nthread panicked at x\nno\n");
        let outcome = Outcome::Skipped { reason: "there is no source".to_owned() };
        let mut checked = Checked { check: "pulls".to_owned(), outcome: outcome.clone() };
        note_panic(&mut checked, stderr.as_bytes());
        assert_eq!(checked.outcome, outcome);
    }
}
