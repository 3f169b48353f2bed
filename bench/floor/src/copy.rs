//! The work `copy`: copying bytes, which is the minimum work of a source.

use std::{hint::black_box, time::Instant};

use crate::{
    data::Data,
    report::{Clock, Counted},
};

/// Number of events that are copied together, as in a batch of a flow.
const BATCH: usize = 256;
/// Number of buffers that are in use at the same time, as in a flow with a short queue.
const BUFFERS: usize = 4;

pub(crate) fn run(data: &Data, clock: Clock) -> Counted {
    let mut counted = Counted::new(clock);
    let mut events = data.cycle();
    let mut buffers = vec![Vec::new(); BUFFERS];
    for turn in (0..BUFFERS).cycle() {
        let begun = Instant::now();
        let buffer: &mut Vec<u8> = &mut buffers[turn];
        buffer.clear();
        for event in events.by_ref().take(BATCH) {
            buffer.extend_from_slice(event);
        }
        if !counted.batch(begun, BATCH, black_box(buffer.as_slice()).len()) {
            break;
        }
    }
    counted
}
