//! Settings of a connector that contradict each other.

use std::{num::NonZeroU64, time::Duration};

use super::{
    ERR, Flow, WhenFull,
    diagnostic::Report,
    graph::{Node, Role},
    source::Span,
    spec::{Batch, Component, Connector},
    suggest::quote,
    warn::of_role,
};
use crate::flow::{SINK_BATCH_BYTES, SINK_BATCH_LINGER};

/// Name of the preprocessor and the postprocessor that separate messages by line feeds.
const LINES: &str = "lines";

/// Name of the preprocessor that joins lines.
const MULTILINE: &str = "multiline";

/// Postprocessors whose output, and preprocessors whose input, may contain any byte.
const COMPRESSIONS: &[&str] = &["gzip", "zstd", "lz4", "snappy", "xz", "decompress"];

/// A rate in bytes per second that no source is expected to reach.
const FAST: u64 = 1 << 30;

/// Reports connectors that separate binary messages by line feeds or join them as lines, and sinks whose deliveries can never reach the size
/// that `batch` sets.
pub(super) fn check(flow: &Flow, report: &mut Report) {
    for (_, source) in of_role(&flow.spec, &flow.graph, Role::Source) {
        split_binary(source, report);
        split_before_decoding(source, report);
    }
    for connector in &flow.spec.connectors {
        unverified(connector, report);
    }
    for (node, sink) in of_role(&flow.spec, &flow.graph, Role::Sink) {
        unlinked_overflow(node, sink, report);
        ended_binary(sink, report);
        unreachable_batch(sink, report);
    }
}

/// Reports a sink whose queue sends events to the port `err`, although nothing is linked to it.
fn unlinked_overflow(node: &Node, sink: &Connector, report: &mut Report) {
    if sink.queue.when_full != WhenFull::DeadLetter || !node.output(ERR).is_empty() {
        return;
    }
    let name = &sink.name.value;
    let message = format!(
        "`when_full: dead_letter` of {} sends the events for which its queue has no capacity to `{name}/err`, and \
         nothing is linked to it",
        quote(name)
    );
    let help = format!("add a link such as `{name}/err -> OTHER`, or set `when_full: drop_oldest`");
    report.push(report.error(sink.name.at, message).help(help));
}

/// Reports a source that splits text in UTF-16 at the bytes of line feeds before the text is decoded.
fn split_before_decoding(source: &Connector, report: &mut Report) {
    let is_utf16 = |it: &&Component| {
        let config = it.config.value();
        let encoding =
            config.get("encoding").and_then(serde_json::Value::as_str).unwrap_or_default();
        it.name.value == "decode-text" && encoding.to_ascii_lowercase().starts_with("utf-16")
    };
    let mut before = source.preprocessors.iter().take_while(|it| !is_utf16(it));
    if let Some(lines) = before.find(|it| it.name.value == LINES)
        && source.preprocessors.iter().any(|it| is_utf16(&it))
    {
        let message = format!(
            "preprocessor `lines` of source {} splits text in UTF-16 before `decode-text` decodes it",
            quote(&source.name.value)
        );
        let help = "move `decode-text` before `lines`";
        report.push(report.warning(lines.name.at, message).help(help));
    }
}

/// Reports a client that accepts every certificate of its server.
fn unverified(connector: &Connector, report: &mut Report) {
    let config = connector.component.config.value();
    let is_skipped =
        |tls: &serde_json::Value| tls.get("insecure_skip_verify").is_some_and(|it| *it == true);
    if config.get("tls").is_some_and(is_skipped) {
        let message = format!(
            "connector {} does not verify its server because of `insecure_skip_verify`: anybody on the network can \
             pretend to be the server",
            quote(&connector.name.value)
        );
        let help =
            "set `ca_file` to the certificate of the server or of its CA, or set `fingerprints`";
        report.push(report.warning(connector.name.at, message).help(help));
    }
}

