//! `tremor reload`: lets a running process read its flow files again.

use std::{fmt::Write as _, time::Duration};

use clap::Args;
use serde_json::Value;
use tremor_runtime::reloads::CONFIRM_AT_MOST;

use super::{Expected, Failure, duration, plugin, remote::Remote};

#[derive(Args)]
pub(super) struct Arguments {
    /// Shows what a reload would change, and changes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Returns to the flows of before unless `tremor reload --keep` follows within this time, such as `60s`, at most an
    /// hour.
    #[arg(long, value_name = "TIME", value_parser = confirm_time, conflicts_with = "dry_run")]
    confirm: Option<Duration>,
    /// Confirms the last reload, and reads no files.
    #[arg(long, conflicts_with_all = ["dry_run", "confirm"])]
    keep: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Parses the time within which a reload has to be confirmed.
///
/// # Errors
/// The text is not a duration, or is out of range.
fn confirm_time(text: &str) -> Result<Duration, Expected> {
    let range = Duration::from_millis(1)..=CONFIRM_AT_MOST;
    let time = duration(text).ok().filter(|time| range.contains(time));
    time.ok_or(Expected("a duration from `1ms` to `1h`, such as `60s`, or a number of seconds"))
}

impl Arguments {
    /// Returns the path of the request.
    fn path(&self) -> String {
        let query = match self.confirm {
            Some(time) => format!("?confirm={}ms", time.as_millis()),
            None if self.dry_run => "?dry_run=true".to_owned(),
            None if self.keep => "?keep=true".to_owned(),
            None => String::new(),
        };
        format!("/v1/reload{query}")
    }
}

/// Requests a reload, waits for its end, and prints what happened to each flow.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let outcome = arguments.remote.client()?.post(&arguments.path());
    let outcome = outcome.map_err(|error| Failure::of_flow(format_args!("error: {error}")))?;
    plugin::print(&text(&outcome))
}

/// Returns a line for each flow, with a line for each of its connectors that changes, one for the whole reload, and
/// one if it has to be confirmed.
fn text(outcome: &Value) -> String {
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let all = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let line = |it: &Value, key: &str| {
        let (change, name, reason) = (of(it, "change"), of(it, key), of(it, "reason"));
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        format!("{change:<9} {name}{reason}")
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    for flow in all(outcome, "flows") {
        _ = writeln!(text, "{}", line(&flow, "flow"));
        for connector in all(&flow, "connectors").iter().filter(|it| it["change"] != "kept") {
            _ = writeln!(text, "  {}", line(connector, "connector"));
        }
    }
    text += &(of(outcome, "result") + "\n");
    if let Some(seconds) = outcome["confirm_seconds"].as_u64() {
        _ = writeln!(
            text,
            "the flows of before return in {seconds} s, unless `tremor reload --keep` follows"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{confirm_time, text};

    #[test]
    fn flows_and_replaced_connectors_have_lines() {
        let flows = json!([
            { "flow": "a", "change": "kept" },
            { "flow": "b", "change": "replaced", "reason": "`links` has changed" },
            { "flow": "c", "change": "changed", "connectors": [
                { "connector": "in", "change": "kept" },
                { "connector": "out", "change": "replaced", "reason": "`codec` has changed" },
            ] },
        ]);
        let outcome = json!({ "result": "applied", "flows": flows });
        let expected = "kept      a
replaced  b: `links` has changed
changed   c
  replaced  out: `codec` has changed
applied
";
        assert_eq!(text(&outcome), expected);
        let outcome = json!({ "result": "applied", "flows": [], "confirm_seconds": 60 });
        let expected =
            "applied\nthe flows of before return in 60 s, unless `tremor reload --keep` follows\n";
        assert_eq!(text(&outcome), expected);
    }

    #[test]
    fn confirmation_takes_at_most_an_hour() {
        let valid = [("60s", 60_000), ("60", 60_000), ("0.5", 500), ("1ms", 1), ("1h", 3_600_000)];
        for (given, ms) in valid {
            assert_eq!(confirm_time(given).unwrap(), Duration::from_millis(ms), "{given}");
        }
        for given in ["0", "0s", "61m", "3601", "-1", "soon", "1e-9"] {
            let error = confirm_time(given).unwrap_err().to_string();
            assert!(error.contains("from `1ms` to `1h`"), "{given}: {error}");
        }
    }
}
