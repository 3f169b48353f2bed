//! `tremor log`: shows and changes the level of the log of a running process.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use super::{Failure, plugin, remote::Remote, tap::encoded};

#[derive(Args)]
pub(super) struct Arguments {
    /// Level: `off`, `error`, `warn`, `info`, `debug` or `trace`, or `default` for the filter with which the process
    /// has begun. Without a level, shows the levels that are in force.
    #[arg(value_name = "LEVEL")]
    level: Option<String>,
    /// Component whose lines get the level. Without a component, all lines get it, also those of components that have a
    /// level of their own.
    #[arg(value_name = "FLOW/COMPONENT")]
    component: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Changes a level if one is given, and prints the levels that are in force.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.remote.client()?;
    let levels = match &arguments.level {
        None => client.get("/v1/log"),
        Some(level) => {
            let component = arguments.component.as_ref();
            let component = component.map(|name| format!("&component={}", encoded(name)));
            let component = component.unwrap_or_default();
            client.post(&format!("/v1/log?level={}{component}", encoded(level)))
        }
    };
    let levels = levels.map_err(|error| Failure::of_flow(format_args!("error: {error}")))?;
    plugin::print(&text(&levels))
}

/// Returns a line for all log lines, and one for each component that has a level of its own.
fn text(levels: &Value) -> String {
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut text = of(levels, "level") + "\n";
    for it in levels["components"].as_array().into_iter().flatten() {
        let (level, flow, component) = (of(it, "level"), of(it, "flow"), of(it, "component"));
        // Writing to a string cannot fail.
        _ = writeln!(text, "{level:<5} {flow}/{component}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn each_component_with_a_level_has_a_line() {
        let component = json!({ "flow": "orders", "component": "archive", "level": "warn" });
        let levels = json!({ "level": "info", "components": [component] });
        assert_eq!(text(&levels), "info\nwarn  orders/archive\n");
    }
}
