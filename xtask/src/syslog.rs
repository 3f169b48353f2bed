//! `cargo xtask syslog`: lines of syslog over one TCP connection into a file, by turns through this program,
//! through a loop that only reads and writes, and through rsyslog and syslog-ng if they are at hand.
//!
//! The file lies in memory, so that no disk is measured. The time is that from the first byte that is sent to
//! the last that is in the file. The processor time is that of the server alone.

mod lines;

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use self::lines::{BLOCK, LINE, block};
use crate::built::Built;
use crate::network::{self, InMemory, PEERS};
use crate::process::{Process, Program, free_port, need, wait};
use crate::project::root;
use crate::samples::{Figures, Samples};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// The servers. The files of the first two have the bytes that they received.
const SERVERS: [&str; 6] =
    ["bare-loop", "tremor", "tremor-json", "rsyslog", "rsyslog-json", "syslog-ng"];
/// A file that has not grown for this time is complete.
const STILL: Duration = Duration::from_millis(1_500);
/// Time for what a server does once it has started.
const SETTLE: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each server has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How many blocks of 10,000 lines are sent
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// The program rsyslogd, if it is not on the path
    #[arg(long, default_value = "rsyslogd", value_name = "FILE")]
    rsyslogd: PathBuf,
    /// The folder of rsyslog's modules, if it is not the usual one
    #[arg(long, value_name = "DIR")]
    rsyslog_modules: Option<PathBuf>,
    /// The program syslog-ng, if it is not on the path
    #[arg(long, default_value = "syslog-ng", value_name = "FILE")]
    syslog_ng: PathBuf,
    /// Servers to measure, of those that the table names; unless given, all
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// A folder in memory for what the servers write
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    memory: PathBuf,
}

impl Scenario for Arguments {
    const NAME: &'static str = "syslog";
    type Found = Samples;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        network::build(&["connector-file", "connector-tcp-server"], release, to)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Samples> {
        let is_selected =
            |name: &str| self.only.is_empty() || self.only.iter().any(|it| it == name);
        let has_rsyslog = is_there(&self.rsyslogd, "an installation or `--rsyslogd`");
        let has_syslog_ng = is_there(&self.syslog_ng, "an installation or `--syslog-ng`");
        let mut servers = SERVERS.to_vec();
        servers.retain(|name| match *name {
            "rsyslog" | "rsyslog-json" => has_rsyslog && is_selected(name),
            "syslog-ng" => has_syslog_ng && is_selected(name),
            _ => is_selected(name),
        });
        let block = block();
        let mut samples = Samples::default();
        samples.by_turns("syslog", self.rounds, &servers, |_, _, name| {
            self.turn(stage, name, &block)
        })?;
        Ok(samples)
    }

    fn judge(&self, samples: &Samples) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let what = format!("{} lines of {LINE} bytes over one connection", self.blocks * BLOCK);
        samples.show(&mut judgement, "syslog", &what);
        samples.keep(&mut judgement)?;
        Ok(judgement)
    }
}

/// Returns whether a program can be started, and says so if not.
fn is_there(program: &Path, option: &str) -> bool {
    // rsyslog knows only the short form.
    let found = need(program, "-v", option);
    found.inspect_err(|error| eprintln!("SKIPPED: {error}")).is_ok()
}

impl Arguments {
    /// Starts a server, sends all lines to it, and ends it.
    fn turn(&self, stage: &Stage<'_>, name: &str, block: &[u8]) -> Result<Figures> {
        let (port, output) = (free_port()?, InMemory::new(&self.memory, name));
        let server = self.program(stage, name, port, &output)?.listen(port)?;
        let (wall, processor) = self.measure(&server, port, &output, block)?;
        drop(server);
        let compared = SERVERS[..2].contains(&name).then_some(block);
        let (lines, sent) = (count(output.path(), compared)?, self.blocks * BLOCK);
        ensure!(lines == sent, "{lines} of {sent} lines are in its file");
        #[allow(clippy::cast_precision_loss)] // some millions
        let lines = lines as f64;
        Ok(vec![
            ("lines/s", lines / wall.as_secs_f64()),
            ("us of processor a line", processor.as_secs_f64() * 1e6 / lines),
        ])
    }

