//! `cargo xtask sinks`: measures the processor time of the sinks for systems, in turn with the sink `http_client`, and
//! the samples per second of remote write. The servers are threads of this process, which answer without a delay.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hostile_peers::Reserved;
use hostile_peers::http::{Request, Server, read_head, response};
use serde_json::{Value, json};

use crate::process::Program;
use crate::samples::{Figures, Samples, within};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage, counts};

const COST: &str = "us of processor time per event";
const RATE: &str = "events/s";
/// Sink with which the sinks for systems are compared.
const PLAIN: &str = "http_client";
/// Sinks for systems.
const SYSTEMS: [&str; 2] = ["elasticsearch", "loki"];
/// Maximum processor time of a sink for a system, as a multiple of that of [`PLAIN`].
const MOST: f64 = 1.15;
/// Directions of remote write: the sink and the source.
const DIRECTIONS: [&str; 2] = ["sends", "receives"];
/// Minimum number of samples per second in each direction, on two processors.
const LEAST: f64 = 500_000.0;
/// Number of series of the samples.
const SERIES: u64 = 1_000;
/// Number of connections that send samples.
const SENDERS: usize = 4;
const PATH: &str = "api/v1/write";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of measurements of each sink
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Number of log events, and of samples, in each measurement
    #[arg(long, default_value_t = 500_000, value_name = "N")]
    events: u64,
}

impl Scenario for Arguments {
    const NAME: &'static str = "sinks";
    const PLUGINS: &'static [&'static str] =
        &["connector-file", "connector-http", "connector-null"];
    type Found = [Samples; 2];

    fn play(&self, stage: &Stage<'_>) -> Result<[Samples; 2]> {
        let file = |name: &str| File::create(stage.folder.join(name)).map(BufWriter::new);
        sample_logs::write_lines(self.events, 42, &mut file("events")?)?;
        let mut samples = file("samples")?;
        for number in 0..self.events {
            writeln!(samples, "{}", sample(number))?;
        }
        samples.flush()?;
        let logs = [&[PLAIN][..], &SYSTEMS].concat();
        let logs = Samples::by_turns("logs", self.rounds, &logs, |name, _| {
            let server = Server::start(move |request| answer(name, request));
            self.send(stage, name, &server)
        })?;
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let remote_write =
            Samples::by_turns("remote write", self.rounds, &DIRECTIONS, |name, _| {
                if name == DIRECTIONS[1] {
                    return self
                        .receive(stage, &bodies.lock().unwrap_or_else(PoisonError::into_inner));
                }
                let received = bodies.clone();
                received.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let server = Server::start(move |request| {
                    let mut bodies = received.lock().unwrap_or_else(PoisonError::into_inner);
                    bodies.push(request.body.clone());
                    response("204 No Content", "")
                });
                self.send(stage, "prometheus_remote_write", &server)
            })?;
        Ok([logs, remote_write])
    }

    fn judge(&self, found: &[Samples; 2]) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        judgement.line(format_args!("{} rounds of {} events each", self.rounds, self.events));
        let [logs, remote_write] = found;
        found.iter().for_each(|samples| samples.show(&mut judgement));
        for system in SYSTEMS {
            let part = logs.median(system, COST) / logs.median(PLAIN, COST);
            within(&mut judgement, &format!("{system} / {PLAIN}"), part, ..=MOST);
        }
        for direction in DIRECTIONS {
            let rate = remote_write.median(direction, RATE);
            within(&mut judgement, &format!("remote write {direction}"), rate, LEAST..);
        }
        judgement.files.push(Samples::csv(found)?);
        Ok(judgement)
    }
}

impl Arguments {
    /// Sends all events of a file to a server, and measures the process from its start to its end.
    fn send(&self, stage: &Stage<'_>, sink: &'static str, server: &Server) -> Result<Figures> {
        let (input, batch, path, keys) = match sink {
            "elasticsearch" => ("events", 1_000, "", "index: logs"),
            "loki" => ("events", 1_000, "", "labels: { host: '{syslog_hostname}' }"),
            PLAIN => ("events", 1_000, "", "format: ndjson"),
            _ => ("samples", 2_000, PATH, ""),
        };
        let kind = if sink == PLAIN { "http_client\n    codec: json" } else { sink };
        let file = format!("{sink}.yaml");
        let address = server.address();
        let values: [(_, &dyn std::fmt::Display); 6] = [
            ("INPUT", &input),
            ("TYPE", &kind),
            ("BATCH", &batch),
            ("SERVER", &address),
            ("PATH", &path),
            ("KEYS", &keys),
        ];
        stage.flow(&file, include_str!("flows/sinks.yaml"), &values)?;
        let mut process = stage.start(sink, &[&file])?;
        let processor = process.finish_and_measure(PATIENCE)?;
        let took = process.begun.elapsed();
        let (_, delivered) = counts(&process.log()?, sink)?;
        ensure!(delivered == self.events, "{sink} has delivered {delivered} events");
        Ok(self.figures(processor, took))
    }

