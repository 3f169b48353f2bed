//! A consumer of librdkafka with two queues. One queue has the events of the group and the brokers, and is served even
//! while the flow is blocked. The other queue has the records of all partitions, and is read as fast as the flow
//! accepts records.
//!
//! The crate `rdkafka` offers only queues for single partitions. Such queues are read record by record, and
//! librdkafka's limit for prefetched records would apply to each queue separately instead of to all together.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{self, NonNull},
    slice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rdkafka::{
    ClientConfig, TopicPartitionList, bindings as sys,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode,
};
use tremor_pdk::{Host, debug, lock};

use super::{
    context::{GroupContext, Name},
    signal::Signal,
};

/// A consumer with a queue for the records of all partitions. The methods of `BaseConsumer`, which are available
/// through `Deref`, serve only the events of the group and the brokers: `poll` returns no records.
///
/// Dropping the last handle does not block: the consumer leaves the group on a thread that may block, which takes a
/// while.
pub(super) struct Client {
    // Taken in `drop`.
    consumer: ManuallyDrop<BaseConsumer<GroupContext>>,
    queue: Queue,
    host: Host,
    ended: Arc<Signal>,
    /// Number of the last commit that was started.
    commits: AtomicU64,
    /// Number of the last commit that was sent. Locked while a commit is in flight.
    last_commit: Mutex<u64>,
}

/// Queue of the records of all partitions.
struct Queue {
    // Must be destroyed before its consumer.
    handle: NonNull<sys::rd_kafka_queue_t>,
    /// Set when the queue was empty and receives records. librdkafka has a raw pointer to this signal.
    records: Arc<Signal>,
}

// SAFETY: librdkafka's functions, including the functions for queues, may be called from any thread. They only read the
// pointer in this type.
unsafe impl Send for Queue {}
// SAFETY: see `Send` above.
unsafe impl Sync for Queue {}

impl Client {
    /// Creates a consumer without connecting to a broker. `ended` is set once the consumer has left the group.
    ///
    /// # Errors
    /// librdkafka cannot create the client or the queue.
    pub(super) fn new(
        properties: &ClientConfig,
        context: GroupContext,
        host: Host,
        ended: Arc<Signal>,
    ) -> KafkaResult<Self> {
        let signal = context.signal.clone();
        let mut consumer: BaseConsumer<GroupContext> = properties.create_with_context(context)?;
        consumer.set_nonempty_callback(move || signal.set());
        let records = Arc::new(Signal::default());
        // SAFETY: the native client is valid as long as the consumer.
        let queue = unsafe { sys::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let none = || KafkaError::ClientCreation("librdkafka cannot create a queue".to_owned());
        let queue = NonNull::new(queue).ok_or_else(none)?;
        let opaque = Arc::as_ptr(&records).cast_mut().cast::<c_void>();
        // SAFETY: the queue is valid. The signal lives until `drop` removes the callback.
        unsafe { sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(has_records), opaque) };
        let queue = Queue { handle: queue, records };
        let consumer = ManuallyDrop::new(consumer);
        Ok(Self {
            consumer,
            queue,
            host,
            ended,
            commits: AtomicU64::new(0),
            last_commit: Mutex::new(0),
        })
    }

    /// Returns the signal that is set when the queue of records was empty and receives records.
    pub(super) fn records(&self) -> &Signal {
        &self.queue.records
    }

    /// Returns whether fetched records wait in the queue.
    pub(super) fn has_records(&self) -> bool {
        // SAFETY: the queue is valid.
        unsafe { sys::rd_kafka_queue_length(self.queue.handle.as_ptr()) > 0 }
    }

