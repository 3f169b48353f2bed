//! The child process, which answers one question. For most questions it loads a library.

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
    plugin::{Error, ErrorKind, Plugin, Policy, connector::check, load, program},
};

/// Question of the parent.
#[derive(Debug, Default)]
struct Question {
    path: PathBuf,
    policy: Policy,
    /// `true` if standard input contains configurations.
    checks: bool,
}

/// Runs the hidden command `plugin-describe`: loads the library that `arguments` name, writes the answer to standard
/// output, and returns the exit code.
///
/// `arguments` are the command-line arguments after the command. Call this only in a separate process, because it runs
/// the code of a plugin.
pub fn describe_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    if !program::end_with_parent() {
        return ExitCode::FAILURE;
    }
    let arguments: Vec<_> = arguments.into_iter().collect();
    let answer = match question(arguments.iter().cloned()) {
        _ if arguments == [FIT] => check_fit().unwrap_or_else(refused),
        Some(question) => respond(&question).unwrap_or_else(refused),
        None => Answer::Refused("plugin-describe: internal command of tremor".to_owned()),
    };
    let written = serde_json::to_string(&answer)
        .map_err(io::Error::from)
        // The line feed ends a line that the plugin may have begun.
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

/// Creates an instance for each configuration.
fn checked(plugin: &Plugin, policy: Policy) -> Result<Answer, Error> {
    let questions: Vec<(String, String, Value, String)> =
        serde_json::from_reader(io::stdin().lock()).map_err(|error| {
            let message = format!("expected configurations on standard input: {error}");
            Error::without_file(ErrorKind::Describe, message)
        })?;
    let ask = |(kind, name, config, folder): &(String, String, Value, String)| {
        match check(plugin.library(), (kind, name), config, folder, policy) {
            Ok(checked) => Ok(checked.map_err(|error| Wrong(error.to_string()))),
            // The parent checks a configuration again if this process could not, so the other ones are still checked
            // here.
            Err(error) if questions.len() > 1 => Ok(Err(Wrong(error.to_string()))),
            Err(error) => Err(error),
        }
    };
    Ok(Answer::Checked(questions.iter().map(ask).collect::<Result<_, _>>()?))
}

/// Checks configurations against their schemas.
fn check_fit() -> serde_json::Result<Answer> {
    let configurations: Vec<(Value, Value)> = serde_json::from_reader(io::stdin().lock())?;
    Ok(Answer::Fit(configurations.iter().all(|(schema, config)| flow::fits(schema, config))))
}

fn schemas(plugin: &Plugin) -> Answer {
    let schema = |artefact: &ArtefactRef| {
        // A schema that is not valid JSON is treated as a missing schema.
        serde_json::from_str(artefact.config_schema()().as_str()).ok()
    };
    let schemas: Schemas = plugin
        .artefacts()
        .iter()
        .map(|artefact| (id(artefact.kind().as_str(), artefact.name().as_str()), schema(artefact)))
        .collect();
    Answer::Schemas { hash: plugin.library().hash().as_ref().map(ToString::to_string), schemas }
}
