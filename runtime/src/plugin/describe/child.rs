//! The child's side: answers one question, for most of them from a library that it loads.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use serde_json::Value;
use tremor_abi::module::ArtefactRef;

use super::{Answer, CHECK, FIT, MARK, Schemas, Wrong, id};
use crate::{
    flow,
    plugin::{Error, ErrorKind, Plugin, Policy, connector::check, load},
};

/// What the parent asks.
#[derive(Debug, Default)]
struct Question {
    path: PathBuf,
    policy: Policy,
    /// Whether there are configurations on standard input.
    checks: bool,
}

/// The hidden command `plugin-describe`: loads the library that `arguments` name, answers on
/// standard output, and says how the process is to exit. `arguments` are those after the command.
///
/// Foreign code runs in here: it is for a process of its own.
pub fn describe_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let answer = match question(arguments.iter().cloned()) {
        _ if arguments == [FIT] => all_fit().unwrap_or_else(refused),
        Some(question) => respond(&question).unwrap_or_else(refused),
        None => Answer::Refused("plugin-describe: this is a command for tremor itself".to_owned()),
    };
    let written = serde_json::to_string(&answer)
        .map_err(io::Error::from)
        // On a line of its own, whatever the plugin has printed.
        .and_then(|json| writeln!(io::stdout(), "\n{MARK}{json}"));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn question(arguments: impl IntoIterator<Item = OsString>) -> Option<Question> {
    let mut arguments = arguments.into_iter();
    let mut question = Question { path: arguments.next()?.into(), ..Question::default() };
    for argument in arguments {
        match argument.to_str()? {
            "--allow-panic-abort" => question.policy.allow_panic_abort = true,
            "--strict-plugins" => question.policy.strict = true,
            CHECK => question.checks = true,
            _ => return None,
        }
    }
    Some(question)
}

fn refused(error: impl std::fmt::Display) -> Answer {
    Answer::Refused(error.to_string())
}

fn respond(question: &Question) -> Result<Answer, Error> {
    let plugin = load(&question.path, question.policy)?;
    if question.checks { checked(&plugin, question.policy) } else { Ok(schemas(&plugin)) }
}

/// Has an instance made of each configuration.
fn checked(plugin: &Plugin, policy: Policy) -> Result<Answer, Error> {
    let questions: Vec<(String, String, Value, String)> =
        serde_json::from_reader(io::stdin().lock()).map_err(|error| {
            let message = format!("expected configurations on standard input: {error}");
            Error::without_file(ErrorKind::Describe, message)
        })?;
    let ask = |(kind, name, config, folder): &(String, String, Value, String)| {
        match check(plugin.library(), (kind, name), config, folder, policy) {
            Ok(checked) => Ok(checked.map_err(|error| Wrong(error.to_string()))),
            // The others can be asked. This one is asked again alone.
            Err(error) if questions.len() > 1 => Ok(Err(Wrong(error.to_string()))),
            Err(error) => Err(error),
        }
    };
    Ok(Answer::Checked(questions.iter().map(ask).collect::<Result<_, _>>()?))
}

/// Compares configurations with their schemas.
fn all_fit() -> serde_json::Result<Answer> {
    let configurations: Vec<(Value, Value)> = serde_json::from_reader(io::stdin().lock())?;
    Ok(Answer::Fit(configurations.iter().all(|(schema, config)| flow::fits(schema, config))))
}

fn schemas(plugin: &Plugin) -> Answer {
    let schema = |artefact: &ArtefactRef| {
        // Text that is no JSON is no schema.
        serde_json::from_str(artefact.config_schema()().as_str()).ok()
    };
    let schemas: Schemas = plugin
        .artefacts()
        .iter()
        .map(|artefact| (id(artefact.kind().as_str(), artefact.name().as_str()), schema(artefact)))
        .collect();
    Answer::Schemas { hash: plugin.library().hash().as_ref().map(ToString::to_string), schemas }
}
