//! Errors of a command: their text and the exit status.

use std::{
    fmt::{self, Write as _},
    process::ExitCode,
};

/// The text to print, and the exit status: 1, a flow failed; 2, wrong usage or configuration.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    text: String,
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

    /// Adds an error in the usage or the configuration.
    pub(crate) fn usage(&mut self, error: &dyn fmt::Display) {
        self.add(error, 2);
    }

    /// Adds an error of a flow that ran.
    pub(crate) fn flow(&mut self, error: &dyn fmt::Display) {
        self.add(error, 1);
    }

    fn add(&mut self, error: &dyn fmt::Display, status: u8) {
        let text = error.to_string();
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}", text.trim_end());
        self.status = self.status.max(status);
    }

    /// The value, if nothing was added.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.status == 0 { Ok(value) } else { Err(self) }
    }

    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
