//! Errors of a command: their text and the exit status.

use std::{fmt, process::ExitCode};

use serde_json::{Map, Value};
use tracing::Level;

use super::logging;

/// Reason for an exit status other than 0. If several reasons apply, the greatest one determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No check of a plugin failed, but checks were skipped, because a connector did not connect or received no event.
    NotChecked,
    /// Events failed, and their source was not notified.
    EventsFailed,
    /// A flow was stopped before it had drained, so events were lost.
    Incomplete,
    /// A flow failed while it ran, or a command could not do its work.
    Failed,
    /// The usage or the configuration is wrong, and no flow was started.
    Usage,
}

impl Reason {
    /// Returns the exit status.
    pub(super) const fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::EventsFailed => 3,
            Self::Incomplete => 4,
            Self::NotChecked => 5,
        }
    }
}

/// Messages to print, and the reason for the exit status.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// Messages, each with its fields for JSON.
    errors: Vec<(String, Map<String, Value>)>,
    reason: Option<Reason>,
}

impl Failure {
    /// Creates a failure because of wrong usage or configuration.
    pub(crate) fn of_usage(error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.usage(&error);
        failure
    }

    /// Creates a failure of a flow or a command.
    pub(crate) fn of_flow(error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.flow(&error);
        failure
    }

    /// Creates a failure because checks were skipped, since a connector did not connect or received no event.
    pub(crate) fn not_checked(error: impl fmt::Display) -> Self {
        let mut failure = Self::default();
        failure.add(&error, Map::new(), Reason::NotChecked);
        failure
    }

    /// Adds an error in the usage or the configuration.
    pub(crate) fn usage(&mut self, error: &dyn fmt::Display) {
        self.add(error, Map::new(), Reason::Usage);
    }

    /// Adds an error of a flow that ran.
    pub(crate) fn flow(&mut self, error: &dyn fmt::Display) {
        self.add(error, Map::new(), Reason::Failed);
    }

    /// Adds an error of the flow `name`, with the reason for the exit status.
    pub(crate) fn of(&mut self, name: &str, reason: Reason, error: &dyn fmt::Display) {
        self.add(error, logging::fields([("flow", name.into())]), reason);
    }

    fn add(&mut self, error: &dyn fmt::Display, fields: Map<String, Value>, reason: Reason) {
        self.errors.push((error.to_string().trim_end().to_owned(), fields));
        self.reason = self.reason.max(Some(reason));
    }

    /// Adds the errors of another failure.
    pub(crate) fn join(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.reason = self.reason.max(other.reason);
    }

    /// Returns `value` if no error was added, and this failure otherwise.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.reason.is_none() { Ok(value) } else { Err(self) }
    }

    /// Adds the reason of another failure for the exit status, without its errors.
    pub(crate) fn keep_reason(&mut self, other: &Self) {
        self.reason = self.reason.max(other.reason);
    }

    /// Adds the errors of another failure.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.reason = self.reason.max(other.reason);
        self.errors.extend(other.errors);
        self
    }

    /// Prints the errors for the user.
    pub(crate) fn print(self) {
        let errors = self.errors.into_iter();
        errors.for_each(|(text, fields)| logging::print(Level::ERROR, &text, fields));
    }

    pub(crate) fn status(&self) -> ExitCode {
        self.reason.map_or(ExitCode::SUCCESS, |reason| reason.status().into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|(text, _)| writeln!(f, "{text}"))
    }
}
