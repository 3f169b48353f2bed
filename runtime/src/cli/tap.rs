//! `tremor tap`: prints events that pass a port.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use clap::Args;

use super::{Failure, remote::Remote};

#[derive(Args)]
pub(super) struct Arguments {
    /// Name of the flow.
    #[arg(value_name = "FLOW")]
    flow: String,
    /// Connector or pipeline of the flow, and one of its ports; by default `out` of a source or pipeline and `in`
    /// of a sink.
    #[arg(value_name = "COMPONENT[/PORT]")]
    component: String,
    #[command(flatten)]
    remote: Remote,
}

/// Prints a line of JSON for each event, until the process ends or the reader of the output exits.
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

/// Escapes control characters in the texts of a JSON document, because a terminal could interpret them. Control
/// characters below the space character are already escaped in JSON.
pub(super) fn shown(json: &str) -> Cow<'_, str> {
    if !json.contains(char::is_control) {
        return json.into();
    }
    let shown = |c: char| {
        if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    json.chars().map(shown).collect()
}

/// Returns the default port of a component: `out`, or `in` if the component is only a sink.
fn usual_port(flow: &serde_json::Value, name: &str) -> &'static str {
    let components = flow["components"].as_array().map_or(&[][..], Vec::as_slice);
    let mut roles = components.iter().filter(|it| it["name"] == name).map(|it| &it["role"]);
    if roles.all(|role| role == "sink") { "in" } else { "out" }
}

/// Encodes a name for use as a part of a URL path, or as a value in its query.
pub(super) fn encoded(name: &str) -> String {
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
    fn control_characters_are_escaped_and_event_is_unchanged() {
        assert_eq!(shown(r#"{"a":"\u001b ä"}"#), r#"{"a":"\u001b ä"}"#);
        let event = "{\"a\":\"\u{7f}\u{9b}2J\u{a0}\"}";
        let printed = shown(event);
        assert_eq!(printed, "{\"a\":\"\\u007f\\u009b2J\u{a0}\"}");
        let parsed = [event, &printed].map(serde_json::from_str::<serde_json::Value>);
        assert_eq!(parsed[0].as_ref().unwrap(), parsed[1].as_ref().unwrap());
    }

    #[test]
    fn default_port_is_in_for_sinks_and_out_otherwise() {
        let component = |name: &str, role: &str| json!({ "name": name, "role": role });
        let both = [component("both", "source"), component("both", "sink")];
        let flow = json!({ "components": [both[0], both[1], component("only", "sink")] });
        assert_eq!(["both", "only"].map(|name| usual_port(&flow, name)), ["out", "in"]);
    }

    #[test]
    fn names_are_encoded_as_one_part_of_path() {
        assert_eq!(encoded("a/b ä-_.9"), "a%2Fb%20%C3%A4-_.9");
    }
}
