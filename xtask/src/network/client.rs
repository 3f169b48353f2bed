//! Clients of `bench/network`, which begin when a line of their input says so.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{Process, Program};

/// A client that waits for its beginning. Dropped, it is killed, and its connections are closed.
pub(super) struct Client {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a client, and waits until it is ready.
    pub(super) fn start(program: &mut Program) -> Result<Self> {
        let mut process = program.spawn(Stdio::piped(), Some(Stdio::piped()))?;
        let input = process.child.stdin.take().context("a client has an input")?;
        let output = process.child.stdout.take().context("a client has an output")?;
        let mut client = Self { process, input, output: BufReader::new(output) };
        let line = client.line()?;
        ensure!(line == "ready", "it said `{line}`");
        Ok(client)
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        writeln!(self.input).context("the client has gone")
    }

    /// Has the client begin, and returns what it found.
    pub(super) fn found(&mut self) -> Result<Found> {
        self.begin()?;
        Found::read(&self.line()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("a client has ended: {}", self.process.log()?);
        }
        Ok(line.trim_end().to_owned())
    }
}

/// What a client has found.
pub(super) struct Found(Value);

impl Found {
    pub(super) fn read(text: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))?))
    }

    pub(super) fn get(&self, name: &str) -> Result<f64> {
        self.0[name].as_f64().with_context(|| format!("no `{name}` in {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Found;

    #[test]
    fn figure_of_a_client_has_to_be_there() {
        let found = Found::read(r#"{ "lines": 5 }"#).expect("JSON");
        assert!((found.get("lines").expect("a number") - 5.0).abs() < f64::EPSILON);
        assert!(found.get("bytes").is_err());
    }
}
