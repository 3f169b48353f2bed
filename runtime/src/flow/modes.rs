//! Warnings about modes of `file` connectors that delete delivered events.

use super::{
    Flow,
    diagnostic::Report,
    graph::Role,
    spec::Connector,
    suggest::quote,
    warn::{FILE, of_role},
};

/// Reports sinks that truncate their file each time they start.
pub(super) fn check(flow: &Flow, report: &mut Report) {
    let sinks = of_role(&flow.spec, &flow.graph, Role::Sink).map(|(_, sink)| sink);
    for sink in sinks.filter(|sink| mode_of(sink) == Some("truncate")) {
        let message = format!(
            "sink {} with `mode: truncate` deletes events that it has delivered, whenever it is restarted \
             and at the start of each run",
            quote(&sink.name.value)
        );
        let at = sink.component.config.span("/mode");
        let help = "set `mode: append` to keep them";
        report.push(report.warning(at, message).help(help));
    }
}

/// Returns the mode of a `file` connector. Returns `None` if the mode is not known, or if this is not a `file`
/// connector.
fn mode_of(connector: &Connector) -> Option<&str> {
    let component = &connector.component;
    let mode = component.config.value().get("mode").filter(|_| component.name.value == FILE)?;
    mode.as_str()
}
