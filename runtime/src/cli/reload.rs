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

/// Returns a line for each flow, and one for the whole reload.
fn text(outcome: &Value) -> String {
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut text = String::new();
    for flow in outcome["flows"].as_array().into_iter().flatten() {
        let (change, name, reason) = (of(flow, "change"), of(flow, "flow"), of(flow, "reason"));
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        // Writing to a string cannot fail.
        _ = writeln!(text, "{change:<9} {name}{reason}");
    }
    text + &of(outcome, "result") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn each_flow_has_a_line_with_its_change() {
        let flows = json!([
            { "flow": "a", "change": "kept" },
            { "flow": "b", "change": "replaced", "reason": "its file has changed" },
        ]);
        let outcome = json!({ "result": "applied", "flows": flows });
        let expected = "kept      a\nreplaced  b: its file has changed\napplied\n";
        assert_eq!(text(&outcome), expected);
    }
}
