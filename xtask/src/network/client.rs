//! Clients of `bench/network`, which begin when they receive a line on standard input.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{Process, Program};

/// A client that waits until it may begin. When it is dropped, it is killed, and its connections are closed.
pub(super) struct Client {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a client, and waits until it is ready.
    pub(super) fn start(program: &mut Program) -> Result<Self> {
        let mut process = program.spawn(Stdio::piped(), Some(Stdio::piped()))?;
        let input = process.child.stdin.take().context("the client has no input")?;
        let output = process.child.stdout.take().context("the client has no output")?;
        let mut client = Self { process, input, output: BufReader::new(output) };
        let line = client.line()?;
        ensure!(line == "ready", "the client printed `{line}` instead of `ready`");
        Ok(client)
    }

    /// Lets the client begin.
    pub(super) fn begin(&mut self) -> Result<()> {
        writeln!(self.input).context("the client has ended")
    }

    /// Lets the client begin, and returns its figures.
    pub(super) fn found(&mut self) -> Result<Found> {
        self.begin()?;
        Found::read(&self.line()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the client has ended: {}", self.process.log()?);
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Figures that a client has measured.
pub(super) struct Found(Value);

impl Found {
    pub(super) fn read(text: &str) -> Result<Self> {
        let figures = serde_json::from_str(text).map(Self);
        figures.with_context(|| format!("the figures are not JSON: {text}"))
    }

    pub(super) fn get(&self, name: &str) -> Result<f64> {
        self.0[name].as_f64().with_context(|| format!("no `{name}` in {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Found;

    #[test]
    fn missing_figure_of_a_client_is_an_error() {
        let found = Found::read(r#"{ "lines": 5 }"#).expect("JSON");
        assert!((found.get("lines").expect("a number") - 5.0).abs() < f64::EPSILON);
        assert!(found.get("bytes").is_err());
    }
}
