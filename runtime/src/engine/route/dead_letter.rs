//! Dead letters: the form in which components send events that they could not handle to their ports `err`.

use std::fmt::{self, Write};

use serde::{Serialize, Serializer};
use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, ValueRef};

use crate::redact;

/// Maximum length of the error message in a dead letter, in bytes.
const MESSAGE: usize = 1 << 10;

/// The content of a dead letter. Flows that link an `err` port depend on its keys.
#[derive(Serialize)]
struct DeadLetter<'a> {
    /// The component that could not handle the event.
    component: &'a str,
    error: Reason<'a>,
    original: Original<'a>,
    /// Full length of the original in bytes. `None` if the original is included completely.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_bytes: Option<usize>,
}

#[derive(Serialize)]
struct Reason<'a> {
    kind: &'static str,
    message: &'a str,
}

/// The original event of a dead letter, or its beginning if it is long.
enum Original<'a> {
    /// Bytes that are valid UTF-8.
    Text(&'a str),
    /// Bytes that are not valid UTF-8.
    Bytes(&'a [u8]),
    /// The value of an event that never had bytes.
    Value(ValueRef<'a>),
    /// The beginning of the JSON text of a value that is too long.
    Json(String),
}

impl Serialize for Original<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Self::Value(value) => value.serialize(serializer),
            Self::Json(text) => serializer.serialize_str(text),
        }
    }
}

impl<'a> Original<'a> {
    /// Returns at most `most` bytes of the original, and the full length of the original if it is longer.
    fn of(batch: &'a Batch, rejected: &Rejected, most: usize) -> (Self, Option<usize>) {
        let bytes = batch.original(&rejected.event);
        match batch.value(&rejected.event) {
            Some(value) if bytes.is_empty() && batch.size_of(&rejected.event) > most => {
                let mut json = Beginning { most, ..Beginning::default() };
                // Writing to a `Beginning` never fails.
                let _ = write!(json, "{value}");
                (Self::Json(json.text), (json.length > most).then_some(json.length))
            }
            Some(value) if bytes.is_empty() => (Self::Value(value), None),
            _ => {
                let length = (bytes.len() > most).then_some(bytes.len());
                (Self::beginning(bytes, most), length)
            }
        }
    }

    fn beginning(bytes: &'a [u8], most: usize) -> Self {
        let shown = &bytes[..bytes.len().min(most)];
        match std::str::from_utf8(shown) {
            Ok(text) => Self::Text(text),
            // The last character is cut off in the middle.
            Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
                Self::Text(std::str::from_utf8(&shown[..error.valid_up_to()]).unwrap_or_default())
            }
            Err(_) => Self::Bytes(shown),
        }
    }
}

/// A writer that keeps the beginning of a text and counts its full length.
#[derive(Default)]
struct Beginning {
    text: String,
    /// Maximum length of `text`, in bytes.
    most: usize,
    /// Full length of the text, in bytes.
    length: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() == self.length {
            let remaining = self.most - self.text.len();
            self.text.push_str(&text[..boundary(text, remaining)]);
        }
        self.length += text.len();
        Ok(())
    }
}

