//! `tremor queue dump`: prints the events of a queue.

use std::{
    io::{self, BufWriter, ErrorKind, Write},
    path::Path,
};

use tremor_abi::batch::HostBatch;

use super::{
    super::{Failure, logging, tap::shown},
    contents::{Records, described, is_damage, unreadable},
    failed, inspect,
};

/// Prints the events of the records from number `from` that are not settled, at most `limit` events.
pub(super) fn execute(folder: &Path, from: u64, limit: Option<u64>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut failure = Failure::default();
    match dump(folder, from, limit.unwrap_or(u64::MAX), &mut out, &mut failure)?
        .and_then(|()| out.flush())
    {
        // Nobody reads the output any more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(failed(&format_args!("cannot write to stdout: {error}"))),
        Ok(()) => failure.or(()),
    }
}

/// Returns the result of writing to `out`. Adds other errors that do not end the output to `failure`.
fn dump(
    folder: &Path,
    from: u64,
    limit: u64,
    out: &mut impl Write,
    failure: &mut Failure,
) -> Result<io::Result<()>, Failure> {
    let mut inspection = inspect(folder)?;
    let (mut records, mut remaining) = (Records::default(), limit);
    for damage in inspection.damage.iter().filter(|it| is_damage(it)) {
        logging::warn(&described(damage));
    }
    while remaining > 0
        && let Some(segment) = inspection.next_segment()
    {
        let segment = match segment {
            Ok(segment) => segment,
            Err(error) => {
                failure.join(failed(&error));
                continue;
            }
        };
        for damage in segment.damage.iter().filter(|it| is_damage(it)) {
            logging::warn(&described(damage));
        }
        for info in segment.records.iter().filter(|it| !it.is_settled && it.number >= from) {
            // A record that is no longer there was settled meanwhile.
            let record = match segment.read(info) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    failure.join(failed(&error));
                    break;
                }
            };
            match records.read(&record.bytes) {
                Ok(batch) => {
                    for event in batch.events() {
                        if remaining == 0 {
                            return Ok(Ok(()));
                        }
                        remaining -= 1;
                        let line = records.line(info.number, &batch, event);
                        let (line, end) = line.split_at(line.len() - 1);
                        if let Err(error) = write!(out, "{}{end}", shown(line)) {
                            return Ok(Err(error));
                        }
                    }
                }
                Err(error) => {
                    failure.join(failed(&format_args!(
                        "cannot read record {} of the queue: {error}",
                        info.number
                    )));
                    let line = unreadable(info.number, &record.bytes, &error);
                    if let Err(error) = out.write_all(line.as_bytes()) {
                        return Ok(Err(error));
                    }
                }
            }
        }
    }
    Ok(Ok(()))
}
