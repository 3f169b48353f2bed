//! Contents of a queue on disk, as commands show them.

use std::{
    fmt::{self, Write as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value as Json;
use tremor_abi::{
    batch::{Batch, Event, HostBatch},
    document::ValueRef,
};
use tremor_log::{Damage, DamageKind};
use tremor_pdk::Error;
use tremor_runtime::codec::{Bytes, FrameReader, json};

/// Reads the records of a queue.
#[derive(Default)]
pub(super) struct Records {
    frames: FrameReader,
    encoder: json::Encoder,
}

impl Records {
    /// Returns the events of a record. Events that a codec can no longer decode stay bytes, at the end of the batch.
    pub(super) fn read(&mut self, record: &[u8]) -> Result<Batch, Error> {
        self.frames.read(record)
    }

    /// Returns a line of JSON for an event of a record.
    pub(super) fn line(&mut self, number: u64, batch: &Batch, event: &Event) -> String {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{{\"record\":{number},\"ingest_ns\":{},\"source\":{},\"stream\":{}",
            event.ingest_ns, event.source, event.stream
        );
        if let Some(origin) = batch.origin(event) {
            let _ = write!(line, ",\"origin\":{}", Json::from(origin));
        }
        let bytes = batch.raw(event).unwrap_or_else(|| batch.original(event));
        match batch.value(event).and_then(|value| self.encoded(value)) {
            Some(value) => line.extend([",\"event\":", &value]),
            None => line.extend([",\"base64\":\"", &STANDARD.encode(bytes), "\""]),
        }
        if let Some(metadata) = batch.metadata(event).and_then(|value| self.encoded(value)) {
            line.extend([",\"metadata\":", &metadata]);
        }
        line.push_str("}\n");
        line
    }

    /// Returns a value as JSON, or `None` if JSON cannot represent it.
    fn encoded(&mut self, value: ValueRef<'_>) -> Option<String> {
        let mut text = Bytes::new();
        self.encoder.value(value, &mut text).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Returns a line of JSON for a record that cannot be read as events.
pub(super) fn unreadable(number: u64, record: &[u8], error: &dyn fmt::Display) -> String {
    let error = error.to_string();
    let line =
        serde_json::json!({ "record": number, "error": error, "base64": STANDARD.encode(record) });
    format!("{line}\n")
}

/// Returns whether a part is damaged for certain, or events may be lost. Other parts are what a crash leaves, and the
/// next opening mends them.
pub(super) fn is_damage(damage: &Damage) -> bool {
    damage.kind.is_certain() || damage.kind == DamageKind::Segment
}

/// Returns a damaged part in words.
pub(super) fn described(damage: &Damage) -> String {
    let Damage { path, from, to, records, .. } = damage;
    let (path, len) = (path.display(), to - from);
    let part = format!("{path}: {len} bytes from {from}");
    match damage.kind {
        DamageKind::Records => format!("{part} are damaged: up to {records} records are lost"),
        DamageKind::Tail => format!(
            "{part} are not complete, up to {records} records: a process writes them, or a crash or damage of the last \
             records has left them"
        ),
        DamageKind::Settled => format!("{part} are damaged: their records were delivered before"),
        DamageKind::Padding => format!("{part} between records are damaged: no record is lost"),
        DamageKind::Missing => {
            format!(
                "{path}: the segment before this one is missing: up to {records} records are lost"
            )
        }
        DamageKind::Segment => format!(
            "{path}: both headers are damaged, so its records cannot be read; a crash may leave a segment without records \
             in this state"
        ),
        DamageKind::Header => format!("{path}: one of two headers is damaged: no record is lost"),
        DamageKind::Positions => format!(
            "{path}: a half is damaged, so events may be delivered again; a crash may leave one damaged half"
        ),
        DamageKind::Identity => {
            format!("{path}: the name of the owner is damaged or missing: no record is lost")
        }
    }
}

/// Returns a damaged part as JSON.
pub(super) fn damage_json(damage: &Damage) -> Json {
    let kind = match damage.kind {
        DamageKind::Records => "records",
        DamageKind::Tail => "tail",
        DamageKind::Settled => "settled",
        DamageKind::Padding => "padding",
        DamageKind::Missing => "missing",
        DamageKind::Segment => "segment",
        DamageKind::Header => "header",
        DamageKind::Positions => "positions",
        DamageKind::Identity => "owner",
    };
    serde_json::json!({
        "kind": kind, "file": text(&damage.path), "from": damage.from, "to": damage.to,
        "records": damage.records, "is_damage": is_damage(damage),
    })
}

/// Returns a path without characters that a terminal could interpret.
pub(super) fn text(path: &Path) -> String {
    shown(&path.display().to_string())
}

/// Replaces characters that a terminal could interpret.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use tremor_abi::{
        batch::{Batch, HostBatch},
        frame::{Encoder, Medium},
    };

    use super::{Records, unreadable};

    #[test]
    fn value_is_json_and_bytes_are_base64() {
        let mut batch = Batch::new();
        batch.push_message(b"\xffhi");
        let event = &mut batch.events_mut()[0];
        (event.ingest_ns, event.source, event.stream) = (7, 2, u64::MAX);
        let mut record = Vec::new();
        Encoder::with_limit(Medium::Disk, 1 << 20)
            .prepare(&batch)
            .unwrap()
            .append_to(5, &mut record);
        let mut records = Records::default();
        let batch = records.read(&record).unwrap();
        let line = records.line(5, &batch, &batch.events()[0]);
        let expected = "{\"record\":5,\"ingest_ns\":7,\"source\":2,\"stream\":18446744073709551615,\
                        \"base64\":\"/2hp\"}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn record_of_another_program_is_base64() {
        let record = tremor_log::record(b"hi");
        assert!(Records::default().read(&record[..40]).is_err());
        let line = unreadable(5, b"hi", &"it is short");
        assert_eq!(line, "{\"base64\":\"aGk=\",\"error\":\"it is short\",\"record\":5}\n");
    }
}
