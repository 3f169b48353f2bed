//! Tests of the admin API with other programs: Prometheus, `promtool` of Prometheus, and a validator of the API's
//! description.
//!
//! If a program is missing, the checks with it are skipped, and a message is printed. `TREMOR_PROMETHEUS`,
//! `TREMOR_PROMTOOL` and `TREMOR_OPENAPI_VALIDATOR` name the programs if they are not on the path.

use std::{
    env,
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    api::live,
    peer::{free_port, prometheus, wait_until},
};

/// Runs a program with `text` on its standard input, and checks that the program succeeds. Skips the check if the
/// program is not installed.
fn reads(variable: &str, program: &str, arguments: &[&str], text: &str) {
    let program = env::var_os(variable).unwrap_or_else(|| program.into());
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let skip = || {
        eprintln!(
            "SKIPPED: {} is not installed; install it, or name it with {variable}",
            program.display()
        );
    };
    let Ok(mut reader) = command.spawn() else { return skip() };
    // Ignore an error: a program that does not read its input reports the reason itself.
    let _ = reader.stdin.take().unwrap().write_all(text.as_bytes());
    let output = reader.wait_with_output().unwrap();
    // A wrapper exits with this status if no available version of Python has the program.
    if output.status.code() == Some(127) {
        return skip();
    }
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {text}", String::from_utf8_lossy(&said));
}

#[test]
fn promtool_finds_no_problem_in_the_metrics() {
    let asked = live();
    let (_, metrics) = asked.request("GET", "/metrics");
    reads("TREMOR_PROMTOOL", "promtool", &["check", "metrics"], &metrics);
    asked.end();
}

#[test]
fn validator_accepts_the_description_of_the_api() {
    let asked = live();
    let (_, description) = asked.request("GET", "/v1/openapi.json");
    reads("TREMOR_OPENAPI_VALIDATOR", "openapi-spec-validator", &["-"], &description);
    asked.end();
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let asked = live();
    let port = free_port();
    let config = format!(
        "scrape_configs: [{{ job_name: tremor, scrape_interval: 100ms, scrape_timeout: 100ms,
           static_configs: [{{ targets: ['{}'] }}] }}]",
        asked.address
    );
    let Some(_prometheus) = prometheus(&config, port) else { return };
    // Use HTTP/1.0, in which responses are not chunked.
    let query = |query: &str| -> Option<Value> {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
        write!(connection, "GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    };
    let samples = |answer: &Value| answer["data"]["result"].as_array().map_or(0, Vec::len);
    wait_until(|| query("up==1").is_some_and(|answer| samples(&answer) == 1));
    let of_ticks = "tremor_events_total%7Bflow%3D%22live%22,component%3D%22ticks%22%7D%3E0";
    wait_until(|| query(of_ticks).is_some_and(|answer| samples(&answer) > 0));
    asked.end();
}
