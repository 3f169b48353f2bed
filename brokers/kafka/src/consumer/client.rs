//! A consumer of librdkafka with two queues: one for what the group and the brokers tell, which is served
//! whatever the flow does, and one for the records of all partitions, which is read as the flow takes them.
//!
//! The crate `rdkafka` has queues for single partitions only, which are read record by record, and with which
//! the bound of librdkafka on what it fetches ahead holds for each partition and not for all of them.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{self, NonNull},
    slice,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rdkafka::{
    ClientConfig, TopicPartitionList, bindings as sys,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode,
};
use tremor_pdk::{Host, debug};

use super::{
    context::{Heard, Name},
    signal::Signal,
};

/// Such a consumer. The methods of `BaseConsumer` that read are for what the group and the brokers tell.
///
/// To drop the last of its handles holds nobody up: leaving the group takes a while, and has a thread for that.
pub(super) struct Client {
    // Taken in `drop`.
    consumer: ManuallyDrop<BaseConsumer<Heard>>,
    queue: Queue,
    host: Host,
    ended: Arc<Signal>,
    /// How many commits were begun.
    turns: AtomicU64,
    /// Which of them was made last. Taken for as long as one is made.
    last_turn: Mutex<u64>,
}

/// The queue of all records.
struct Queue {
    // Destroyed before the consumer that it is of.
    handle: NonNull<sys::rd_kafka_queue_t>,
    /// Set whenever there are records where there were none. The queue has a pointer to it.
    records: Arc<Signal>,
}

// SAFETY: librdkafka's functions may be called from any thread, the ones of queues included. What they are
// given of this type is only read.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Client {
    /// Makes one, which reaches nothing yet. `ended` is set once it has left the group.
    ///
    /// # Errors
    /// librdkafka's.
    pub(super) fn new(
        properties: &ClientConfig,
        heard: Heard,
        host: Host,
        ended: Arc<Signal>,
    ) -> KafkaResult<Self> {
        let told = heard.signal.clone();
        let mut consumer: BaseConsumer<Heard> = properties.create_with_context(heard)?;
        consumer.set_nonempty_callback(move || told.set());
        let records = Arc::new(Signal::default());
        // SAFETY: the client is valid as long as the consumer is.
        let queue = unsafe { sys::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let none = || KafkaError::ClientCreation("librdkafka makes no queue".to_owned());
        let queue = NonNull::new(queue).ok_or_else(none)?;
        let opaque = Arc::as_ptr(&records).cast_mut().cast::<c_void>();
        // SAFETY: the queue is valid. The signal lives until the callback is taken back: in `drop`.
        unsafe { sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(has_records), opaque) };
        let queue = Queue { handle: queue, records };
        let consumer = ManuallyDrop::new(consumer);
        Ok(Self {
            consumer,
            queue,
            host,
            ended,
            turns: AtomicU64::new(0),
            last_turn: Mutex::new(0),
        })
    }

    /// Set whenever there are records where there were none.
    pub(super) fn records(&self) -> &Signal {
        &self.queue.records
    }

    /// Has the records of a partition come with those of the others. To be said whenever it is assigned, before
    /// that: librdkafka forgets it when it is released.
    ///
    /// # Errors
    /// The topic has no name that Kafka could have.
    pub(super) fn route(&self, topic: &str, partition: i32) -> KafkaResult<()> {
        let topic = CString::new(topic)?;
        let client = self.consumer.client().native_ptr();
        // SAFETY: the client is valid, and the name is a string of C.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let Some(queue) = NonNull::new(queue) else {
            return Err(KafkaError::Subscription("there is no such partition".to_owned()));
        };
        // SAFETY: both queues are valid. The handle on that of the partition is ours, and not used again.
        unsafe {
            sys::rd_kafka_queue_forward(queue.as_ptr(), self.queue.handle.as_ptr());
            sys::rd_kafka_queue_destroy(queue.as_ptr());
        }
        Ok(())
    }

    /// Goes on with these partitions, which librdkafka has paused. Blocks until it has done so, which is soon.
    ///
    /// It pauses all that a member has, also those that stay, from the moment that it asks for an answer to a
    /// rebalance until it has that: for as long as a drain takes. It does so for applications that read all
    /// partitions and serve rebalances in one loop, and has no function to say that this is none. The functions that
    /// it calls itself may be called from any thread (`docs/decisions/0022-partitions-that-stay.md`).
    ///
    /// # Errors
    /// librdkafka's.
    pub(super) fn go_on(&self, names: &[Name]) -> KafkaResult<()> {
        // It answers after it has paused them, which it does in its own time: what is not paused cannot go on.
        self.consumer.assignment()?;
        let mut list = TopicPartitionList::with_capacity(names.len());
        for (topic, partition) in names {
            list.add_partition(topic, *partition);
        }
        let client = self.consumer.client().native_ptr();
        // SAFETY: the client and the list are valid, and the list is only written errors to, which are told to
        // nobody. The version of librdkafka, whose function that is, is exact in the manifest.
        unsafe {
            rd_kafka_toppars_pause_resume(client, 0, SYNCHRONOUS, PAUSED_BY_LIBRARY, list.ptr());
        }
        self.wake()
    }

    /// A number for a commit, larger than those of all before it.
    pub(super) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Commits that, and waits for the answer, unless a commit with a larger number was made before: the group is not
    /// to have an earlier one last. Nobody waits any more for one that is under way when the source is closed.
    ///
    /// # Errors
    /// librdkafka's.
    pub(super) fn commit_in_turn(&self, turn: u64, list: &TopicPartitionList) -> KafkaResult<()> {
        let mut last = self.last_turn.lock().unwrap_or_else(PoisonError::into_inner);
        if turn < *last {
            return Ok(());
        }
        *last = turn;
        // librdkafka tells of a commit that it waits for, and of no other that goes well.
        self.consumer.commit(list, CommitMode::Sync)
    }

    /// What is known of a partition without asking: its oldest offset, and the one after the newest.
    pub(super) fn known(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let topic = CString::new(topic).ok()?;
        let (mut oldest, mut end) = (-1, -1);
        // SAFETY: the client is valid, the name is a string of C, and both numbers may be written to.
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
        // Before the first answer of the broker they are negative.
        is_known.then_some((oldest.max(0), end))
    }

    /// Has librdkafka look at once what there is to fetch. Otherwise its threads for brokers do so after up to a
    /// second, where they had nothing to fetch while partitions were paused. Blocks until what it was told before is
    /// done, which is soon: a thread that looks earlier finds them paused.
    ///
    /// # Errors
    /// librdkafka's.
    pub(super) fn wake(&self) -> KafkaResult<()> {
        // It does one after the other, and answers this one.
        self.consumer.assignment()?;
        // SAFETY: the client is valid, and the reason is a string of C. As above.
        unsafe {
            let client = self.consumer.client().native_ptr();
            rd_kafka_all_brokers_wakeup(client, ANY_STATE, c"rebalance".as_ptr());
        }
        Ok(())
    }

    /// Takes what was fetched, up to so many records, into `taken`, which is empty. Fewer mean that there are
    /// no more now.
    pub(super) fn take(self: &Arc<Self>, most: usize, taken: &mut Records) {
        debug_assert!(taken.is_empty());
        taken.next = 0;
        taken.list.clear();
        taken.list.reserve(most);
        // SAFETY: the queue is valid, and the list has room for so many pointers.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.queue.handle.as_ptr(),
                0,
                taken.list.as_mut_ptr().cast(),
                most,
            )
        };
        // None where it is negative, which is an error of arguments.
        let count = usize::try_from(count).unwrap_or(0).min(most);
        // SAFETY: librdkafka has written so many pointers, of which none is null.
        unsafe { taken.list.set_len(count) };
        if count > 0 {
            taken.client = Some(self.clone());
        }
    }
}

