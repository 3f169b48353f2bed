//! The child process, which loads a library and checks one of its components.

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

use super::{MARK, Message, Question};
use crate::plugin::{ComponentFactory, ConnectorFactory, Error, Library, program};

/// Number of lines of the file to which configurations of the conformance suite refer.
const LINES: usize = 100;

/// Runs the hidden command `plugin-verify`: performs the checks that standard input requests, and writes the result of
/// each to standard output.
///
/// Call this only in a separate process, because it runs the code of a plugin.
pub fn verify_main() -> ExitCode {
    if !program::end_with_parent() {
        return ExitCode::FAILURE;
    }
    let question: Question = match serde_json::from_reader(io::stdin().lock()) {
        Ok(question) => question,
        Err(error) => return refused(&format!("internal command of tremor: {error}")),
    };
    let make = match make(&question) {
        Ok(make) => make,
        Err(error) => return refused(&error.to_string()),
    };
    let subject = Subject {
        kind: question.kind.clone(),
        stateless: question.stateless,
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
            return refused("cannot write to the folder for temporary files");
        }
        if send(&Message::Begins(name.to_owned())).is_err() {
            return ExitCode::FAILURE;
        }
        let checked = subject.check(name, &report);
        if send(&Message::Ends(checked.clone())).is_err() {
            return ExitCode::FAILURE;
        }
        report.checks.push(checked);
    }
    ExitCode::SUCCESS
}

fn refused(why: &str) -> ExitCode {
    let message = send(&Message::Refused(why.to_owned()));
    if message.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes a message on a line of its own, to separate it from output of the plugin.
///
/// The start of a check is also written to standard error, so that the parent can find out during which check the
/// plugin wrote there.
fn send(message: &Message) -> io::Result<()> {
    if let Message::Begins(name) = message {
        writeln!(io::stderr(), "\n{MARK}{name}")?;
    }
    writeln!(io::stdout(), "\n{MARK}{}", serde_json::to_string(message)?)?;
    io::stdout().flush()
}

/// Restores the initial state of the folder, which contains one file of [`LINES`] lines.
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