    /// Forwards the records of a partition to the queue of all records. Must be called before each assignment
    /// of the partition, because librdkafka removes the forwarding when it releases the partition.
    ///
    /// # Errors
    /// `topic` contains a zero byte, or librdkafka has no such partition.
    pub(super) fn route(&self, topic: &str, partition: i32) -> KafkaResult<()> {
        let topic = CString::new(topic)?;
        let client = self.consumer.client().native_ptr();
        // SAFETY: the client is valid, and the name is a C string.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let Some(queue) = NonNull::new(queue) else {
            return Err(KafkaError::Subscription("there is no such partition".to_owned()));
        };
        // SAFETY: both queues are valid. This function owns the handle of the partition's queue, and does not
        // use it after destroying it.
        unsafe {
            sys::rd_kafka_queue_forward(queue.as_ptr(), self.queue.handle.as_ptr());
            sys::rd_kafka_queue_destroy(queue.as_ptr());
        }
        Ok(())
    }

    /// Resumes these partitions, which librdkafka has paused. Blocks briefly, until the partitions are resumed.
    ///
    /// While librdkafka waits for the answer to a rebalance, it pauses all partitions of a member, even the partitions
    /// that the member keeps. This connector answers only after a drain, so the pause would be long. librdkafka has no
    /// public function to turn the pause off, so this function calls functions that librdkafka uses internally. These
    /// functions may be called from any thread (`docs/decisions/0022-partitions-that-stay.md`).
    ///
    /// # Errors
    /// librdkafka did not answer.
    pub(super) fn resume(&self, names: &[Name]) -> KafkaResult<()> {
        // librdkafka pauses the partitions asynchronously, and answers this request after that. Resuming partitions
        // that are not paused yet would have no effect.
        self.consumer.assignment()?;
        let mut list = TopicPartitionList::with_capacity(names.len());
        for (topic, partition) in names {
            list.add_partition(topic, *partition);
        }
        let client = self.consumer.client().native_ptr();
        // SAFETY: the client and the list are valid. The function only writes errors to the list, and nobody reads
        // these errors. The signature matches because the manifest pins the exact version of librdkafka.
        unsafe {
            rd_kafka_toppars_pause_resume(client, 0, SYNCHRONOUS, PAUSED_BY_LIBRARY, list.ptr());
        }
        self.wake_brokers()
    }

    /// Returns a number for a commit, larger than the numbers of all earlier commits.
    pub(super) fn next_commit_number(&self) -> u64 {
        self.commits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Commits the offsets of `list` and waits for the answer. Does nothing if a commit with a larger number was sent
    /// before, because an older commit must not overwrite a newer one. Commits can overlap: when the source closes, it
    /// starts the last commit without waiting for a commit in flight.
    ///
    /// # Errors
    /// The commit failed.
    pub(super) fn commit_in_order(
        &self,
        number: u64,
        list: &TopicPartitionList,
    ) -> KafkaResult<()> {
        let mut last = lock(&self.last_commit);
        if number < *last {
            return Ok(());
        }
        *last = number;
        // Commit synchronously, because librdkafka does not report the success of an asynchronous commit to this
        // consumer.
        self.consumer.commit(list, CommitMode::Sync)
    }

    /// Returns the oldest offset of a partition and the offset after its newest record from librdkafka's cache, without
    /// a request. Returns `None` if they are not in the cache.
    pub(super) fn cached_watermarks(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let topic = CString::new(topic).ok()?;
        let (mut oldest, mut end) = (-1, -1);
        // SAFETY: the client is valid, the name is a C string, and both numbers are writable.
        let found = unsafe {
            let client = self.consumer.client().native_ptr();
            sys::rd_kafka_get_watermark_offsets(
                client,
                topic.as_ptr(),
                partition,
                &raw mut oldest,
                &raw mut end,
            )
        };
        let is_known = found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0;
        // The oldest offset is negative until the broker has answered for the first time.
        is_known.then_some((oldest.max(0), end))
    }

    /// Makes librdkafka check immediately which partitions to fetch from. Otherwise a broker thread that had nothing to
    /// fetch while partitions were paused may take up to a second to check. Blocks briefly until librdkafka has handled
    /// all earlier requests, because a broker thread that checks sooner would find the partitions still paused.
    ///
    /// # Errors
    /// librdkafka did not answer.
    pub(super) fn wake_brokers(&self) -> KafkaResult<()> {
        // Requests are handled in order, so the answer to this request means that all earlier requests are done.
        self.consumer.assignment()?;
        // SAFETY: the client is valid, and the reason is a C string. The signature matches, see `resume`.
        unsafe {
            let client = self.consumer.client().native_ptr();
            rd_kafka_all_brokers_wakeup(client, ANY_STATE, c"rebalance".as_ptr());
        }
        Ok(())
    }

    /// Moves up to `most` fetched records into `taken`, which must be empty. If it moved fewer
    /// records, the queue is now empty.
    pub(super) fn take(self: &Arc<Self>, most: usize, taken: &mut Records) {
        debug_assert!(taken.is_empty());
        taken.next = 0;
        taken.list.clear();
        taken.list.reserve(most);
        // SAFETY: the queue is valid, and the list has capacity for `most` pointers.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.queue.handle.as_ptr(),
                0,
                taken.list.as_mut_ptr().cast(),
                most,
            )
        };
        // The count is negative if the arguments are invalid. The list contains no message then.
        let count = usize::try_from(count).unwrap_or(0).min(most);
        // SAFETY: librdkafka has written `count` pointers, none of which is null.
        unsafe { taken.list.set_len(count) };
        if count > 0 {
            taken.client = Some(self.clone());
        }
    }
}

