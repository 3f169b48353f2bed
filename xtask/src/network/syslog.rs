//! The case `syslog`: lines of syslog over one TCP connection into a file, in turn through `tremor`, through a loop
//! that only reads and writes, and through rsyslog and syslog-ng if they are installed.
//!
//! The file is in memory, so that no disk is measured. The measured time begins when the first byte is sent, and ends
//! when the last byte is in the file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use std::{env, net::TcpStream, path::Path, thread};

use anyhow::{Context, Result, anyhow, ensure};
use hostile_peers::Reserved;

use super::{BARE, Bench, COST, InMemory, OURS, RATE, SETTLE};
use crate::process::{Program, wait};
use crate::project::{root, write};
use crate::samples::{Figures, Samples};
use crate::scenario::PATIENCE;

/// The servers. The first two write the bytes that they receive unchanged.
pub(super) const SERVERS: [&str; 6] =
    [BARE, OURS, "tremor-json", "rsyslog", "rsyslog-json", "syslog-ng"];
/// Length of a line, in bytes.
const LINE: usize = 630;
/// Number of lines of a block.
const BLOCK: u64 = 10_000;
/// Number of blocks that are sent.
const BLOCKS: u64 = 100;
/// Time after which a file that has not grown is complete.
const STILL: Duration = Duration::from_millis(1_500);

/// Starts a server, sends all lines to it, ends it, and checks its file.
pub(super) fn turn(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (reserved, output) = (Reserved::tcp()?, InMemory::new()?);
    let port = reserved.port();
    let server = program(bench, name, port, &output)?.listen(port)?;
    let block: Vec<u8> = (0..BLOCK).flat_map(|number| line(number).into_bytes()).collect();
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    thread::sleep(SETTLE);
    let (before, start) = (server.processor_time()?, Instant::now());
    let sent = block.clone();
    let sending = thread::spawn(move || (0..BLOCKS).try_for_each(|_| connection.write_all(&sent)));
    let (mut size, mut grown) = (0, start);
    wait("all lines in the file of the server", PATIENCE, || {
        let now = output.size();
        if now != size {
            (size, grown) = (now, Instant::now());
        }
        let is_all = sending.is_finished() && grown.elapsed() > STILL;
        Ok(is_all.then_some(()))
    })?;
    let took = server.processor_time()?.saturating_sub(before);
    sending.join().map_err(|_| anyhow!("the sender panicked"))?.context("cannot send")?;
    drop(server);
    let lines = count(&output.0, SERVERS[..2].contains(&name).then_some(&block))?;
    ensure!(
        lines == BLOCKS * BLOCK,
        "the file of the server has {lines} of {} lines",
        BLOCKS * BLOCK
    );
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    let lines = lines as f64;
    Ok(vec![
        (RATE, lines / (grown - start).as_secs_f64()),
        (COST, took.as_secs_f64() * 1e6 / lines),
    ])
}

/// Returns a server on a port of the loopback address that writes to a file.
fn program(bench: &Bench<'_>, name: &str, port: u16, output: &InMemory) -> Result<Program> {
    let file = match name {
        OURS => "forward.yaml",
        "tremor-json" => "parse.yaml",
        BARE => return Ok(bench.at("bytes", port).argument(output.shown())),
        _ => return configured(bench, name, port, output),
    };
    Ok(bench.flow(file, port).variable("OUTPUT", output.shown()))
}

/// Returns rsyslog or syslog-ng with its configuration of `bench/network`.
fn configured(bench: &Bench<'_>, name: &str, port: u16, output: &InMemory) -> Result<Program> {
    let folder = &bench.stage.folder;
    let [config, state] = ["conf", "state"].map(|it| folder.join(format!("{name}.{it}")));
    let template = root().join("bench/network").join(format!("{name}.conf"));
    let text = fs::read_to_string(template)?.replace("@PORT@", &port.to_string());
    let text = text.replace("@OUTPUT@", &output.shown().to_string());
    write(&config, &text.replace("@FOLDER@", &folder.display().to_string()))?;
    let _ = fs::remove_file(&state);
    let (config, state) = (config.display(), state.display());
    let (program, options) = match name {
        "syslog-ng" => {
            ("syslog-ng", format!("-F -f {config} -R {state} -p {state}.pid -c {state}.ctl"))
        }
        _ => ("rsyslogd", format!("-n -f {config} -i NONE")),
    };
    let program = Program::new(program, name, folder).within(&env::current_dir()?);
    Ok(program.arguments(options.split(' ')))
}

/// Returns a line in the format of nginx, with JSON in the message.
fn line(number: u64) -> String {
    let (second, host, item) = (number % 60, number % 17, number % 1_000);
    let line = format!(
        "<134>Nov 22 00:20:{second:02} web-{host:02} nginx[{item:04}]: @cee: {{\"ts\": \"2026-11-22T00:20:{second:02}Z\", \
         \"level\": \"info\", \"method\": \"GET\", \"path\": \"/api/v1/items/{item}\", \"status\": 200, \
         \"bytes\": {item}, \"dur_ms\": {host}.125, \"ip\": \"10.0.{host}.{second}\", \"trace\": \"{number:032x}\", \
         \"user\": {{\"id\": {number}, \"name\": \"user{number}\"}}, \"msg\": \"",
    );
    format!("{line:x<width$}\"}}\n", width = LINE - 3)
}

/// Returns the number of lines of a file.
///
/// # Errors
/// A `block` is given, and the file is not a repetition of it.
fn count(output: &Path, block: Option<&Vec<u8>>) -> Result<u64> {
    let mut file = File::open(output)?;
    let (mut lines, mut bytes) = (0, Vec::new());
    loop {
        bytes.clear();
        let size = block.map_or(1 << 20, |block| block.len() as u64);
        if Read::by_ref(&mut file).take(size).read_to_end(&mut bytes)? == 0 {
            return Ok(lines);
        }
        let is_same = block.is_none_or(|block| block.starts_with(&bytes));
        ensure!(is_same, "after {lines} lines, the file has other lines than were sent");
        lines += bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
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
            count(&path, Some(&b"one\ntwo\n".to_vec()))
        };
        assert_eq!(check(b"one\ntwo\none\ntwo\n").expect("the output equals the input"), 4);
        assert_eq!(check(b"one\ntwo\none\n").expect("the output is the beginning of the input"), 3);
        assert!(check(b"one\ntwo\none\nten\n").is_err());
        assert_eq!(count(&path, None).expect("any lines"), 4);
        fs::remove_file(&path).expect("the file exists");
    }

    #[test]
    fn lines_have_equal_length_and_contain_json() {
        for line in (0..BLOCK).step_by(97).map(line) {
            assert_eq!(line.len(), LINE);
            let (_, json) = line.split_once("@cee: ").expect("a cookie before JSON");
            serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        }
    }
}