/// Reports a source whose preprocessor `lines` cuts binary messages at line feeds, or whose preprocessor `multiline`
/// joins them with line feeds.
fn split_binary(source: &Connector, report: &mut Report) {
    let is_other = |it: &&Component| it.name.value != "remove-empty";
    let mut parts = source.preprocessors.iter().filter(is_other).peekable();
    while let Some(part) = parts.next() {
        let Some(binary) = binary(parts.peek().copied(), source) else { continue };
        if part.name.value == MULTILINE {
            let message = format!(
                "preprocessor `multiline` of source {} joins lines of text, but {binary} reads binary messages",
                quote(&source.name.value)
            );
            let help = "remove `multiline`, or choose a codec of text";
            report.push(report.warning(part.name.at, message).help(help));
        }
        if part.name.value == LINES {
            let message = format!(
                "preprocessor `lines` of source {} splits messages of {binary}: they may contain line \
                 feeds",
                quote(&source.name.value)
            );
            warn(part.name.at, &message, "after", report);
        }
    }
}

/// Reports a sink whose postprocessor `lines` receives binary messages.
fn ended_binary(sink: &Connector, report: &mut Report) {
    let parts = &sink.postprocessors;
    for (position, part) in parts.iter().enumerate().filter(|(_, it)| it.name.value == LINES) {
        let before = position.checked_sub(1).map(|before| &parts[before]);
        if let Some(binary) = binary(before, sink) {
            let message = format!(
                "postprocessor `lines` of sink {} rejects messages of {binary} that contain the byte of a line feed",
                quote(&sink.name.value)
            );
            warn(part.name.at, &message, "before", report);
        }
    }
}

fn warn(at: Span, message: &str, side: &str, report: &mut Report) {
    let help = format!("use `length-prefixed` instead of `lines`, or add `base64` {side} `lines`");
    report.push(report.warning(at, message).help(help));
}

/// Returns the component that makes the messages next to `lines` binary: the neighbouring processor on the side of the
/// codec, or the codec if there is no such processor.
fn binary(processor: Option<&Component>, connector: &Connector) -> Option<String> {
    if let Some(processor) = processor {
        let name = processor.name.value.as_str();
        return COMPRESSIONS.contains(&name).then(|| quote(name));
    }
    let codec = connector.codec.as_ref()?;
    let is_json = || codec.config.value().get("encoding").is_some_and(|it| it == "json");
    let is_binary = match codec.name.value.as_str() {
        "msgpack" => true,
        "otlp" => !is_json(),
        _ => false,
    };
    is_binary.then(|| format!("codec {}", quote(&codec.name.value)))
}

/// Reports a sink whose deliveries are complete before they reach a size that `batch` sets.
fn unreachable_batch(sink: &Connector, report: &mut Report) {
    let Some(Batch { max_events, max_bytes, linger }) = sink.batch else { return };
    let (name, at) = (quote(&sink.name.value), sink.name.at);
    let bytes = max_bytes.map_or(SINK_BATCH_BYTES.get() as u64, NonZeroU64::get);
    let default = if max_bytes.is_none() { ", its default," } else { "" };
    // Every event has at least one byte.
    if let Some(events) = max_events
        && events.get() > bytes
    {
        let message = format!(
            "deliveries of sink {name} never reach `batch.max_events: {events}`: `batch.max_bytes: {}`{default} completes \
             them before",
            size(bytes)
        );
        report.push(report.warning(at, message).help("set `batch.max_bytes` to more"));
    }
    let waits = linger.unwrap_or(SINK_BATCH_LINGER);
    let reached = u128::from(FAST) * waits.as_nanos() / Duration::from_secs(1).as_nanos();
    // A linger of zero means that the sink takes whatever events are available.
    if max_bytes.is_some() && !waits.is_zero() && u128::from(bytes) > reached {
        let default = if linger.is_none() { ", its default," } else { "" };
        let message = format!(
            "deliveries of sink {name} can hardly reach `batch.max_bytes: {}`: they leave after `batch.linger: \
             {waits:?}`{default} which would need more than 1 GiB per second",
            size(bytes)
        );
        let help = "set `batch.linger` to as long as an event may wait, such as `5s`";
        report.push(report.warning(at, message).help(help));
    }
}

/// Returns a number of bytes in the notation of flow files.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}
