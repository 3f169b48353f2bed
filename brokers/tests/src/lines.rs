//! Flows that send lines of a file to a broker.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Write},
};

use crate::{eventually, flow::Flow};

/// A flow that reads a file, to which the test adds lines, and sends the lines to a connector. Events that the
/// connector rejects go to standard output.
pub struct Lines {
    /// The running flow, with an admin API.
    pub flow: Flow,
    input: File,
}

impl Lines {
    /// Starts a flow to the connector `output`, in the notation of a flow file.
    pub fn to(output: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = File::create(folder.path().join("input")).unwrap();
        let flow = format!(
            "connectors:\n  \
               input: {{ type: file, codec: json, preprocessors: [lines], config: {{ path: input, mode: read, \
                 follow: true, poll_interval: 10ms, checkpoint: offset }} }}\n  \
               output: {output}\n  \
               errors: {{ type: stdio, codec: json, postprocessors: [lines] }}\n\
             links: [input -> output, output/err -> errors]\n"
        );
        let flow = Flow::run_in(folder, &flow, &["--api", "127.0.0.1:0"]);
        Self { flow, input }
    }

    /// Adds lines.
    pub fn add(&mut self, lines: impl IntoIterator<Item = String>) {
        let mut input = BufWriter::new(&self.input);
        for line in lines {
            writeln!(input, "{line}").unwrap();
        }
        input.flush().unwrap();
    }

    /// Waits until at least `count` events were rejected, and returns all rejected events.
    pub fn rejects(&self, count: usize) -> Vec<String> {
        eventually(format_args!("{count} at err\n{}", self.flow), || {
            Some(self.flow.out()).filter(|out| out.len() >= count)
        })
    }

    /// Stops the flow, which has to succeed, and returns the log.
    pub fn stop(self) -> String {
        let (status, log) = self.flow.stop();
        assert!(status.success(), "{log}");
        log
    }
}

/// Returns the line with this number.
pub fn line(number: u64) -> String {
    format!("{{\"n\":{number}}}")
}

/// Returns the line with this number and additional bytes.
pub fn long_line(number: u64, bytes: usize) -> String {
    format!("{{\"n\":{number},\"x\":\"{}\"}}", "x".repeat(bytes))
}

/// Returns the numbers of lines that [`line()`] or [`long_line`] created. Ignores lines without a number.
pub fn numbers(lines: &[String]) -> Vec<u64> {
    let number =
        |line: &String| line.split_once("\"n\":")?.1.split_once([',', '}'])?.0.parse().ok();
    lines.iter().filter_map(number).collect()
}

/// Returns whether each number below `count` occurs in the lines, and no other number. The order and repetitions do not
/// matter.
pub fn have_all(lines: &[String], count: u64) -> bool {
    BTreeSet::from_iter(numbers(lines)).into_iter().eq(0..count)
}

/// Returns whether each number below `count` occurs in the lines, and the first occurrences are in order.
pub fn have_all_in_order(lines: &[String], count: u64) -> bool {
    let mut next = 0;
    let is_in_order = numbers(lines).into_iter().all(|number| {
        let is_in_order = number <= next;
        next = next.max(number + 1);
        is_in_order
    });
    is_in_order && next == count
}
