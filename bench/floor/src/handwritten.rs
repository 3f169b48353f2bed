//! This project's codecs and operators, called by hand.

use std::{sync::mpsc, thread, time::Instant};

use operator_logging::Logging;
use serde_json::Value as Json;
use tremor_pdk::{Batch, Operator, Output, abi::batch::Pool};
use tremor_runtime::{
    codec::{self, Codec, Decoder, Encoder},
    operator,
};

use crate::{
    data::Data,
    report::{Clock, Counted},
};

/// About what a flow takes at a time.
const BATCH: usize = 32;
/// Batches between the two threads.
const QUEUE: usize = 8;

/// What is done to each event.
pub(crate) struct Loop {
    codec: Codec,
    operators: Vec<Box<dyn Operator>>,
}

impl Loop {
    pub(crate) fn new(codec: &str, logging: bool) -> Result<Self, String> {
        let codec = codec::lookup(codec, &Json::Null).map_err(|error| error.to_string())?;
        let mut operators: Vec<Box<dyn Operator>> = Vec::new();
        if logging {
            operators.push(Box::new(Logging::default()));
            let bucket = operator::operator("bucket", &Json::Object(serde_json::Map::new()));
            operators.push(bucket?);
        }
        Ok(Self { codec, operators })
    }

    pub(crate) fn run(self, data: &Data, clock: Clock, threads: u8) -> Result<Counted, String> {
        let (decoder, encoder) = (self.codec.decoder(), self.codec.encoder());
        let mut front = Front { decoder, operators: self.operators, output: Output::new() };
        let mut back = Back { encoder, counted: Counted::new(clock), pool: Pool::new(4) };
        let pool = Pool::new(QUEUE + 4);
        let mut events = data.cycle();
        if threads == 1 {
            loop {
                let begun = Instant::now();
                let mut done = false;
                front.batch(&mut events, &pool, |batch| done |= !back.batch(begun, batch))?;
                if done {
                    return Ok(back.counted);
                }
            }
        }
        let (sender, receiver) = mpsc::sync_channel::<(Instant, Batch)>(QUEUE);
        thread::scope(|scope| {
            let back = scope.spawn(move || {
                for (begun, batch) in receiver {
                    if !back.batch(begun, batch) {
                        break;
                    }
                }
                back.counted
            });
            let mut open = true;
            while open {
                let begun = Instant::now();
                front.batch(&mut events, &pool, |batch| {
                    open &= sender.send((begun, batch)).is_ok();
                })?;
            }
            back.join().map_err(|_| "the second thread panicked".to_owned())
        })
    }
}

struct Front {
    decoder: Decoder,
    operators: Vec<Box<dyn Operator>>,
    output: Output,
}

impl Front {
    /// Copies, decodes, and applies the operators. What leaves by their ports goes on too.
    fn batch<'d>(
        &mut self,
        events: &mut impl Iterator<Item = &'d [u8]>,
        pool: &Pool,
        mut emit: impl FnMut(Batch),
    ) -> Result<(), String> {
        let mut batch = Batch::from_pool(pool);
        events.take(BATCH).for_each(|event| batch.push_message(0, event));
        if let [first, ..] = &*self.decoder.decode_batch(&mut batch) {
            return Err(format!("an event cannot be decoded: {}", first.error));
        }
        let now = tremor_runtime::time::now_ns();
        batch.events_mut().iter_mut().for_each(|event| event.ingest_ns = now);
        for operator in &mut self.operators {
            operator.process(&mut batch, &mut self.output).map_err(|error| error.to_string())?;
            self.output.take_ports().for_each(|port| emit(port.batch));
            if let [first, ..] = &*self.output.take_rejected() {
                return Err(format!("an event is rejected: {}", first.error));
            }
        }
        emit(batch);
        Ok(())
    }
}

struct Back {
    encoder: Encoder,
    counted: Counted,
    pool: Pool,
}

impl Back {
    fn batch(&mut self, begun: Instant, mut batch: Batch) -> bool {
        let (encoded, _) = self.encoder.encode_batch(&mut batch, &self.pool, b"");
        let sizes = encoded.events().iter().filter_map(|event| encoded.raw(event));
        let bytes = sizes.map(<[u8]>::len).sum();
        self.counted.batch(begun, encoded.len(), bytes)
    }
}
