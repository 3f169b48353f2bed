//! The ways to take the messages of a stream.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::built::Built;
use crate::project::{root, run};
use crate::running::processor_time;

/// How often is looked whether all messages are acknowledged.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(5);
const STREAM: &str = "messages";

/// A way to take messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The bare consumer.
    Bare,
    /// A flow that takes payloads as they are.
    Text,
    /// A flow that decodes them.
    Json,
}

/// One turn of a way.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) way: Way,
    pub(super) round: usize,
    pub(super) wall: Duration,
    pub(super) processor: Duration,
}

/// The program with the bare consumer, which fills the stream as well.
pub(super) struct Bare(PathBuf);

impl Bare {
    pub(super) fn build(into: &Path) -> Result<Self> {
        fs::create_dir_all(into)?;
        let program = into.join("bare");
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-o"]).arg(&program).arg(".");
        command.current_dir(root().join("bench/nats/bare"));
        run(command)?;
        Ok(Self(program))
    }

    /// Makes the stream, each line of the file a message of it.
    pub(super) fn fill(&self, server: &str, lines: &Path) -> Result<()> {
        let mut command = Command::new(&self.0);
        command.args(["fill", server, STREAM]).arg(lines);
        run(command)
    }
}

/// A process whose time is known. Dropped, it is ended.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Bare, Self::Text, Self::Json];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "nats.go",
            Self::Text => "tremor",
            Self::Json => "tremor-json",
        }
    }

    /// Takes all messages as a consumer of its own, until the server has all acknowledgements.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn turn(
        self,
        built: &Built,
        bare: &Bare,
        server: &str,
        monitor: &str,
        round: usize,
        messages: u64,
        folder: &Path,
    ) -> Result<Sample> {
        let name = format!("{}-{round}", self.name().replace('.', "-"));
        let mut command = match self {
            Self::Bare => {
                let mut command = Command::new(&bare.0);
                command.args(["consume", server, STREAM, &name, &messages.to_string()]);
                command
            }
            Self::Text | Self::Json => {
                let codec = if self == Self::Text { "string" } else { "json" };
                let mut command = Command::new(&built.tremor);
                command.arg("run").arg(root().join(format!("bench/nats/{codec}.yaml")));
                command.env("TREMOR_PLUGIN_PATH", &built.plugins);
                command.env("SERVER", server).env("STREAM", STREAM).env("NAME", &name);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(folder.join(format!("{name}.log")))?);
        let start = Instant::now();
        let mut process = Process(command.spawn().context("cannot start it")?);
        let mut processor = Duration::ZERO;
        let wall = loop {
            thread::sleep(LOOK);
            let has_ended = process.0.try_wait()?;
            // Of a process that has ended nothing is known any more.
            processor = processor.max(processor_time(process.0.id()).unwrap_or_default());
            if acknowledged(monitor, &name)? >= messages {
                break start.elapsed();
            }
            ensure!(
                has_ended.is_none_or(|it| it.success()),
                "it has ended before all messages were acknowledged"
            );
            ensure!(start.elapsed() < PATIENCE, "not all messages are acknowledged");
        };
        Ok(Sample { way: self, round, wall, processor })
    }
}

/// Up to which message a consumer has acknowledged all, as the server says.
fn acknowledged(monitor: &str, consumer: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(monitor).context("the server does not say how it is")?;
    write!(stream, "GET /jsz?accounts=true&streams=true&consumers=true HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a body")?;
    Ok(floor(&serde_json::from_str(body)?, consumer).unwrap_or(0))
}

/// Of `/jsz`: none, where there is no such consumer.
fn floor(answer: &Value, consumer: &str) -> Option<u64> {
    let all = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let streams =
        all(answer, "account_details").into_iter().flat_map(|it| all(&it, "stream_detail"));
    let mut consumers = streams.flat_map(|it| all(&it, "consumer_detail"));
    consumers.find(|it| it["name"] == consumer)?["ack_floor"]["stream_seq"].as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::floor;

    #[test]
    fn the_floor_of_a_consumer_is_found() {
        let consumer =
            |name: &str, floor: u64| json!({ "name": name, "ack_floor": { "stream_seq": floor } });
        let streams = json!([{ "name": "messages", "consumer_detail": [consumer("a", 7), consumer("b", 5)] }]);
        let answer = json!({ "account_details": [{ "name": "$G", "stream_detail": streams }] });
        assert_eq!(floor(&answer, "b"), Some(5));
        assert_eq!(floor(&answer, "c"), None);
        assert_eq!(floor(&json!({}), "a"), None);
    }
}
