//! Who has started this, and what it is told.

use std::io::{self, Read, Write};

use crate::Result;

/// Says that all is ready, and waits until it is told to begin.
pub(crate) fn begin() -> Result {
    say("ready")?;
    wait()
}

/// Waits for a line.
///
/// # Errors
/// There is none: the process that has started this one has ended.
pub(crate) fn wait() -> Result {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte)? {
            0 => return Err("its input has ended".into()),
            _ if byte == *b"\n" => return Ok(()),
            _ => {}
        }
    }
}

/// Says what was found.
#[expect(clippy::needless_pass_by_value, reason = "made for it")]
pub(crate) fn found(found: serde_json::Value) -> Result {
    say(&found.to_string())
}

fn say(line: &str) -> Result {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
