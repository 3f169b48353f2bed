//! The child's side: checks one component of a library that it loads.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use serde_json::Value as Json;
use tremor_abi::module::ArtefactKind;
use tremor_pdk::testing::{
    TestHost,
    conformance::{self, FILE, Instance, Make, Patience, Subject},
};

use super::{MARK, Question, Said};
use crate::plugin::{ComponentFactory, ConnectorFactory, Error, Library};

/// What the file has that configurations of the suite name.
const LINES: usize = 100;

/// The hidden command `plugin-verify`: makes the checks that standard input asks for, and says on
/// standard output what comes of each.
///
/// Foreign code runs in here: it is for a process of its own.
pub fn verify_main() -> ExitCode {
    let question: Question = match serde_json::from_reader(io::stdin().lock()) {
        Ok(question) => question,
        Err(error) => return refused(&format!("this is a command for tremor itself: {error}")),
    };
    let make = match make(&question) {
        Ok(make) => make,
        Err(error) => return refused(&error.to_string()),
    };
    let subject = Subject {
        kind: question.kind.clone(),
        schema: question.schema.clone(),
        config: question.config.clone(),
        samples: question.samples.clone(),
        folder: question.folder.clone(),
        is_alone: true,
        patience: Patience::default(),
        make,
    };
    let mut report = question.before;
    for name in conformance::checks(&subject.kind) {
        if report.checks.iter().any(|checked| checked.check == name) {
            continue;
        }
        if question.is_scratch && prepare(&subject.folder).is_err() {
            return refused("the folder for temporary files cannot be written to");
        }
        if say(&Said::Begins(name.to_owned())).is_err() {
            return ExitCode::FAILURE;
        }
        let checked = subject.check(name, &report);
        if say(&Said::Ends(checked.clone())).is_err() {
            return ExitCode::FAILURE;
        }
        report.checks.push(checked);
    }
    ExitCode::SUCCESS
}

fn refused(why: &str) -> ExitCode {
    let said = say(&Said::Refused(why.to_owned()));
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says something, on a line of its own, whatever the plugin has printed. What the plugin writes to
/// standard error is told apart by check as well.
fn say(said: &Said) -> io::Result<()> {
    if let Said::Begins(name) = said {
        writeln!(io::stderr(), "\n{MARK}{name}")?;
    }
    writeln!(io::stdout(), "\n{MARK}{}", serde_json::to_string(said)?)?;
    io::stdout().flush()
}

/// Makes the folder what it was at first: with one file, of a few lines.
fn prepare(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    let mut file = io::BufWriter::new(fs::File::create(folder.join(FILE))?);
    (1..=LINES).try_for_each(|line| writeln!(file, "{{\"line\":{line}}}"))?;
    file.flush()
}

fn make(question: &Question) -> Result<Make, Error> {
    let library = Library::inspect(&question.library)?;
    if question.kind == ArtefactKind::CONNECTOR.as_str() {
        let factory = ConnectorFactory::load(&library, &question.name, question.policy)?;
        return Ok(Box::new(move |config: &Json, host: &TestHost| {
            factory.create(config, host).map(Instance::Connector)
        }));
    }
    let factory =
        ComponentFactory::load(&library, &question.kind, &question.name, question.policy)?;
    let kind = question.kind.clone();
    Ok(Box::new(move |config: &Json, host: &TestHost| match kind.as_str() {
        "operator" => factory.operator(config, host).map(Instance::Operator),
        "codec" => factory.codec(config, host).map(Instance::Codec),
        "preprocessor" => factory.preprocessor(config, host).map(Instance::Preprocessor),
        _ => factory.postprocessor(config, host).map(Instance::Postprocessor),
    }))
}
