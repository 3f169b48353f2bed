//! Errors of a command: their text and the exit status.

use std::{fmt, process::ExitCode};

use serde_json::{Map, Value};
use tracing::Level;

use super::logging;

/// The texts to print, and the exit status: 1, a flow failed; 2, wrong usage or configuration.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// Each with the fields that it has as JSON.
    errors: Vec<(String, Map<String, Value>)>,
    status: u8,
}

impl Failure {
    /// Something is wrong with what the user wrote.
    pub(crate) fn of_usage(error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.usage(&error);
        failure
    }

    /// Something went wrong while flows ran.
    pub(crate) fn of_flow(error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.flow(&error);
        failure
    }

    /// Makes a failure with an exit status that only one command has.
    pub(crate) fn of_status(status: u8, error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.add(&error, Map::new(), status);
        failure
    }

    /// Adds an error in the usage or the configuration.
    pub(crate) fn usage(&mut self, error: &dyn fmt::Display) {
        self.add(error, Map::new(), 2);
    }

    /// Adds an error of a flow that ran.
    pub(crate) fn flow(&mut self, error: &dyn fmt::Display) {
        self.add(error, Map::new(), 1);
    }

    /// Adds an error of the flow `name`.
    pub(crate) fn of(&mut self, name: &str, error: &dyn fmt::Display) {
        self.add(error, logging::fields([("flow", name.into())]), 1);
    }

    fn add(&mut self, error: &dyn fmt::Display, fields: Map<String, Value>, status: u8) {
        self.errors.push((error.to_string().trim_end().to_owned(), fields));
        self.status = self.status.max(status);
    }

    /// The value, if nothing was added.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.status == 0 { Ok(value) } else { Err(self) }
    }

    /// Prints the errors for the user.
    pub(crate) fn print(self) {
        let errors = self.errors.into_iter();
        errors.for_each(|(text, fields)| logging::print(Level::ERROR, &text, fields));
    }

    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|(text, _)| writeln!(f, "{text}"))
    }
}
