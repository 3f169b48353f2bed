//! The command `loop`: calls codecs and operators of this project directly, without the runtime.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use operator_logging::Logging;
use serde_json::Value as Json;
use tremor_abi::batch::{HostBatch, HostOutput, Pool};
use tremor_pdk::{Batch, Operator, Output};
use tremor_runtime::{codec::Codec, components};

use crate::{
    data::Data,
    report::{Clock, Counted},
};

/// Number of events per iteration, which is about the size of a flow's batches.
const BATCH: usize = 32;

/// Codec and operators that process each event.
pub(crate) struct Loop {
    codec: Codec,
    /// The operators. All threads share them, so a thread locks them for each batch.
    operators: Mutex<Vec<Box<dyn Operator>>>,
}

impl Loop {
    pub(crate) fn new(codec: &str, logging: bool) -> Result<Self, String> {
        let codec = components::codec(codec, &Json::Null).map_err(|error| error.to_string())?;
        let mut operators: Vec<Box<dyn Operator>> = Vec::new();
        if logging {
            operators.push(Box::new(Logging::default()));
            let bucket = components::operator("bucket", &Json::Null);
            operators.push(bucket.map_err(|error| error.to_string())?);
        }
        Ok(Self { codec, operators: Mutex::new(operators) })
    }

    /// Processes events on `threads` threads, each of which copies, decodes and encodes complete
    /// batches. This division of work is faster than decoding in one thread and encoding in another.
    pub(crate) fn run(&self, data: &Data, clock: Clock, threads: u8) -> Result<Counted, String> {
        let events = Mutex::new(data.cycle());
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| self.worker(&events, clock))).collect();
            let mut sum = Counted::new(clock);
            for thread in threads {
                sum.add(&thread.join().map_err(|_| "a thread panicked".to_owned())??);
            }
            Ok(sum)
        })
    }

    fn worker<'d>(
        &self,
        events: &Mutex<impl Iterator<Item = &'d [u8]>>,
        clock: Clock,
    ) -> Result<Counted, String> {
        let (mut decoder, mut encoder) = (self.codec.decoder(), self.codec.encoder());
        let (decoded, encoded) = (Pool::new(4), Pool::new(4));
        let (mut output, mut out) = (Output::new(), Vec::new());
        let mut counted = Counted::new(clock);
        loop {
            let begun = Instant::now();
            let mut batch = Batch::from_pool(&decoded);
            lock(events).by_ref().take(BATCH).for_each(|event| batch.push_message(event));
            if let [first, ..] = &*decoder.decode_batch(&mut batch).rejected {
                return Err(format!("an event cannot be decoded: {}", first.error));
            }
            let now = tremor_runtime::clock::Clock::default().now_ns();
            batch.events_mut().iter_mut().for_each(|event| event.ingest_ns = now);
            for operator in &mut *lock(&self.operators) {
                operator.process(&mut batch, &mut output).map_err(|error| error.to_string())?;
                // Events that leave by ports are encoded as well.
                out.extend(output.take_ports().map(|port| port.batch));
                if let [first, ..] = &*output.take_rejected() {
                    return Err(format!("an event is rejected: {}", first.error));
                }
            }
            out.push(batch);
            let mut continues = true;
            for mut batch in out.drain(..) {
                let (encoded, _) = encoder.encode_batch(&mut batch, &encoded);
                let sizes = encoded.iter().filter_map(tremor_pdk::EventRef::raw);
                let bytes = sizes.map(<[u8]>::len).sum();
                continues &= counted.batch(begun, encoded.len(), bytes);
            }
            if !continues {
                return Ok(counted);
            }
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
