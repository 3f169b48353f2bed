//! What rdkafka does not wrap: records without a copy of their payload, and events that a descriptor tells of.
//!
//! Besides the ledger, which keeps the payloads, this is the only module of the producer with `unsafe` code.

use std::{
    ffi::{CStr, c_char, c_void},
    io::{self, Read},
    os::{fd::AsRawFd, unix::net::UnixStream},
    ptr::{self, NonNull},
    sync::Arc,
};

use rdkafka::{
    bindings::{
        RD_KAFKA_MSG_F_COPY, rd_kafka_header_add, rd_kafka_headers_destroy, rd_kafka_headers_new,
        rd_kafka_headers_t, rd_kafka_producev, rd_kafka_queue_destroy, rd_kafka_queue_get_main,
        rd_kafka_queue_io_event_enable, rd_kafka_queue_length, rd_kafka_queue_t, rd_kafka_t,
        rd_kafka_vtype_t as Field,
    },
    producer::{BaseProducer, Producer, ProducerContext},
    types::{RDKafkaErrorCode as Code, RDKafkaRespErr},
};
use tremor_pdk::{Descriptors, Registered, Result};

/// The queue of what librdkafka has to tell a client, and a socket that says when there is something.
pub(super) struct Events {
    queue: NonNull<rd_kafka_queue_t>,
    /// What librdkafka writes to.
    _writer: UnixStream,
    reader: Arc<Registered<UnixStream>>,
}

/// Waits for events, and is no hindrance to their end.
pub(super) struct Waiter(Arc<Registered<UnixStream>>);

// SAFETY: librdkafka may be called from any thread, at any time, and the pointer leads to nothing else.
unsafe impl Send for Events {}
// SAFETY: as above.
unsafe impl Sync for Events {}

impl Events {
    /// Those of a client, which is to live longer than this.
    pub(super) fn of<C: ProducerContext>(
        client: &BaseProducer<C>,
        descriptors: &Descriptors,
    ) -> Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        // If nobody has read what was written before, one more is not needed.
        writer.set_nonblocking(true)?;
        let reader = descriptors.register(reader)?;
        // SAFETY: the client is alive.
        let queue = unsafe { rd_kafka_queue_get_main(native(client)) };
        let queue = NonNull::new(queue).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        let told = b"1";
        // SAFETY: queue and descriptor are alive, and stay so until `drop` has undone this; librdkafka copies
        // the bytes.
        unsafe {
            let told = told.as_ptr().cast();
            rd_kafka_queue_io_event_enable(queue.as_ptr(), writer.as_raw_fd(), told, 1);
        }
        Ok(Self { queue, _writer: writer, reader: Arc::new(reader) })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        // SAFETY: the queue lives as long as this.
        unsafe { rd_kafka_queue_length(self.queue.as_ptr()) }
    }

    /// What waits for further ones.
    pub(super) fn waiter(&self) -> Waiter {
        Waiter(self.reader.clone())
    }
}

impl Waiter {
    /// Waits until there may be an event that there was not before.
    pub(super) async fn wait(self) -> io::Result<()> {
        let mut bytes = [0; 64];
        self.0.read_with(|mut socket| socket.read(&mut bytes)).await.map(drop)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the queue is alive, and not used after that; the descriptor is closed after librdkafka
        // has forgotten it.
        unsafe {
            rd_kafka_queue_io_event_enable(self.queue.as_ptr(), -1, ptr::null(), 0);
            rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

fn native<C: ProducerContext>(client: &BaseProducer<C>) -> *mut rd_kafka_t {
    client.client().native_ptr()
}

/// The headers of a record.
pub(super) struct Headers(NonNull<rd_kafka_headers_t>);

// SAFETY: it is memory that nobody else knows of.
unsafe impl Send for Headers {}

impl Headers {
    /// None yet, with room for so many.
    ///
    /// # Panics
    /// There is no memory.
    pub(super) fn with_capacity(count: usize) -> Self {
        // SAFETY: librdkafka allocates what it answers with.
        let headers = unsafe { rd_kafka_headers_new(count) };
        #[allow(clippy::expect_used)] // as the standard library does it
        Self(NonNull::new(headers).expect("memory for headers"))
    }

    /// One more. Its name and its value are copied.
    pub(super) fn push(&mut self, name: &str, value: Option<&[u8]>) {
        let (start, len) = value.map_or((ptr::null(), 0), |it| (it.as_ptr(), it.len()));
        // No slice is longer than the largest `isize`.
        let (name_len, len) = (name.len().cast_signed(), len.cast_signed());
        // SAFETY: both slices are alive, and as long as is said; the headers are ours alone.
        unsafe {
            let name = name.as_ptr().cast::<c_char>();
            rd_kafka_header_add(self.0.as_ptr(), name, name_len, start.cast::<c_void>(), len);
        }
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        // SAFETY: they are ours: code that gives them away forgets this.
        unsafe { rd_kafka_headers_destroy(self.0.as_ptr()) };
    }
}

/// A record without its payload.
pub(super) struct Record<'b> {
    pub(super) topic: &'b str,
    pub(super) key: Option<&'b [u8]>,
    pub(super) headers: Option<Headers>,
    pub(super) partition: Option<i32>,
    /// In milliseconds since 1970.
    pub(super) timestamp: Option<i64>,
    /// Whether an empty payload is none.
    pub(super) is_tombstone: bool,
}

/// Whether librdkafka copies a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Copied,
    Kept,
}

/// Hands a record to the client, which will report of it under this number.
///
/// # Errors
/// The client does not take it, and reports nothing: its queue is full, say.
///
/// # Safety
/// A payload that is not copied stays where it is, and does not change, until the record was reported of or
/// the client has gone.
pub(super) unsafe fn send<C: ProducerContext>(
    client: &BaseProducer<C>,
    topic: &CStr,
    record: &mut Record<'_>,
    payload: (&[u8], Payload),
    number: usize,
) -> Result<(), Code> {
    let (payload, kept) = payload;
    // An empty payload points to somewhere: only null is none.
    let start =
        if record.is_tombstone && payload.is_empty() { ptr::null() } else { payload.as_ptr() };
    let flags = if kept == Payload::Kept { 0 } else { RD_KAFKA_MSG_F_COPY };
    let (key, key_len) = record.key.map_or((ptr::null(), 0), |it| (it.as_ptr(), it.len()));
    let headers = record.headers.as_ref().map_or(ptr::null_mut(), |it| it.0.as_ptr());
    // SAFETY: the client is alive; each field has a value of its type; topic, key and headers outlive the call,
    // in which librdkafka copies the first two; the caller answers for the payload.
    let answer: RDKafkaRespErr = unsafe {
        rd_kafka_producev(
            native(client),
            Field::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            Field::RD_KAFKA_VTYPE_PARTITION,
            record.partition.unwrap_or(-1),
            Field::RD_KAFKA_VTYPE_MSGFLAGS,
            flags,
            Field::RD_KAFKA_VTYPE_VALUE,
            start.cast::<c_void>(),
            payload.len(),
            Field::RD_KAFKA_VTYPE_KEY,
            key.cast::<c_void>(),
            key_len,
            Field::RD_KAFKA_VTYPE_OPAQUE,
            ptr::without_provenance::<c_void>(number),
            Field::RD_KAFKA_VTYPE_TIMESTAMP,
            record.timestamp.unwrap_or(0),
            Field::RD_KAFKA_VTYPE_HEADERS,
            headers,
            Field::RD_KAFKA_VTYPE_END,
        )
    };
    if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(answer.into());
    }
    // They are the client's now.
    std::mem::forget(record.headers.take());
    Ok(())
}