impl Deref for Client {
    type Target = BaseConsumer<Heard>;

    fn deref(&self) -> &Self::Target {
        &self.consumer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: the queue is valid, and not used after that. No callback comes after the first call, which
        // takes the lock that callbacks are made with: the signal may go.
        unsafe {
            let queue = self.queue.handle.as_ptr();
            sys::rd_kafka_queue_cb_event_enable(queue, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(queue);
        }
        self.consumer.context().ends();
        // SAFETY: it is not used after that.
        let consumer = unsafe { ManuallyDrop::take(&mut self.consumer) };
        let (host, ended) = (self.host.clone(), self.ended.clone());
        // It goes on where nobody waits for it.
        let ends = self.host.blocking(move || {
            // librdkafka waits for an answer to a change that it has told of and that nobody acts on any more.
            // Before it closes: it answers no such call once it has. Where it waits for none these change nothing.
            let none = TopicPartitionList::new();
            let answers =
                [consumer.incremental_unassign(&none), consumer.incremental_assign(&none)];
            for error in answers.into_iter().filter_map(Result::err) {
                debug!(host, "no answer to a change of partitions before the end: {error}");
            }
            drop(consumer);
            ended.set();
        });
        drop(ends);
    }
}

unsafe extern "C" {
    /// Of `rdkafka_partition.h`, which is not public.
    fn rd_kafka_toppars_pause_resume(
        client: *mut sys::rd_kafka_t,
        pause: u8,
        asynchronous: c_uint,
        flag: c_int,
        partitions: *mut sys::rd_kafka_topic_partition_list_t,
    ) -> sys::rd_kafka_resp_err_t;

    /// Of `rdkafka_broker.h`, which is not public.
    fn rd_kafka_all_brokers_wakeup(
        client: *mut sys::rd_kafka_t,
        min_state: c_int,
        reason: *const c_char,
    ) -> c_int;
}

/// `RD_SYNC` of `rdtypes.h`.
const SYNCHRONOUS: c_uint = 0;

/// `RD_KAFKA_BROKER_STATE_INIT` of `rdkafka_broker.h`: the first.
const ANY_STATE: c_int = 0;

/// `RD_KAFKA_TOPPAR_F_LIB_PAUSE` of `rdkafka_partition.h`.
const PAUSED_BY_LIBRARY: c_int = 0x20;

unsafe extern "C" fn has_records(_client: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: it is the signal that the callback was set with, which lives until it is taken back.
    let signal = unsafe { &*opaque.cast::<Signal>() };
    signal.set();
}

/// Records that were taken from the queue, in their order.
#[derive(Default)]
pub(super) struct Records {
    list: Vec<NonNull<sys::rd_kafka_message_t>>,
    /// The first that is not done with.
    next: usize,
    /// Of which they are.
    client: Option<Arc<Client>>,
}

// SAFETY: records are memory of librdkafka's that nobody else uses.
unsafe impl Send for Records {}

impl Records {
    /// Whether all are done with.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.list.len()
    }

