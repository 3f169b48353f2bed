//! Warnings about byte streams in which nothing separates the messages.

use super::{
    Flow,
    diagnostic::Report,
    graph::{Graph, NodeId, Role},
    spec::{Component, Connector, Spec},
    suggest::quote,
};

/// Types of the connectors whose sources read byte streams and whose sinks write byte streams.
const STREAMS: [&str; 7] =
    ["exec", "file", "stdio", "tcp_client", "tcp_server", "unix_client", "unix_server"];

/// Codecs whose messages are lines of text without their ends, or text in which line feeds are escaped.
const TEXTS: [&str; 6] = ["csv", "gelf", "influx", "json", "logfmt", "syslog"];

/// Processors after which a stream is as little divided into messages as before them.
const NOT_FRAMING: [&str; 10] = [
    "base64",
    "decode-text",
    "decompress",
    "gzip",
    "join",
    "lz4",
    "remove-empty",
    "snappy",
    "xz",
    "zstd",
];

/// Reports sources of syslog that read a whole stream as one message, and sinks whose messages run together.
pub(super) fn check(flow: &Flow, report: &mut Report) {
    let (spec, graph) = (&flow.spec, &flow.graph);
    for (id, node) in graph.nodes() {
        let Some(connector) = spec.connectors.get(node.index) else { continue };
        match node.role {
            Role::Source => undivided_syslog(connector, report),
            Role::Sink => joined_messages(id, connector, spec, graph, report),
            Role::Pipeline => {}
        }
    }
}

/// Reports a source whose codec `syslog` gets a whole stream instead of its messages.
fn undivided_syslog(source: &Connector, report: &mut Report) {
    let Some(codec) = source.codec.as_ref().filter(|it| it.name.value == "syslog") else { return };
    if !is_stream(source) || frames(&source.preprocessors) {
        return;
    }
    let message = format!(
        "source {} reads a stream as a single message of syslog, because no preprocessor divides it",
        quote(&source.name.value)
    );
    let help = "add `preprocessors: [syslog-frames]`, which accepts every framing of syslog";
    report.push(report.warning(codec.name.at, message).help(help));
}

/// Reports a sink that writes messages of text one after the other without anything between them.
fn joined_messages(id: NodeId, sink: &Connector, spec: &Spec, graph: &Graph, report: &mut Report) {
    let Some(codec) = sink.codec.as_ref() else { return };
    let name = codec.name.value.as_str();
    let is_text = TEXTS.contains(&name) || name == "string" && gets_lines(id, spec, graph);
    let path = sink.component.config.value().get("path").and_then(serde_json::Value::as_str);
    let is_device = path.is_some_and(|path| path.starts_with("/dev/"));
    if !is_text || !is_stream(sink) || is_device || frames(&sink.postprocessors) {
        return;
    }
    let message = format!(
        "nothing separates the messages of codec {} that sink {} writes",
        quote(name),
        quote(&sink.name.value)
    );
    let ends = if name == "csv" { "csv-records" } else { "lines" };
    let help =
        format!("add `postprocessors: [{ends}]`, so that each message ends with a line feed");
    report.push(report.warning(codec.name.at, message).help(help));
}

/// Returns whether a sink is linked directly to a source that divides its stream into lines of text.
fn gets_lines(sink: NodeId, spec: &Spec, graph: &Graph) -> bool {
    let has_lines = |it: &Connector| {
        it.codec.as_ref().is_some_and(|codec| codec.name.value == "string")
            && it.preprocessors.last().is_some_and(|last| last.name.value == "lines")
    };
    graph.node(sink).inputs.iter().any(|edge| {
        let from = graph.node(graph.edge(*edge).from);
        from.role == Role::Source && spec.connectors.get(from.index).is_some_and(has_lines)
    })
}

fn is_stream(connector: &Connector) -> bool {
    let Component { name, config } = &connector.component;
    STREAMS.contains(&name.value.as_str())
        && config.value().get("kind").is_none_or(|kind| kind != "datagram")
}

fn frames(processors: &[Component]) -> bool {
    processors.iter().any(|it| !NOT_FRAMING.contains(&it.name.value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Limits, parse};

    /// Returns the warnings of a flow with a source `a` and a sink `b`.
    fn warnings(a: &str, b: &str) -> Vec<String> {
        let text = format!("connectors:\n  a: {{ {a} }}\n  b: {{ {b} }}\nlinks: [a -> b]");
        let draft = parse("f", &text, &Limits::default(), &Environment::default()).unwrap();
        let warnings = draft.finish().unwrap().warnings;
        warnings.iter().map(|it| it.message().to_owned()).collect()
    }

    #[test]
    fn source_of_syslog_without_framing_is_reported() {
        let undivided = "source `a` reads a stream as a single message of syslog, because no preprocessor divides it";
        for (source, expected) in [
            ("type: tcp_server, codec: syslog", &[undivided][..]),
            ("type: tcp_server, codec: syslog, preprocessors: [gzip, remove-empty]", &[undivided]),
            ("type: unix_server, codec: syslog", &[undivided]),
            ("type: unix_server, codec: syslog, config: { kind: datagram }", &[]),
            ("type: udp_server, codec: syslog", &[]),
            ("type: http_server, codec: syslog", &[]),
            ("type: tcp_server, codec: json", &[]),
            ("type: tcp_server, codec: syslog, preprocessors: [syslog-frames]", &[]),
            ("type: tcp_server, codec: syslog, preprocessors: [gzip, lines]", &[]),
            ("type: tcp_server, codec: syslog, preprocessors: [of-a-plugin]", &[]),
        ] {
            assert_eq!(warnings(source, "type: 'null'"), expected, "{source}");
        }
    }

    #[test]
    fn sink_whose_messages_run_together_is_reported() {
        let lines = "type: stdio, preprocessors: [lines], codec: string";
        let whole = "type: stdio, codec: string";
        let joined = |codec| {
            vec![format!("nothing separates the messages of codec `{codec}` that sink `b` writes")]
        };
        for (source, sink, expected) in [
            (lines, "type: file, codec: json", joined("json")),
            (lines, "type: tcp_client, codec: syslog, postprocessors: [zstd]", joined("syslog")),
            (lines, "type: file, codec: string", joined("string")),
            (lines, "type: file, codec: csv", joined("csv")),
            (lines, "type: file, codec: json, postprocessors: [lines, gzip]", Vec::new()),
            (lines, "type: file, codec: json, postprocessors: [length-prefixed]", Vec::new()),
            (lines, "type: file, codec: json, config: { path: /dev/null }", Vec::new()),
            (lines, "type: file, codec: binary", Vec::new()),
            (lines, "type: file, codec: msgpack", Vec::new()),
            (lines, "type: http_client, codec: json", Vec::new()),
            (lines, "type: unix_client, codec: json, config: { kind: datagram }", Vec::new()),
            (whole, "type: file, codec: string", Vec::new()),
        ] {
            assert_eq!(warnings(source, sink), expected, "{sink}");
        }
    }
}
