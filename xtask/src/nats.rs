//! `cargo xtask nats`: messages of a stream of NATS, by turns through a bare consumer on `nats.go`, which
//! acknowledges each and does nothing else, and through flows.
//!
//! All have the same server, messages and settings, and acknowledge each message by itself. The time is that from
//! the start of the process until the server has all acknowledgements. The processor time is that of the process,
//! without the server's.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::broker;
use crate::built::{self, Built};
use crate::process::{Program, exchange, need, wait};
use crate::project::{root, run};
use crate::samples::{Figures, Samples};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// The bare consumer,
const BARE: &str = "nats.go";
/// a flow that takes payloads as they are,
const TEXT: &str = "tremor";
/// and a flow that decodes them.
const JSON: &str = "tremor-json";
const STREAM: &str = "messages";
const SPEED: &str = "messages/s";
/// Time between two questions to the server.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each way has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How many messages there are, generated log events of some 600 bytes
    #[arg(long, default_value_t = 300_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
}

impl Scenario for Arguments {
    const NAME: &'static str = "nats";
    type Found = Samples;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        need("go", "version", "`apt-get install golang`")?;
        let (package, others) = ("connector-nats", ["connector-null"]);
        let built = built::build_broker(package, &others, release, to)?;
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-o"]).arg(to.join("bare")).arg(".");
        command.current_dir(root().join("bench/nats/bare"));
        run(command)?;
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Samples> {
        let lines = stage.folder.join("messages.jsonl");
        sample_logs::write_lines(self.messages, 42, &mut File::create(&lines)?)?;
        let cluster = broker::nats(&stage.folder.join("server"))?;
        let server = cluster.address("plain").context("the server has an address")?;
        let monitor = cluster.address("monitor").context("the server says how it is")?;
        bare(stage, "fill", "fill", server).argument(lines.display()).start()?.finish()?;
        let mut samples = Samples::default();
        samples.by_turns("nats", self.rounds, &[BARE, TEXT, JSON], |_, round, way| {
            self.turn(stage, way, round, server, monitor)
        })?;
        drop(cluster);
        // These files are large, and show nothing.
        fs::remove_file(lines)?;
        fs::remove_dir_all(stage.folder.join("server"))?;
        fs::remove_dir_all(&stage.built.plugins)?;
        Ok(samples)
    }

    fn judge(&self, samples: &Samples) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let what = format!("{} messages; {} rounds", self.messages, self.rounds);
        samples.show(&mut judgement, "nats", &what);
        samples.compare(&mut judgement, "nats", SPEED, BARE);
        samples.keep(&mut judgement)?;
        Ok(judgement)
    }
}

/// Returns the program with the bare consumer, which fills the stream as well.
fn bare(stage: &Stage<'_>, log: &str, role: &str, server: &str) -> Program {
    let program = Program::new(stage.built.plugins.join("bare"), log, &stage.folder);
    program.arguments([role, server, STREAM])
}

impl Arguments {
    /// Takes all messages as a consumer of its own, until the server has all acknowledgements.
    fn turn(
        &self,
        stage: &Stage<'_>,
        way: &str,
        round: usize,
        server: &str,
        monitor: &str,
    ) -> Result<Figures> {
        let name = format!("{}-{round}", way.replace('.', "-"));
        let flow = |file: &str| {
            let flow = Program::tremor(stage.built, &name, &stage.folder);
            let flow = flow.argument(root().join("bench/nats").join(file).display());
            flow.variable("SERVER", server).variable("STREAM", STREAM).variable("NAME", &name)
        };
        let mut program = match way {
            BARE => bare(stage, &name, "consume", server).argument(&name).argument(self.messages),
            TEXT => flow("string.yaml"),
            _ => flow("json.yaml"),
        };
        let start = Instant::now();
        let mut process = program.start()?;
        let mut processor = Duration::ZERO;
        let wall = wait("an acknowledgement of all messages", PATIENCE, || {
            thread::sleep(LOOK);
            let ended = process.ended()?;
            // A process that has ended has no times.
            processor = processor.max(process.processor_time().unwrap_or_default());
            let is_all = acknowledged(monitor, &name)? >= self.messages;
            let is_alive = ended.is_none_or(|it| it.success());
            ensure!(is_all || is_alive, "it has ended before all messages were acknowledged");
            Ok(is_all.then(|| start.elapsed()))
        })?;
        #[allow(clippy::cast_precision_loss)] // some millions
        let messages = self.messages as f64;
        Ok(vec![
            (SPEED, messages / wall.as_secs_f64()),
            ("µs of processor a message", processor.as_secs_f64() * 1e6 / messages),
        ])
    }
}

/// Returns the message up to which a consumer has acknowledged all, as the server says.
fn acknowledged(monitor: &str, consumer: &str) -> Result<u64> {
    let request = "GET /jsz?accounts=true&streams=true&consumers=true HTTP/1.0\r\n\r\n";
    let (_, body) = exchange(monitor, request)?;
    Ok(floor(&serde_json::from_str(&body)?, consumer).unwrap_or(0))
}

/// Returns the floor of a consumer in `/jsz`, if there is such a consumer.
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
    fn floor_of_a_consumer_is_found() {
        let consumer =
            |name: &str, floor: u64| json!({ "name": name, "ack_floor": { "stream_seq": floor } });
        let streams = json!([{ "name": "messages", "consumer_detail": [consumer("a", 7), consumer("b", 5)] }]);
        let answer = json!({ "account_details": [{ "name": "$G", "stream_detail": streams }] });
        assert_eq!(floor(&answer, "b"), Some(5));
        assert_eq!(floor(&answer, "c"), None);
        assert_eq!(floor(&json!({}), "a"), None);
    }
}