impl Deref for Client {
    type Target = BaseConsumer<GroupContext>;

    fn deref(&self) -> &Self::Target {
        &self.consumer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: the queue is valid, and not used afterwards. Disabling the callback takes the
        // lock under which callbacks run. Therefore no callback runs after that call, and the
        // signal may be dropped.
        unsafe {
            let queue = self.queue.handle.as_ptr();
            sys::rd_kafka_queue_cb_event_enable(queue, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(queue);
        }
        self.consumer.context().begin_closing();
        // SAFETY: the field is not used afterwards.
        let consumer = unsafe { ManuallyDrop::take(&mut self.consumer) };
        let (host, ended) = (self.host.clone(), self.ended.clone());
        // Close the consumer on a thread that may block, because closing takes a while. No task waits for the thread.
        let ends = self.host.blocking(move || {
            // Answer a rebalance that librdkafka has reported and that nobody handles any more; otherwise librdkafka
            // would wait for the answer. The answers have no effect after the consumer is closed, and change nothing if
            // no rebalance is pending.
            let none = TopicPartitionList::new();
            let answers =
                [consumer.incremental_unassign(&none), consumer.incremental_assign(&none)];
            for error in answers.into_iter().filter_map(Result::err) {
                debug!(host, "cannot answer the last rebalance before closing: {error}");
            }
            drop(consumer);
            ended.set();
        });
        drop(ends);
    }
}

unsafe extern "C" {
    /// Function of `rdkafka_partition.h`, which is not a public header.
    fn rd_kafka_toppars_pause_resume(
        client: *mut sys::rd_kafka_t,
        pause: u8,
        asynchronous: c_uint,
        flag: c_int,
        partitions: *mut sys::rd_kafka_topic_partition_list_t,
    ) -> sys::rd_kafka_resp_err_t;

    /// Function of `rdkafka_broker.h`, which is not a public header.
    fn rd_kafka_all_brokers_wakeup(
        client: *mut sys::rd_kafka_t,
        min_state: c_int,
        reason: *const c_char,
    ) -> c_int;
}

/// `RD_SYNC` of `rdtypes.h`.
const SYNCHRONOUS: c_uint = 0;

/// `RD_KAFKA_BROKER_STATE_INIT` of `rdkafka_broker.h`, the first state.
const ANY_STATE: c_int = 0;

/// `RD_KAFKA_TOPPAR_F_LIB_PAUSE` of `rdkafka_partition.h`.
const PAUSED_BY_LIBRARY: c_int = 0x20;

unsafe extern "C" fn has_records(_client: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the signal that was passed with this callback, and lives until the callback is
    // removed.
    let signal = unsafe { &*opaque.cast::<Signal>() };
    signal.set();
}

/// Records that were taken from the queue, in the order of the queue.
#[derive(Default)]
pub(super) struct Records {
    list: Vec<NonNull<sys::rd_kafka_message_t>>,
    /// Index of the first record that was not consumed yet.
    next: usize,
    /// The client that owns the memory of the records; `None` if there are none.
    client: Option<Arc<Client>>,
}

// SAFETY: the records are memory of librdkafka that only this value uses.
unsafe impl Send for Records {}

impl Records {
    /// Returns whether all records were consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.list.len()
    }