/// Returns the position of the last character boundary within the first `most` bytes of `text`.
fn boundary(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Creates the dead letters of the events that `component` rejected from `batch`. The dead letters are divided into
/// batches that are not [heavy](HostBatch::is_heavy), apart from metadata. Each dead letter contains at most `most` bytes
/// of its original event, and has the metadata and the origin of that event.
pub(crate) fn letters(
    component: &str,
    batch: &Batch,
    rejected: &[Rejected],
    pool: &Pool,
    most: usize,
) -> Vec<Batch> {
    let mut done = Vec::new();
    let mut letters = Batch::from_pool(pool);
    // The events of `letters`, in order.
    let mut events = Vec::new();
    for rejected in rejected {
        if letters.is_heavy() {
            letters.inherit(batch, &std::mem::take(&mut events));
            done.push(std::mem::replace(&mut letters, Batch::from_pool(pool)));
        }
        let mut message = redact::owned(rejected.error.to_string());
        if message.len() > MESSAGE {
            message.truncate(boundary(&message, MESSAGE));
            message.push('…');
        }
        let (original, original_bytes) = Original::of(batch, rejected, most);
        let error = Reason { kind: rejected.error.kind().as_str(), message: &message };
        let letter = DeadLetter { component, error, original, original_bytes };
        let event = rejected.event;
        if let Err(error) = letters.stream(event.stream).push(&letter) {
            // The value of the original event is nested too deeply to be included.
            let original = Original::Text("");
            let letter = DeadLetter { original, ..letter };
            tracing::warn!(component, %error, "a dead letter does not contain its original event");
            if letters.stream(event.stream).push(&letter).is_err() {
                continue;
            }
        }
        if let Some(letter) = letters.events_mut().last_mut() {
            (letter.source, letter.pull, letter.ingest_ns) =
                (event.source, event.pull, event.ingest_ns);
            // If the dead letter cannot be delivered, the source is notified that exactly this event of the pull has
            // failed.
            letter.set_position(event.position().unwrap_or(usize::MAX));
        }
        events.push(event);
    }
    letters.inherit(batch, &events);
    done.push(letters);
    done
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;
    use tremor_abi::{
        batch::{HostBatch, Origin, Pool, Rejected},
        literal,
    };
    use tremor_pdk::{Batch, Error};

    use super::{MESSAGE, letters};

    /// Returns the dead letters of all events of a batch.
    fn letters_of(batch: &Batch, error: &Error) -> Vec<Json> {
        let reject = |event| Rejected { event, error: error.clone() };
        let rejected: Vec<_> = batch.events().iter().copied().map(reject).collect();
        let letters = letters("here", batch, &rejected, &Pool::new(1), Rejected::SHOWN);
        assert!(letters.iter().all(|batch| batch.weight() < Batch::WEIGHT_AT_MOST + (64 << 10)));
        let values = letters.iter().flat_map(|batch| {
            batch.events().iter().map(|event| batch.value(event).unwrap().to_string())
        });
        values.map(|letter| serde_json::from_str(&letter).unwrap()).collect()
    }

    #[test]
    fn dead_letters_have_metadata_and_origin_of_their_events() {
        let mut batch = Batch::new();
        for number in 0..1_000 {
            batch.push_message(b"x");
            if number == 500 {
                batch.set_metadata(500, literal!({ "n": 500 }));
            }
        }
        let mut rest = batch.part(0..1_000);
        rest.apply_origin(501, &Origin::new(&"y".repeat(5_000), |writer| writer.u64(7)));
        let reject = |event| Rejected { event, error: Error::bad_data("no") };
        let rejected: Vec<_> = rest.events().iter().copied().map(reject).collect();
        let letters = letters("here", &rest, &rejected, &Pool::new(1), Rejected::SHOWN);
        assert_eq!(letters.iter().map(Batch::len).sum::<usize>(), 1_000);
        let events = letters.iter().flat_map(Batch::iter);
        for (number, event) in events.enumerate() {
            let metadata = event.metadata().map(|it| it.to_string());
            let expected = match number {
                0..500 => (None, None),
                500 => (Some("{\"n\":500}"), None),
                _ => (Some("7"), Some(5_000)),
            };
            assert_eq!((metadata.as_deref(), event.origin().map(str::len)), expected);
        }
        let bytes: usize = letters.iter().map(|batch| batch.bytes().len()).sum();
        assert!(bytes < 300_000, "the origin was copied for each event: {bytes}");
        letters.iter().for_each(|batch| assert!(batch.validate().is_ok()));
    }

    #[test]
    fn dead_letter_of_a_long_event_has_4_kib_and_the_length() {
        let mut batch = Batch::new();
        batch.push_message(&[b'x'; 4 << 10]);
        batch.push_message(&[b'x'; 5_000]);
        batch.push_message("xäöü".repeat(1_000).as_bytes());
        batch.push_message(&[0xff; 5_000]);
        batch.push(&literal!({ "long": "ä".repeat(5_000) })).unwrap();
        batch.push(&literal!({ "short": 1 })).unwrap();
        let letters = letters_of(&batch, &Error::bad_data("no"));
        let shown = |n: usize| letters[n]["original"].as_str().unwrap();
        let length = |n: usize| letters[n]["original_bytes"].as_u64();
        assert_eq!((shown(0).len(), length(0)), (4 << 10, None));
        assert_eq!((shown(1).len(), length(1)), (4 << 10, Some(5_000)));
        assert_eq!((shown(2).len(), length(2)), (4_096, Some(7_000)));
        assert!(shown(2).starts_with("xäöüx"));
        assert_eq!((shown(3).len(), length(3)), (4 * 4_096_usize.div_ceil(3), Some(5_000)));
        assert!(shown(4).starts_with("{\"long\":\"ääää"));
        assert_eq!((shown(4).len(), length(4)), (4_095, Some(10_011)));
        assert_eq!(letters[5]["original"], serde_json::json!({ "short": 1 }));
    }

    #[test]
    fn dead_letter_has_the_pull_and_position_of_its_event() {
        let mut batch = Batch::new();
        for position in [Some(0), Some(7), None, Some(u16::MAX.into())] {
            batch.push_message(b"");
            if let (Some(position), Some(event)) = (position, batch.events_mut().last_mut()) {
                event.pull = 3;
                event.set_position(position);
            }
        }
        let reject = |event| Rejected { event, error: Error::bad_data("no") };
        let rejected: Vec<_> = batch.events()[1..].iter().copied().map(reject).collect();
        let letters = letters("here", &batch, &rejected, &Pool::new(1), Rejected::SHOWN);
        let positions = letters[0].events().iter().map(|event| (event.pull, event.position()));
        assert_eq!(positions.collect::<Vec<_>>(), [(3, Some(7)), (0, None), (3, None)]);
    }

    #[test]
    fn dead_letters_have_the_beginning_of_long_messages() {
        let mut batch = Batch::new();
        (0..10_000).for_each(|_| batch.push_message(b""));
        let error = Error::bad_data("ä".repeat(MESSAGE));
        let letters = letters_of(&batch, &error);
        assert_eq!(letters.len(), 10_000);
        let message = letters[9_999]["error"]["message"].as_str().unwrap();
        assert_eq!(message.len(), MESSAGE + "…".len());
    }
}
