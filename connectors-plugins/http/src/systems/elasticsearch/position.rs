//! IDs of documents that are derived from the positions of events in their sources.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use tremor_pdk::{Error, ErrorPolicy, EventRef, Result, Shape, ValueRef};

/// Fields of the metadata that together are the position of an event, by the source that sets them.
const POSITIONS: [(&str, &[&str]); 3] = [
    ("file", &["path", "offset"]),
    ("kafka", &["topic", "partition", "offset"]),
    ("nats", &["stream", "sequence"]),
];

/// Length of the hash in an ID, in bytes before its encoding.
const LENGTH: usize = 16;

/// Appends the ID of a document to `out`: a hash of the position of the event and of the document.
///
/// The hash includes the document for two reasons. Events that an operator made from one event have the same position.
/// And a position may be used again, for example by the first line of a file after its truncation; the server would
/// take another document with the same ID for a repetition, and the event would be lost.
///
/// # Errors
/// An error of the kind bad data: the event has no position.
pub(crate) fn append_id(event: EventRef<'_>, document: &[u8], out: &mut String) -> Result<()> {
    let metadata = event.metadata();
    let found = POSITIONS.iter().find_map(|(source, names)| {
        let fields = metadata?.get(source)?;
        let mut hash = Sha256::new();
        add(&mut hash, source.as_bytes());
        names.iter().try_for_each(|name| add_field(&mut hash, fields.get(name)?))?;
        Some(hash)
    });
    let Some(mut hash) = found else { return Err(no_position()) };
    hash.update(document);
    URL_SAFE_NO_PAD.encode_string(&hash.finalize()[..LENGTH], out);
    Ok(())
}

/// Adds a text with its length, so that the boundaries between texts are a part of the hash.
fn add(hash: &mut Sha256, text: &[u8]) {
    hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(text);
}

/// Adds a text or an integer. Returns `None` for a value of another type.
fn add_field(hash: &mut Sha256, value: ValueRef<'_>) -> Option<()> {
    match value.shape() {
        Shape::String(text) => add(hash, text.as_bytes()),
        Shape::I64(number) => hash.update(number.to_le_bytes()),
        Shape::U64(number) => hash.update(number.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

#[cold]
fn no_position() -> Error {
    Error::bad_data(
        "cannot derive `id: position`: the event has no position in its source; expected `%file.offset` (set `offset: \
         true` in the `file` source), `%kafka.offset` or `%nats.sequence`; use a template such as `id: '{order.id}'`, \
         or remove `id`",
    )
    .with_policy(ErrorPolicy::DEAD_LETTER)
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, Value, literal};

    use super::append_id;

    fn id(metadata: Value<'static>, document: &str) -> Result<String, String> {
        let mut batch = Batch::new();
        batch.push_message(document.as_bytes());
        batch.last_mut().unwrap().set_metadata(metadata);
        let mut id = String::new();
        let result = append_id(batch.first().unwrap(), document.as_bytes(), &mut id);
        result.map(|()| id).map_err(|error| error.to_string())
    }

    #[test]
    fn id_is_that_of_every_run() {
        let file = literal!({ "file": { "path": "/a/b", "name": "b", "offset": 7 } });
        assert_eq!(id(file, "{}").unwrap(), "xK-zq41uJZGeFyMBb6mXVg");
        let kafka = literal!({ "kafka": { "topic": "t", "partition": 1, "offset": 7 } });
        assert_eq!(id(kafka, "{}").unwrap(), "SBLDvy5ftTUUI8RtXFHMmw");
        let nats = literal!({ "nats": { "stream": "s", "consumer": "c", "sequence": 7 } });
        assert_eq!(id(nats, "{}").unwrap(), "eopsGsCgrWa4jRANIgnXsg");
    }

    #[test]
    fn id_depends_on_each_part_of_the_position_and_on_the_document() {
        let of = |path: &'static str, offset: u64, document| {
            id(literal!({ "file": { "path": path, "offset": offset } }), document).unwrap()
        };
        let ids = [of("/a", 1, "{}"), of("/b", 1, "{}"), of("/a", 2, "{}"), of("/a", 1, "{ }")];
        for (number, one) in ids.iter().enumerate() {
            assert!(ids[number + 1..].iter().all(|other| other != one));
        }
        let kafka = |topic: &'static str, partition: i64| {
            let kafka = literal!({ "topic": topic, "partition": partition, "offset": 1 });
            id(literal!({ "kafka": kafka }), "{}").unwrap()
        };
        assert_ne!(kafka("t1", 2), kafka("t", 12));
    }

    #[test]
    fn event_without_position_is_refused() {
        for metadata in [
            literal!({}),
            literal!({ "file": { "path": "/a" } }),
            literal!({ "kafka": { "topic": "t", "partition": 1, "offset": null } }),
            literal!({ "nats": { "subject": "s" } }),
        ] {
            let error = id(metadata, "{}").unwrap_err();
            assert!(
                error.contains("`id: position`") && error.contains("`offset: true`"),
                "{error}"
            );
        }
    }
}
