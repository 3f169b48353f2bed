//! Errors of a command: their text and the exit status.

use std::{fmt, process::ExitCode};

use serde_json::{Map, Value};
use tracing::Level;

use super::logging;

/// Reason for an exit status other than 0. If several apply, the greatest determines the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No check of plugins failed, and a connector did not connect or got no event, so that checks were skipped.
    NotChecked,
    /// Events failed, and their source is not told.
    EventsFailed,
    /// A flow was stopped before it had drained, and something is lost by that.
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

/// The texts to print, and the reason for the exit status.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// Each with the fields that it has as JSON.
    errors: Vec<(String, Map<String, Value>)>,
    reason: Option<Reason>,
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

    /// Returns the failure of checks that were skipped for want of a peer.
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

    /// Adds an error of the flow `name`.
    pub(crate) fn of(&mut self, name: &str, reason: Reason, error: &dyn fmt::Display) {
        self.add(error, logging::fields([("flow", name.into())]), reason);
    }

    fn add(&mut self, error: &dyn fmt::Display, fields: Map<String, Value>, reason: Reason) {
        self.errors.push((error.to_string().trim_end().to_owned(), fields));
        self.reason = self.reason.max(Some(reason));
    }

    /// The value, if nothing was added.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.reason.is_none() { Ok(value) } else { Err(self) }
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
