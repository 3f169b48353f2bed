//! Log files of containers in Kubernetes: lines of the Container Runtime Interface, with stack traces of Java.

use std::io::{self, Write};

use crate::event::append_formatted;
use crate::random::Random;
use crate::words::WORDS;

const LEVELS: [&str; 4] = ["DEBUG", "INFO", "INFO", "WARN"];
const EXCEPTIONS: [&str; 4] = [
    "java.lang.IllegalStateException",
    "java.util.concurrent.TimeoutException",
    "java.io.IOException",
    "java.lang.NullPointerException",
];
/// Average number of messages from one stack trace to the next.
const MESSAGES_PER_TRACE: u32 = 20;

/// Writes `count` lines of about 130 bytes. About half of the lines belong to stack traces. One of 50 lines is from
/// standard error, and may be between the lines of a stack trace from standard output.
///
/// # Errors
/// Errors of `out`.
pub fn write_container_lines(count: u64, seed: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(1024);
    // Number of remaining lines of the stack trace, and the depth of the next frame.
    let (mut left, mut frame) = (0, 0);
    for number in 0..count {
        text.clear();
        let is_stderr = random.below(50) == 0;
        let stream = if is_stderr { "stderr" } else { "stdout" };
        let (seconds, nanoseconds) = (number / 10_000 % 3600, number % 10_000 * 100_000 + 1_234);
        append_formatted(
            &mut text,
            format_args!(
                "2026-01-02T03:{:02}:{:02}.{nanoseconds:09}Z {stream} F ",
                seconds / 60,
                seconds % 60
            ),
        );
        if left > 0 && !is_stderr {
            append_frame(&mut random, frame, &mut text);
            (left, frame) = (left - 1, frame + 1);
        } else {
            let is_trace = !is_stderr && random.below(MESSAGES_PER_TRACE) == 0;
            append_message(&mut random, is_trace, &mut text);
            (left, frame) = if is_trace { (random.between(10, 30), 0) } else { (left, frame) };
        }
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}

/// Appends the first line of a message.
fn append_message(random: &mut Random, is_trace: bool, out: &mut Vec<u8>) {
    let level = if is_trace { "ERROR" } else { random.pick(&LEVELS) };
    let (thread, logger) = (random.between(1, 16), random.pick(&WORDS));
    append_formatted(
        out,
        format_args!("03:04:05.678 {level} [worker-{thread}] com.example.{logger}:"),
    );
    append_words(random, 5, 20, out);
    if is_trace {
        append_formatted(out, format_args!(": {}", random.pick(&EXCEPTIONS)));
    }
}

/// Appends a line of a stack trace.
fn append_frame(random: &mut Random, frame: u32, out: &mut Vec<u8>) {
    if frame > 0 && frame.is_multiple_of(9) {
        append_formatted(out, format_args!("Caused by: {}:", random.pick(&EXCEPTIONS)));
        return append_words(random, 3, 8, out);
    }
    let (package, class) = (random.pick(&WORDS), random.pick(&WORDS));
    let (method, line) = (random.pick(&WORDS), random.between(1, 900));
    let text = format_args!("\tat com.example.{package}.{class}.{method}({class}.java:{line})");
    append_formatted(out, text);
}

fn append_words(random: &mut Random, least: u32, most: u32, out: &mut Vec<u8>) {
    for _ in 0..random.between(least, most) {
        append_formatted(out, format_args!(" {}", random.pick(&WORDS)));
    }
}
