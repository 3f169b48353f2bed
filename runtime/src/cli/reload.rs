//! `tremor reload`: lets a running process read its flow files again.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use super::{Failure, plugin, remote::Remote};

#[derive(Args)]
pub(super) struct Arguments {
    /// Shows what a reload would change, and changes nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Requests a reload, waits for its end, and prints what happened to each flow.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let path = if arguments.dry_run { "/v1/reload?dry_run=true" } else { "/v1/reload" };
    let outcome = arguments.remote.client()?.post(path);
    let outcome = outcome.map_err(|error| Failure::of_flow(format_args!("error: {error}")))?;
    plugin::print(&text(&outcome))
}

/// Returns a line for each flow, with a line for each of its connectors that is replaced, and one for the whole reload.
fn text(outcome: &Value) -> String {
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let all = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let line = |it: &Value, key: &str| {
        let (change, name, reason) = (of(it, "change"), of(it, key), of(it, "reason"));
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        format!("{change:<9} {name}{reason}")
    };
    let mut text = String::new();
    for flow in all(outcome, "flows") {
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}", line(&flow, "flow"));
        for connector in all(&flow, "connectors").iter().filter(|it| it["change"] != "kept") {
            _ = writeln!(text, "  {}", line(connector, "connector"));
        }
    }
    text + &of(outcome, "result") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

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
    }
}
