//! An object: the events that are gathered for it, and the task that stores it.

use std::{
    future::poll_fn,
    mem,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use hyper::body::Bytes;
use tremor_pdk::{Error, Host, Memory, Result, lock, oneshot};

use super::{
    answer::Failure,
    encoder::Encoder,
    requests::{Client, Uploaded},
    state::{Recorded, State, Upload, transient},
};

/// Number of gathered bytes at which the task of the object takes them.
const CHUNK: usize = 256 << 10;

/// Number of bytes up to which the task compresses on its own thread.
const AT_ONCE: usize = 32 << 10;

/// Result of storing an object, for each delivery with events in it.
pub(super) type Stored = Result<()>;

/// An object that gathers events, or is being stored.
pub(super) struct Object {
    pub(super) key: String,
    gathered: Mutex<Gathered>,
}

struct Gathered {
    /// Bytes that the task has not taken yet.
    bytes: Vec<u8>,
    /// Bytes in the task, which are compressed or in a request.
    in_task: usize,
    /// Length of all events, before compression.
    length: u64,
    memory: Memory,
    phase: Phase,
    answers: Vec<oneshot::Sender<Stored>>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Accepts events.
    Gathers,
    /// Accepts no more events.
    Complete,
    /// The deliveries are answered.
    Done,
}

impl Gathered {
    fn count(&mut self) {
        self.memory.resize(self.bytes.len() + self.in_task);
    }

    fn wake(&mut self) -> Option<Waker> {
        let is_due = self.phase != Phase::Gathers || self.bytes.len() >= CHUNK;
        if is_due { self.waker.take() } else { None }
    }
}

impl Object {
    pub(super) fn new(host: &Host, key: String) -> Self {
        let gathered = Gathered {
            bytes: Vec::new(),
            in_task: 0,
            length: 0,
            memory: host.memory(),
            phase: Phase::Gathers,
            answers: Vec::new(),
            waker: None,
        };
        Self { key, gathered: Mutex::new(gathered) }
    }

    /// Adds events. Returns the answer to their delivery and the length of all events, or `None` if the object accepts
    /// no more events.
    pub(super) fn append<'b>(
        &self,
        events: impl Iterator<Item = &'b [u8]>,
    ) -> Option<(oneshot::Receiver<Stored>, u64)> {
        let (receiver, length, waker) = {
            let mut gathered = lock(&self.gathered);
            if gathered.phase != Phase::Gathers {
                return None;
            }
            let before = gathered.bytes.len();
            events.for_each(|event| gathered.bytes.extend_from_slice(event));
            gathered.length += (gathered.bytes.len() - before) as u64;
            gathered.count();
            let (sender, receiver) = oneshot::channel();
            gathered.answers.push(sender);
            (receiver, gathered.length, gathered.wake())
        };
        waker.into_iter().for_each(Waker::wake);
        Some((receiver, length))
    }

    /// Lets the task store the object: no event follows.
    pub(super) fn complete(&self) {
        let waker = {
            let mut gathered = lock(&self.gathered);
            if gathered.phase == Phase::Gathers {
                gathered.phase = Phase::Complete;
            }
            gathered.wake()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the answer to the deliveries, or `None` if they are answered already.
    pub(super) fn wait(&self) -> Option<oneshot::Receiver<Stored>> {
        let mut gathered = lock(&self.gathered);
        if gathered.phase == Phase::Done {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        gathered.answers.push(sender);
        Some(receiver)
    }

    /// Returns whether the deliveries are answered.
    pub(super) fn is_done(&self) -> bool {
        lock(&self.gathered).phase == Phase::Done
    }

    /// Waits for [`CHUNK`] bytes or the end of the object. Returns the bytes, and whether they are the last ones.
    async fn next(&self) -> (Vec<u8>, bool) {
        poll_fn(|context| {
            let mut gathered = lock(&self.gathered);
            let is_end = gathered.phase != Phase::Gathers;
            if is_end || gathered.bytes.len() >= CHUNK {
                let bytes = mem::take(&mut gathered.bytes);
                gathered.in_task += bytes.len();
                return Poll::Ready((bytes, is_end));
            }
            gathered.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn set_in_task(&self, bytes: usize) {
        let mut gathered = lock(&self.gathered);
        gathered.in_task = bytes;
        gathered.count();
    }

    /// Answers the deliveries. Returns the length of their events.
    fn answer(&self, stored: &Stored) -> u64 {
        let (answers, length) = {
            let mut gathered = lock(&self.gathered);
            gathered.phase = Phase::Done;
            gathered.bytes = Vec::new();
            gathered.in_task = 0;
            gathered.count();
            (mem::take(&mut gathered.answers), gathered.length)
        };
        answers.into_iter().for_each(|answer| answer.send(stored.clone()));
        length
    }
}

/// An upload in parts.
struct Parts {
    id: String,
    uploaded: Vec<Uploaded>,
    recorded: Recorded,
    /// `true` if the upload may have begun more than once, because a request to begin it had no answer.
    is_ambiguous: bool,
}

/// Task that stores one object.
pub(super) struct Storing {
    pub(super) object: Arc<Object>,
    pub(super) client: Arc<Client>,
    /// `None` to store each object with one request.
    pub(super) state: Option<Arc<State>>,
}

impl Storing {
    /// Stores the object once it is complete, and answers its deliveries. Returns the length of its events.
    pub(super) async fn run(self) -> (Stored, u64) {
        let stored = self.store().await.map_err(|error| {
            error.context(format_args!(
                "cannot store an object in the bucket `{}`",
                self.client.settings.config.bucket
            ))
        });
        let length = self.object.answer(&stored);
        (stored, length)
    }

    async fn store(&self) -> Result<()> {
        let Self { object, client, state } = self;
        let part_bytes = client.settings.part_bytes;
        let mut encoder = Encoder::new(client.settings.format)?;
        let mut parts = None;
        loop {
            let (bytes, is_end) = object.next().await;
            encoder = self.encode(encoder, bytes, is_end).await?;
            object.set_in_task(encoder.len());
            if let Some(state) = state {
                while encoder.len() > part_bytes {
                    let mut upload = match parts.take() {
                        Some(parts) => parts,
                        None => self.begin(state).await?,
                    };
                    self.upload(&mut upload, encoder.take(part_bytes)).await?;
                    object.set_in_task(encoder.len());
                    parts = Some(upload);
                }
            }
            if is_end {
                break;
            }
        }
        let last = encoder.take(usize::MAX);
        let Some(mut parts) = parts else {
            return client
                .put(&object.key, Bytes::from(last))
                .await
                .map_err(|failure| failure.error);
        };
        self.upload(&mut parts, last).await?;
        let completed = client.complete(&object.key, &parts.id, &parts.uploaded).await;
        completed.map_err(|failure| failure.error)?;
        if !parts.is_ambiguous
            && let Err(error) = parts.recorded.end().await
        {
            // The object is complete, so its events are delivered.
            tremor_pdk::warn!(
                client.host,
                "{error}; the next start aborts a finished upload, which has no effect"
            );
        }
        Ok(())
    }

    async fn encode(&self, encoder: Encoder, bytes: Vec<u8>, is_end: bool) -> Result<Encoder> {
        if encoder.compresses() && bytes.len() > AT_ONCE {
            return Ok(self.client.host.blocking(move || encoder.add(bytes, is_end)).await??);
        }
        Ok(encoder.add(bytes, is_end)?)
    }

    /// Begins an upload, and records it.
    async fn begin(&self, state: &Arc<State>) -> Result<Parts> {
        let Self { object, client, .. } = self;
        let upload = Upload {
            endpoint: client.settings.url().to_string(),
            bucket: client.settings.config.bucket.clone(),
            key: object.key.clone(),
            id: None,
        };
        let recorded = state.begin(&client.host, upload).await.map_err(transient)?;
        let (id, is_ambiguous) =
            client.create(&object.key).await.map_err(|failure| failure.error)?;
        if !is_ambiguous {
            recorded.set_id(&id).await.map_err(transient)?;
        }
        Ok(Parts { id, uploaded: Vec::new(), recorded, is_ambiguous })
    }

    async fn upload(&self, parts: &mut Parts, bytes: Vec<u8>) -> Result<()> {
        let (key, number) = (&self.object.key, parts.uploaded.len() + 1);
        let uploaded = self.client.upload(key, &parts.id, number, Bytes::from(bytes)).await;
        parts.uploaded.push(uploaded.map_err(|Failure { error, .. }| error)?);
        Ok(())
    }
}

impl Drop for Storing {
    /// Answers the deliveries if the task ends early, for example because the connector is restarted.
    fn drop(&mut self) {
        if !self.object.is_done() {
            self.object.answer(&Err(Error::connection_lost(
                "the object was not stored, because the connector ended",
            )));
        }
    }
}
