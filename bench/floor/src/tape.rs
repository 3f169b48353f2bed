//! The work `tape`: simd-json parses an event to its tape and writes the tape.

use std::{hint::black_box, time::Instant};

use simd_json::{Buffers, base::Writable, to_tape_with_buffers};

use crate::{
    data::Data,
    report::{Clock, Counted},
};

/// Number of events between two reads of the clock.
const BATCH: usize = 32;

pub(crate) fn run(data: &Data, clock: Clock) -> Result<Counted, String> {
    let mut counted = Counted::new(clock);
    let mut events = data.cycle();
    let mut buffers = Buffers::new(4 << 10);
    let (mut line, mut out) = (Vec::new(), Vec::new());
    loop {
        let begun = Instant::now();
        out.clear();
        for event in events.by_ref().take(BATCH) {
            // simd-json parses in place, so it needs a copy.
            line.clear();
            line.extend_from_slice(event);
            let tape = to_tape_with_buffers(&mut line, &mut buffers)
                .map_err(|error| format!("an event is not JSON: {error}"))?;
            tape.as_value().write(&mut out).map_err(|error| error.to_string())?;
        }
        if !counted.batch(begun, BATCH, black_box(out.as_slice()).len()) {
            return Ok(counted);
        }
    }
}
