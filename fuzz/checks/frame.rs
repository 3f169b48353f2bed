//! Check of frames. For any bytes, reading accepts the frame or reports an error. A batch that was accepted can be read
//! in full, and written and read again.

use tremor_abi::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Event, HostBatch as _, Mark, Pool, Span},
    document::Writer,
    error::PluginError,
    frame::{Encoder, Header, MAGIC, Medium, apply_delta, decode, restore, stamp, verify},
};

/// Flag of frames that are deltas.
const DELTA: u8 = 1;

/// Checks one input: as it is, and with a header whose sizes agree with the length of the input, because random input
/// would otherwise rarely get beyond the header.
///
/// # Panics
/// A batch that was accepted is invalid, or changes when it is written and read again.
pub(crate) fn check(data: &[u8]) {
    read(data);
    let mut fixed = data.to_vec();
    if fix(&mut fixed).is_some() {
        assert!(Header::read(&fixed).is_ok());
        read(&fixed);
    }
}

/// Corrects the header of a frame, and adds or removes bytes at the end. The numbers of events and nodes are limited by
/// the length of the input.
fn fix(frame: &mut Vec<u8>) -> Option<()> {
    let header: &mut [u8; Header::LEN] = frame.first_chunk_mut()?;
    header[..4].copy_from_slice(&MAGIC);
    (header[4], header[5]) = (1, 0);
    header[6..8].copy_from_slice(&64_u16.to_le_bytes());
    header[20..22].copy_from_slice(&56_u16.to_le_bytes());
    (header[22], header[23]) = (header[22] & DELTA, 0);
    header[56..].fill(0);
    if header[22] == 0 {
        header[28..32].fill(0);
        header[36..40].fill(0);
    }
    let (events, nodes, bytes) = (header[16], header[24], header[32]);
    for (at, count) in [(16, events), (24, nodes), (32, bytes)] {
        header[at..at + 4].copy_from_slice(&u32::from(count).to_le_bytes());
    }
    let used = 64 + 56 * usize::from(events) + 16 * usize::from(nodes) + usize::from(bytes);
    let total = used.next_multiple_of(8);
    header[8..16].copy_from_slice(&(total as u64).to_le_bytes());
    frame.resize(total, 0);
    frame[used..].fill(0);
    Some(())
}

fn read(frame: &[u8]) {
    let pool = Pool::new(1);
    for medium in [Medium::Process, Medium::Disk] {
        let Ok(decoded) = decode(frame, &pool, medium) else { continue };
        let mut batch = decoded.batch;
        restore(&mut batch, |_, bytes, nodes, span| text(bytes, nodes, span));
        batch.validate().expect("a frame that was accepted is valid");
        written(&batch, medium, &pool);
    }
    answer(frame);
}

/// Decodes a message as text.
fn text(bytes: &mut ByteBuffer, nodes: &mut NodeBuffer, span: Span) -> Result<u32, PluginError> {
    let message = std::str::from_utf8(&bytes[span.range()]).map_err(PluginError::bad_data)?;
    let message = message.to_owned();
    let mut writer = Writer::new(bytes, nodes);
    writer.str(&message);
    writer.finish().map_err(PluginError::internal)
}

/// Writes a batch and reads it again.
fn written(batch: &Batch, medium: Medium, pool: &Pool) {
    let mut frame = Vec::new();
    let mut encoder = Encoder::new(medium);
    encoder.prepare(batch).expect("a valid batch can be written").append_to(1, &mut frame);
    stamp(&mut frame, 2, 3).expect("the header was just written");
    verify(&frame, 3).expect("the frame was just stamped");
    let mut again = decode(&frame, pool, medium).expect("the frame was just written").batch;
    restore(&mut again, |_, bytes, nodes, span| text(bytes, nodes, span));
    assert_eq!(seen(batch), seen(&again));
}

/// Applies the frame as an answer to a call.
fn answer(frame: &[u8]) {
    let mut host = Batch::new();
    host.push(&["some", "text"]).expect("a value");
    host.stream(1).push_message(b"raw");
    let mut call = Vec::new();
    let mut encoder = Encoder::new(Medium::Process);
    encoder.prepare_call(&mut host).expect("a frame").append_to(1, &mut call);
    let (before, mut batch) = (seen(&host), host.clone());
    match apply_delta(&mut batch, &mut Mark::default(), frame) {
        Ok(_) => batch.validate().map(drop).expect("a delta that was accepted is valid"),
        Err(_) => assert_eq!(seen(&batch), before),
    }
    assert_eq!(seen(&host), before, "the other owner sees no change");
}

/// Returns everything that can be seen of the events.
fn seen(batch: &Batch) -> Vec<String> {
    let of = |event: &Event| {
        let value = batch.value(event).map(|value| value.to_string());
        let metadata = batch.metadata(event).map(|metadata| metadata.to_string());
        let (raw, original) = (batch.raw(event), batch.original(event));
        let (origin, stream) = (batch.origin(event), event.stream_key());
        format!(
            "{raw:?} {value:?} {original:?} {metadata:?} {origin:?} {stream:?} {:?} {} {}",
            event.position(),
            event.pull,
            event.ingest_ns
        )
    };
    batch.events().iter().map(of).collect()
}
