//! Checks events that a loaded plugin marks as unedited messages.

use tremor_abi::{
    batch::{Claims, Format, HostBatch},
    document::{Document, MAX_DEPTH, Shape, ValueRef},
};
use tremor_pdk::{Batch, Result};

use crate::codec::{Bytes, Decoder, Nodes, Span, json, msgpack};

/// Validates a batch of a plugin with `check`. An unedited message leaves without being encoded, so the mark has to be
/// true. The plugin may be built with a kit that edits events and leaves the mark. Therefore each marked event that the
/// plugin did not receive is decoded, and counts as edited if the result differs from its payload, or has keys in
/// another order.
///
/// # Errors
/// Returns the errors of `check`.
#[inline]
pub(super) fn settled(batch: &mut Batch, check: &impl Fn(&Batch) -> Result<Claims>) -> Result<()> {
    let claims = check(batch)?;
    settle(batch, &claims);
    Ok(())
}

/// Decodes the messages of claims of a validated batch, as [`settled`] does.
#[inline]
pub(super) fn settle(batch: &mut Batch, claims: &Claims) {
    if !claims.is_empty() {
        confirm(batch, claims);
    }
}

#[cold]
fn confirm(batch: &mut Batch, claims: &Claims) {
    let mut json = Decoder::Json(json::Decoder::new(json::DecodeOptions::default()));
    let mut msgpack = Decoder::Msgpack(msgpack::Decoder::new(msgpack::DecodeOptions::default()));
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    batch.confirm(claims, |format, message, payload| {
        let decoder = match format {
            Format::Json => &mut json,
            Format::Msgpack => &mut msgpack,
        };
        bytes.clear();
        nodes.clear();
        bytes.extend_from_copy_slice(message);
        is_value_of(decoder, &mut bytes, &mut nodes, payload)
    });
}

/// Returns whether `payload` equals the value of the message in `bytes`.
fn is_value_of(
    decoder: &mut Decoder,
    bytes: &mut Bytes,
    nodes: &mut Nodes,
    payload: ValueRef<'_>,
) -> bool {
    let Ok(len) = u32::try_from(bytes.len()) else { return false };
    let decoded = decoder.decode(bytes, Span { start: 0, len }, nodes);
    let is_equal = decoded
        .is_ok_and(|root| is_same(Document::new(bytes, nodes).root(root), payload, MAX_DEPTH));
    // A message with duplicate keys has no exact format, because the payload does not contain all of its keys.
    decoder.exact_format().is_some() && is_equal
}

/// Returns whether two values are equal and have the keys of their objects in the same order, which `==` ignores.
fn is_same(a: ValueRef<'_>, b: ValueRef<'_>, depth: usize) -> bool {
    let Some(deeper) = depth.checked_sub(1) else { return false };
    match (a.shape(), b.shape()) {
        (Shape::Array(a), Shape::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b, deeper))
        }
        (Shape::Object(a), Shape::Object(b)) => {
            let mut pairs = a.iter().zip(b);
            a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && is_same(a.1, b.1, deeper))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::{Event, HostBatch, Pool};
    use tremor_pdk::Batch;

    use super::settled;
    use crate::components;

    fn decoded(name: &str, messages: &[&[u8]]) -> Batch {
        let codec = components::codec(name, &serde_json::Value::Null).unwrap();
        let mut batch = Batch::new();
        messages.iter().for_each(|message| batch.push_message(message));
        assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
        batch
    }

    fn encoded(name: &str, batch: &Batch) -> Vec<Vec<u8>> {
        let codec = components::codec(name, &serde_json::Value::Null).unwrap();
        let (encoded, _) = codec.encoder().encode_batch(&mut batch.clone(), &Pool::new(1));
        encoded.iter().map(|event| event.raw().unwrap().to_vec()).collect()
    }

    /// Returns an event with the payload of `event`, which claims to be the message of `other`.
    fn forged(event: Event, other: Event) -> Event {
        // SAFETY: an event consists of 56 bytes without padding, and any bytes are an event.
        unsafe {
            let mut bytes: [u8; 56] = std::mem::transmute(event);
            let other: [u8; 56] = std::mem::transmute(other);
            bytes[16..24].copy_from_slice(&other[16..24]);
            std::mem::transmute(bytes)
        }
    }

    #[test]
    fn true_claims_of_a_plugin_are_kept() {
        for (name, messages) in [
            ("json", [&b"[1.0]"[..], b"{\"b\": \"\\u0041\"}"]),
            ("msgpack", [b"\x91\xcd\x00\x07", b"\x81\xd9\x01a\xd4\x07x"]),
        ] {
            let mut batch = decoded(name, &messages);
            settled(&mut batch, &Batch::validate).unwrap();
            assert_eq!(encoded(name, &batch), messages);
        }
    }

    #[test]
    fn forged_claim_of_a_plugin_counts_as_edited() {
        for (name, messages, rewritten) in [
            ("json", [&b"{ \"secret\": 1 }"[..], b"{ }"], &b"{}"[..]),
            (
                "json",
                [b"[{ \"a\": 1, \"b\": 2 }]", b"[{ \"b\": 2, \"a\": 1 }]"],
                b"[{\"b\":2,\"a\":1}]",
            ),
            ("msgpack", [b"\x91\xcd\x00\x07", b"\xdc\x00\x00"], b"\x90"),
        ] {
            let mut batch = decoded(name, &messages);
            let [first, second] = *batch.events() else { panic!("two events") };
            batch.set_events(&[first, forged(second, first)]);
            settled(&mut batch, &Batch::validate).unwrap();
            assert_eq!(encoded(name, &batch), [messages[0], rewritten]);
        }
    }

    #[test]
    fn claim_of_an_invalid_message_or_of_two_lines_is_refused() {
        for (message, claimed, rewritten) in
            [("{ }", "{ }, forged", "{}"), ("[1, 2]", "[1,\n2]", "[1,2]")]
        {
            let mut batch = decoded("json", &[message.as_bytes()]);
            batch.push_message(claimed.as_bytes());
            let [first, raw] = *batch.events() else { panic!("two events") };
            // SAFETY: as in `forged`: the bytes of the raw payload become those of the original message.
            let event = unsafe {
                let mut bytes: [u8; 56] = std::mem::transmute(first);
                let raw: [u8; 56] = std::mem::transmute(raw);
                bytes[16..24].copy_from_slice(&raw[8..16]);
                std::mem::transmute::<[u8; 56], Event>(bytes)
            };
            batch.set_events(&[event]);
            settled(&mut batch, &Batch::validate).unwrap();
            assert_eq!(encoded("json", &batch), [rewritten.as_bytes()]);
        }
    }
}