    /// Sends the bodies of requests to the source of remote write, on several connections.
    fn receive(&self, stage: &Stage<'_>, bodies: &[Vec<u8>]) -> Result<Figures> {
        let reserved = Reserved::tcp()?;
        let port = reserved.port();
        let file = "receives.yaml";
        stage.flow(file, include_str!("flows/sinks-receiver.yaml"), &[("PORT", &port)])?;
        let program = Program::tremor(stage.built, "receives", &stage.folder);
        let mut process = program.argument(file).listen(port)?;
        let (before, begun) = (process.processor_time()?, Instant::now());
        let address = reserved.address();
        let sent: Result<Vec<()>> = thread::scope(|scope| {
            let shares = (0..SENDERS).map(|sender| bodies.iter().skip(sender).step_by(SENDERS));
            let senders: Vec<_> =
                shares.map(|share| scope.spawn(|| post_all(&address, share))).collect();
            let joined = senders.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|it| it.map_err(|_| anyhow!("a sender has panicked"))?).collect()
        });
        sent?;
        let took = begun.elapsed();
        let processor = process.processor_time()?.saturating_sub(before);
        let (read, _) = counts(&process.stop(PATIENCE)?, "receives")?;
        ensure!(read == self.events, "the source has read {read} samples");
        Ok(self.figures(processor, took))
    }

    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    fn figures(&self, processor: Duration, took: Duration) -> Figures {
        let events = self.events as f64;
        vec![(COST, processor.as_secs_f64() * 1e6 / events), (RATE, events / took.as_secs_f64())]
    }
}

/// Returns a sample as an event of the codec `prometheus`.
fn sample(number: u64) -> Value {
    let labels = json!({ "instance": format!("host-{}:9100", number % SERIES), "job": "node" });
    let timestamp = (1_700_000_000_000 + number / SERIES) * 1_000_000;
    json!({ "name": "node_requests_total", "labels": labels, "value": number, "timestamp": timestamp })
}

/// Returns the response of a system that accepts all events of a request.
fn answer(name: &str, request: &Request) -> Vec<u8> {
    if name != SYSTEMS[0] {
        return response("200 OK", "");
    }
    // Each document has a line before it, and the last line feed is followed by an empty line.
    let documents = request.body.split(|byte| *byte == b'\n').count() / 2;
    // The parts of the response that `filter_path` of the request selects.
    let item = r#"{"create":{"status":201}}"#;
    let items = vec![item; documents].join(",");
    response("200 OK", &format!(r#"{{"errors":false,"items":[{items}]}}"#))
}

/// Posts bodies of remote write on one connection, one after the other.
fn post_all<'b>(address: &str, bodies: impl Iterator<Item = &'b Vec<u8>>) -> Result<()> {
    let stream = TcpStream::connect(address)?;
    let mut answers = BufReader::new(&stream);
    for body in bodies {
        let length = body.len();
        let head = format!(
            "POST /{PATH} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-protobuf\r\n\
             content-encoding: snappy\r\nx-prometheus-remote-write-version: 0.1.0\r\ncontent-length: {length}\r\n\r\n"
        );
        (&stream).write_all(&[head.as_bytes(), body].concat())?;
        let head = read_head(&mut answers)?;
        let status = head.split(' ').nth(1).context("the answer has no status")?;
        ensure!(status == "204", "a request was answered with {head}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_is_answered_with_an_item_for_each_document() {
        let body = b"{\"create\":{}}\n{}\n{\"create\":{}}\n{}\n".to_vec();
        let request = Request { head: String::new(), body };
        let answered = String::from_utf8(answer("elasticsearch", &request)).expect("text");
        let (_, body) = answered.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["items"].as_array().map(Vec::len), Some(2));
    }
}
