//! Modes of `file` connectors that do not fit their role, or that delete what was delivered.

use super::{
    Flow,
    diagnostic::Report,
    graph::Role,
    spec::Connector,
    suggest::quote,
    warn::{FILE, of_role},
};

/// Reports sources that do not read, sinks that do not write, and sinks that begin their file again.
pub(super) fn check(flow: &Flow, report: &mut Report) {
    for (_, source) in of_role(&flow.spec, &flow.graph, Role::Source) {
        if let Some(mode @ ("write" | "append" | "truncate")) = mode_of(source) {
            let name = quote(&source.name.value);
            let message = format!("invalid `mode: {mode}` of source {name}: expected `mode: read`");
            let help = "set `mode: read`, or link the connector as a sink";
            report.push(report.error(source.component.config.place("/mode"), message).help(help));
        }
    }
    for (_, sink) in of_role(&flow.spec, &flow.graph, Role::Sink) {
        let (name, at) = (quote(&sink.name.value), sink.component.config.place("/mode"));
        match mode_of(sink) {
            Some("read") => {
                let message = format!(
                    "invalid `mode: read` of sink {name}: expected `append`, `write` or `truncate`"
                );
                let help = "set one of these modes, or link the connector as a source";
                report.push(report.error(at, message).help(help));
            }
            Some("truncate") => {
                let message = format!(
                    "sink {name} with `mode: truncate` deletes events that it has delivered, whenever it \
                     is restarted and at the start of each run"
                );
                let help = "set `mode: append` to keep them";
                report.push(report.warning(at, message).help(help));
            }
            _ => {}
        }
    }
}

/// Returns the mode of a `file` connector, if it is known.
fn mode_of(connector: &Connector) -> Option<&str> {
    let component = &connector.component;
    let mode = component.config.value().get("mode").filter(|_| component.name.value == FILE)?;
    mode.as_str()
}