    /// A server on a port of the loopback address that writes to a file.
    fn program(
        &self,
        stage: &Stage<'_>,
        name: &str,
        port: u16,
        output: &InMemory,
    ) -> Result<Program> {
        let folder = &stage.folder;
        let files = root().join("bench/network");
        let flow = |file: &str| {
            let flow = Program::tremor(stage.built, name, folder);
            let flow = flow.argument(files.join(file).display());
            flow.variable("PORT", port).variable("OUTPUT", output.shown())
        };
        let [config, state] = ["conf", "state"].map(|it| folder.join(format!("{name}.{it}")));
        let configured = |program: &Path| -> Result<Program> {
            let template = fs::read_to_string(files.join(format!("{name}.conf")))?;
            let text = template
                .replace("@PORT@", &port.to_string())
                .replace("@OUTPUT@", &output.shown().to_string())
                .replace("@FOLDER@", &folder.display().to_string());
            fs::write(&config, text)?;
            let _ = fs::remove_file(&state);
            Ok(Program::new(program, name, folder).within(&env::current_dir()?))
        };
        let (config, state) = (config.display(), state.display());
        Ok(match name {
            "bare-loop" => {
                let program = Program::new(stage.built.plugins.join(PEERS), name, folder);
                program.argument("bytes").argument(port).argument(output.shown())
            }
            "tremor" => flow("forward.yaml"),
            "tremor-json" => flow("parse.yaml"),
            "syslog-ng" => {
                let program = configured(&self.syslog_ng)?.argument("-F");
                let program = program.argument("-f").argument(&config).argument("-R");
                let program =
                    program.argument(&state).argument("-p").argument(format!("{state}.pid"));
                program.argument("-c").argument(format!("{state}.ctl"))
            }
            _ => {
                let program = configured(&self.rsyslogd)?.arguments(["-n", "-f"]);
                let program = program.argument(&config).arguments(["-i", "NONE"]);
                match &self.rsyslog_modules {
                    Some(modules) => program.argument("-M").argument(modules.display()),
                    None => program,
                }
            }
        })
    }

    /// Returns the time until all is in the file, and the processor time that the server took.
    fn measure(
        &self,
        server: &Process,
        port: u16,
        output: &InMemory,
        block: &[u8],
    ) -> Result<(Duration, Duration)> {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        thread::sleep(SETTLE);
        let (before, start) = (server.processor_time()?, Instant::now());
        let sending = {
            let (block, blocks) = (block.to_vec(), self.blocks);
            thread::spawn(move || (0..blocks).try_for_each(|_| connection.write_all(&block)))
        };
        let (mut size, mut grown) = (0, start);
        wait("all lines in its file", PATIENCE, || {
            let now = output.size();
            if now != size {
                (size, grown) = (now, Instant::now());
            }
            let is_all = sending.is_finished() && grown.elapsed() > STILL;
            Ok(is_all.then_some(()))
        })?;
        let took = server.processor_time()?.saturating_sub(before);
        sending.join().map_err(|_| anyhow!("the sender panicked"))?.context("cannot send")?;
        Ok((grown - start, took))
    }
}

/// Returns the number of lines of a file. They are those of the blocks, in order, if there is a block to compare.
fn count(output: &Path, block: Option<&[u8]>) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(output)?);
    let (mut position, mut lines) = (0, 0);
    loop {
        let mut bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        if let Some(block) = block {
            bytes = &bytes[..bytes.len().min(block.len() - position)];
            let expected = &block[position..position + bytes.len()];
            ensure!(bytes == expected, "after {lines} lines, others are in its file");
            position = (position + bytes.len()) % block.len();
        }
        lines += lines::count(bytes);
        let length = bytes.len();
        file.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_and_an_early_end_are_found() {
        let path = env::temp_dir().join(format!("xtask-syslog-{}", std::process::id()));
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("a file for temporary files");
            count(&path, Some(b"one\ntwo\n"))
        };
        assert_eq!(check(b"one\ntwo\none\ntwo\n").expect("the same"), 4);
        assert_eq!(check(b"one\ntwo\none\n").expect("the same so far"), 3);
        assert!(check(b"one\ntwo\none\nten\n").is_err());
        assert_eq!(count(&path, None).expect("any lines"), 4);
        fs::remove_file(&path).expect("the file is there");
    }
}