    /// Returns the first record that was not consumed yet.
    pub(super) fn first(&self) -> Option<Record<'_>> {
        // SAFETY: the record is valid until it is destroyed. `pop` destroys it and moves `next` past it.
        self.list.get(self.next).map(|record| Record(unsafe { record.as_ref() }))
    }

    /// Destroys the remaining records for which `keep` returns `false`.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Record<'_>) -> bool) {
        let remaining = self.list.split_off(self.next);
        let (list, next) = (std::mem::take(&mut self.list), std::mem::take(&mut self.next));
        debug_assert_eq!(list.len(), next);
        for record in remaining {
            // SAFETY: the record is valid until it is destroyed.
            if keep(Record(unsafe { record.as_ref() })) {
                self.list.push(record);
            } else {
                // SAFETY: the record is valid, and not used afterwards because the list no longer contains it.
                unsafe { sys::rd_kafka_message_destroy(record.as_ptr()) };
            }
        }
        if self.is_empty() {
            self.client = None;
        }
    }

    /// Destroys the first remaining record.
    pub(super) fn pop(&mut self) {
        if let Some(record) = self.list.get(self.next) {
            // SAFETY: the record is valid, and not used afterwards because `next` moves past it.
            unsafe { sys::rd_kafka_message_destroy(record.as_ptr()) };
            self.next += 1;
        }
        if self.is_empty() {
            self.client = None;
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        while !self.is_empty() {
            self.pop();
        }
    }
}

/// A record, or an error of a partition, which librdkafka delivers through the same queue.
#[derive(Clone, Copy)]
pub(super) struct Record<'r>(&'r sys::rd_kafka_message_t);

impl<'r> Record<'r> {
    /// Returns the error and librdkafka's description of the error, or `None` if this is a record.
    pub(super) fn error(self) -> Option<(RDKafkaErrorCode, String)> {
        if self.0.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: the record is valid, and so is the text of its error, a C string.
        let text = unsafe { CStr::from_ptr(sys::rd_kafka_message_errstr(self.0)) };
        Some((self.0.err.into(), text.to_string_lossy().into_owned()))
    }

    /// Returns a number that identifies the topic while the record is valid: two valid records have the same number if
    /// they have the same topic.
    pub(super) fn topic_handle(self) -> usize {
        self.0.rkt.addr()
    }

    pub(super) fn topic(self) -> &'r str {
        if self.0.rkt.is_null() {
            return "";
        }
        // SAFETY: the topic is valid as long as the record, and its name is a C string.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(self.0.rkt)) };
        name.to_str().unwrap_or_default()
    }

    pub(super) fn partition(self) -> i32 {
        self.0.partition
    }

    pub(super) fn offset(self) -> i64 {
        self.0.offset
    }

    /// Returns the value; `None` marks a tombstone.
    pub(super) fn value(self) -> Option<&'r [u8]> {
        // SAFETY: `payload` is null or points to `len` bytes, which are valid as long as the record.
        unsafe { bytes(self.0.payload, self.0.len) }
    }

    pub(super) fn key(self) -> Option<&'r [u8]> {
        // SAFETY: `key` is null or points to `key_len` bytes, which are valid as long as the record.
        unsafe { bytes(self.0.key, self.0.key_len) }
    }

    /// Returns the time of the record in ms since the Unix epoch, if it has one.
    pub(super) fn timestamp(self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the record is valid, and `kind` is writable.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        (kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE).then_some(time)
    }

    /// Returns the headers in order, as names and values. A name can occur several times.
    pub(super) fn headers(self) -> impl Iterator<Item = (&'r str, Option<&'r [u8]>)> {
        let mut headers = ptr::null_mut();
        // SAFETY: the record is valid, and `headers` is writable. The first call parses the headers into the
        // record, which nobody else uses.
        let found = unsafe { sys::rd_kafka_message_headers(self.0, &raw mut headers) };
        let has = found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        (0..).map_while(move |index| {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            if !has {
                return None;
            }
            // SAFETY: the headers are valid as long as the record, and the other arguments are writable.
            let found = unsafe {
                sys::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut length,
                )
            };
            if found != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            // SAFETY: the name is a C string, and the value is null or `length` bytes; both are valid as long
            // as the record.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, length)) };
            Some((name.to_str().unwrap_or_default(), value))
        })
    }
}

/// Returns the `length` bytes at `data`, or `None` if `data` is null.
///
/// # Safety
/// `data` is null or points to `length` bytes that stay valid and unchanged for `'r`.
unsafe fn bytes<'r>(data: *const c_void, length: usize) -> Option<&'r [u8]> {
    // SAFETY: `data` is not null, so the caller guarantees `length` valid bytes.
    (!data.is_null()).then(|| unsafe { slice::from_raw_parts(data.cast(), length) })
}
