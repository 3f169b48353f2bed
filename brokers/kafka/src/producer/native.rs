//! Functions of librdkafka that the crate `rdkafka` does not wrap: sending a record without copying its payload, and
//! signalling events through a file descriptor.
//!
//! This module and the ledger, which keeps the payloads alive, are the only modules of the producer with `unsafe` code.

use std::{
    borrow::Cow,
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

/// The event queue of a client, and a socket that becomes readable when the queue was empty and receives an event.
pub(super) struct Events {
    queue: NonNull<rd_kafka_queue_t>,
    /// End of the socket that librdkafka writes to.
    _writer: UnixStream,
    reader: Arc<Registered<UnixStream>>,
}

/// Waits for events without keeping the event queue alive.
pub(super) struct Waiter(Arc<Registered<UnixStream>>);

// SAFETY: librdkafka's functions may be called from any thread, and the pointer is only passed to these functions.
unsafe impl Send for Events {}
// SAFETY: see `Send` above.
unsafe impl Sync for Events {}

impl Events {
    /// Returns the event queue of `client`. Must be dropped before the client.
    pub(super) fn of<C: ProducerContext>(
        client: &BaseProducer<C>,
        descriptors: &Descriptors,
    ) -> Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        // librdkafka must not block on the socket. If the socket is full, the additional byte is not needed, because
        // unread bytes already signal events.
        writer.set_nonblocking(true)?;
        let reader = descriptors.register(reader)?;
        // SAFETY: the client is alive.
        let queue = unsafe { rd_kafka_queue_get_main(native(client)) };
        let queue = NonNull::new(queue).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        let byte = b"1";
        // SAFETY: the queue and the descriptor stay valid until `drop` disables this notification; librdkafka
        // copies the byte.
        unsafe {
            let byte = byte.as_ptr().cast();
            rd_kafka_queue_io_event_enable(queue.as_ptr(), writer.as_raw_fd(), byte, 1);
        }
        Ok(Self { queue, _writer: writer, reader: Arc::new(reader) })
    }

    /// Returns the number of pending events.
    pub(super) fn len(&self) -> usize {
        // SAFETY: the queue lives as long as `self`.
        unsafe { rd_kafka_queue_length(self.queue.as_ptr()) }
    }

    /// Returns a waiter for further events.
    pub(super) fn waiter(&self) -> Waiter {
        Waiter(self.reader.clone())
    }
}

impl Waiter {
    /// Waits until new events may be available.
    pub(super) async fn wait(self) -> io::Result<()> {
        let mut bytes = [0; 64];
        self.0.read_with(|mut socket| socket.read(&mut bytes)).await.map(drop)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the queue is valid, and not used afterwards. The descriptor is closed only after librdkafka
        // has stopped using it.
        unsafe {
            rd_kafka_queue_io_event_enable(self.queue.as_ptr(), -1, ptr::null(), 0);
            rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

fn native<C: ProducerContext>(client: &BaseProducer<C>) -> *mut rd_kafka_t {
    client.client().native_ptr()
}

/// Headers of a record.
pub(super) struct Headers(NonNull<rd_kafka_headers_t>);

// SAFETY: this value is the only owner of the memory.
unsafe impl Send for Headers {}

impl Headers {
    /// Creates an empty list of headers with capacity for `count` headers.
    ///
    /// # Panics
    /// The memory cannot be allocated.
    pub(super) fn with_capacity(count: usize) -> Self {
        // SAFETY: librdkafka allocates and returns a new list.
        let headers = unsafe { rd_kafka_headers_new(count) };
        #[allow(clippy::expect_used)] // like a failed allocation in the standard library
        Self(NonNull::new(headers).expect("memory for headers"))
    }

    /// Appends a header. Copies its name and value.
    pub(super) fn push(&mut self, name: &str, value: Option<&[u8]>) {
        let (start, len) = value.map_or((ptr::null(), 0), |it| (it.as_ptr(), it.len()));
        // The casts lose nothing, because no slice is longer than `isize::MAX` bytes.
        let (name_len, len) = (name.len().cast_signed(), len.cast_signed());
        // SAFETY: both pointers are valid for their lengths (a null value has length 0), and the headers have
        // no other owner.
        unsafe {
            let name = name.as_ptr().cast::<c_char>();
            rd_kafka_header_add(self.0.as_ptr(), name, name_len, start.cast::<c_void>(), len);
        }
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        // SAFETY: this value owns the headers; `send` forgets the value after librdkafka has taken the ownership.
        unsafe { rd_kafka_headers_destroy(self.0.as_ptr()) };
    }
}

/// A record without its payload.
pub(super) struct Record<'b> {
    pub(super) topic: Cow<'b, str>,
    pub(super) key: Option<Cow<'b, [u8]>>,
    pub(super) headers: Option<Headers>,
    pub(super) partition: Option<i32>,
    /// Milliseconds since 1970.
    pub(super) timestamp: Option<i64>,
    /// `true` if an empty payload means a record without a value.
    pub(super) is_tombstone: bool,
}

/// Way to pass a payload: librdkafka copies it, or the caller keeps it alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Copied,
    Kept,
}

/// Hands a record to the client. The client later reports on the record with `id`.
///
/// # Errors
/// The client rejected the record, for example because its queue is full. The client will not report on this record.
///
/// # Safety
/// Unless the payload is copied, it must stay valid and unchanged until the client has reported on the record
/// or was destroyed.
pub(super) unsafe fn send<C: ProducerContext>(
    client: &BaseProducer<C>,
    topic: &CStr,
    record: &mut Record<'_>,
    payload: (&[u8], Payload),
    id: usize,
) -> Result<(), Code> {
    let (payload, kept) = payload;
    // A null pointer means that the record has no value. An empty value has a valid pointer.
    let start =
        if record.is_tombstone && payload.is_empty() { ptr::null() } else { payload.as_ptr() };
    let flags = if kept == Payload::Kept { 0 } else { RD_KAFKA_MSG_F_COPY };
    let (key, key_len) =
        record.key.as_deref().map_or((ptr::null(), 0), |it| (it.as_ptr(), it.len()));
    let headers = record.headers.as_ref().map_or(ptr::null_mut(), |it| it.0.as_ptr());
    // SAFETY: the client is alive, and each field is followed by a value of its type. Topic, key and headers
    // outlive the call, in which librdkafka copies topic and key. The caller guarantees the validity of the
    // payload.
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
            ptr::without_provenance::<c_void>(id),
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
    // librdkafka owns the headers of an accepted record.
    std::mem::forget(record.headers.take());
    Ok(())
}