    /// The first that is not done with.
    pub(super) fn first(&self) -> Option<Record<'_>> {
        // SAFETY: it is valid until it is destroyed, which is after that.
        self.list.get(self.next).map(|record| Record(unsafe { record.as_ref() }))
    }

    /// Is done with those that are not to be kept.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Record<'_>) -> bool) {
        let rest = self.list.split_off(self.next);
        let (list, next) = (std::mem::take(&mut self.list), std::mem::take(&mut self.next));
        debug_assert_eq!(list.len(), next);
        for record in rest {
            // SAFETY: it is valid until it is destroyed.
            if keep(Record(unsafe { record.as_ref() })) {
                self.list.push(record);
            } else {
                // SAFETY: it is valid, and not used after that: the list is without it.
                unsafe { sys::rd_kafka_message_destroy(record.as_ptr()) };
            }
        }
        if self.is_empty() {
            self.client = None;
        }
    }

    /// Is done with the first.
    pub(super) fn pop(&mut self) {
        if let Some(record) = self.list.get(self.next) {
            // SAFETY: it is valid, and not used after that: the next is first from here on.
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

/// A record, or an error of a partition in its place.
#[derive(Clone, Copy)]
pub(super) struct Record<'r>(&'r sys::rd_kafka_message_t);

impl<'r> Record<'r> {
    /// The error, and what librdkafka says of it.
    pub(super) fn error(self) -> Option<(RDKafkaErrorCode, String)> {
        if self.0.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: the record is valid, and so is the text of its error, which is a string of C.
        let text = unsafe { CStr::from_ptr(sys::rd_kafka_message_errstr(self.0)) };
        Some((self.0.err.into(), text.to_string_lossy().into_owned()))
    }

    /// Names the topic among those that are in use: the same for its other records, as long as this one is
    /// valid.
    pub(super) fn topic_handle(self) -> usize {
        self.0.rkt.addr()
    }

    /// The name of the topic.
    pub(super) fn topic(self) -> &'r str {
        if self.0.rkt.is_null() {
            return "";
        }
        // SAFETY: the topic is valid as long as the record is, and its name is a string of C.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(self.0.rkt)) };
        name.to_str().unwrap_or_default()
    }

    /// The number of the partition.
    pub(super) fn partition(self) -> i32 {
        self.0.partition
    }

    /// Its place in the partition.
    pub(super) fn offset(self) -> i64 {
        self.0.offset
    }

    /// The value. None is a tombstone.
    pub(super) fn value(self) -> Option<&'r [u8]> {
        // SAFETY: librdkafka has so many bytes there, as long as the record is valid.
        unsafe { bytes(self.0.payload, self.0.len) }
    }

    /// The key.
    pub(super) fn key(self) -> Option<&'r [u8]> {
        // SAFETY: as above.
        unsafe { bytes(self.0.key, self.0.key_len) }
    }

    /// Its time, in ms since the Unix epoch, if it has one.
    pub(super) fn timestamp(self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the record is valid, and `kind` may be written to.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        (kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE).then_some(time)
    }

    /// Its headers in their order: names, which may come several times, and values.
    pub(super) fn headers(self) -> impl Iterator<Item = (&'r str, Option<&'r [u8]>)> {
        let mut headers = ptr::null_mut();
        // SAFETY: the record is valid, and `headers` may be written to. librdkafka parses them when it is first
        // asked, into the record, which nobody else uses.
        let found = unsafe { sys::rd_kafka_message_headers(self.0, &raw mut headers) };
        let has = found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        (0..).map_while(move |index| {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            if !has {
                return None;
            }
            // SAFETY: the headers are valid as long as the record is, and the others may be written to.
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
            // SAFETY: a name is a string of C, and a value has so many bytes, as long as the record is valid.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, length)) };
            Some((name.to_str().unwrap_or_default(), value))
        })
    }
}

/// The bytes at a pointer, if it points anywhere.
///
/// # Safety
/// There are so many, for as long as `'r`.
unsafe fn bytes<'r>(data: *const c_void, length: usize) -> Option<&'r [u8]> {
    // SAFETY: the caller says so.
    (!data.is_null()).then(|| unsafe { slice::from_raw_parts(data.cast(), length) })
}
