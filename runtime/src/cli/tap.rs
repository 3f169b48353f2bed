//! `tremor tap`: the events of a port, as they pass.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use clap::Args;

use super::{Failure, remote::Remote};

#[derive(Args)]
pub(super) struct Arguments {
    /// The flow.
    #[arg(value_name = "FLOW")]
    flow: String,
    /// One of its connectors or pipelines, and a port of it: `out` of a source or pipeline and `in` of a
    /// sink, unless it is named.
    #[arg(value_name = "COMPONENT[/PORT]")]
    component: String,
    #[command(flatten)]
    remote: Remote,
}

/// Prints a line of JSON for each event, until the process or the reader goes.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.remote.client()?;
    let failed = |error| Failure::of_flow(format_args!("error: {error}"));
    let flow = encoded(&arguments.flow);
    let (component, port) = if let Some(named) = arguments.component.split_once('/') {
        named
    } else {
        let flow = client.get(&format!("/v1/flows/{flow}")).map_err(failed)?;
        (&*arguments.component, usual_port(&flow, &arguments.component))
    };
    let path = format!("/v1/flows/{flow}/tap/{}/{}", encoded(component), encoded(port));
    let mut out = io::stdout().lock();
    client
        .listen(&path, |event| writeln!(out, "{}", shown(event)).and_then(|()| out.flush()).is_ok())
        .map_err(failed)
}

/// JSON without the control characters that it may have in texts: a terminal could obey them. Those below
/// a space it has only as escapes.
fn shown(json: &str) -> Cow<'_, str> {
    if !json.contains(char::is_control) {
        return json.into();
    }
    let shown = |c: char| {
        if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    json.chars().map(shown).collect()
}

/// Where the events of a component are seen: where they leave it, or come where they do not.
fn usual_port(flow: &serde_json::Value, name: &str) -> &'static str {
    let components = flow["components"].as_array().map_or(&[][..], Vec::as_slice);
    let mut roles = components.iter().filter(|it| it["name"] == name).map(|it| &it["role"]);
    if roles.all(|role| role == "sink") { "in" } else { "out" }
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{encoded, shown, usual_port};

    #[test]
    fn an_event_is_the_same_on_a_terminal_and_commands_nothing_there() {
        assert_eq!(shown(r#"{"a":"\u001b ä"}"#), r#"{"a":"\u001b ä"}"#);
        let event = "{\"a\":\"\u{7f}\u{9b}2J\u{a0}\"}";
        let printed = shown(event);
        assert_eq!(printed, "{\"a\":\"\\u007f\\u009b2J\u{a0}\"}");
        let parsed = [event, &printed].map(serde_json::from_str::<serde_json::Value>);
        assert_eq!(parsed[0].as_ref().unwrap(), parsed[1].as_ref().unwrap());
    }

    #[test]
    fn a_component_is_tapped_where_its_events_leave_it_or_come_where_they_do_not() {
        let component = |name: &str, role: &str| json!({ "name": name, "role": role });
        let both = [component("both", "source"), component("both", "sink")];
        let flow = json!({ "components": [both[0], both[1], component("only", "sink")] });
        assert_eq!(["both", "only"].map(|name| usual_port(&flow, name)), ["out", "in"]);
    }

    #[test]
    fn names_are_one_part_of_a_path() {
        assert_eq!(encoded("a/b ä-_.9"), "a%2Fb%20%C3%A4-_.9");
    }
}
