//! Communication with the process that started this one.

use std::io::{self, Read, Write};

use crate::Result;

/// Prints `ready`, and waits for a line on standard input.
pub(crate) fn begin() -> Result {
    print("ready")?;
    wait()
}

/// Waits for a line.
///
/// # Errors
/// Standard input has ended, because the process that started this one has ended.
pub(crate) fn wait() -> Result {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte)? {
            0 => return Err("standard input has ended".into()),
            _ if byte == *b"\n" => return Ok(()),
            _ => {}
        }
    }
}

/// Prints the results.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers pass a `json!` that they do not need any more"
)]
pub(crate) fn report(results: serde_json::Value) -> Result {
    print(&results.to_string())
}

fn print(line: &str) -> Result {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
