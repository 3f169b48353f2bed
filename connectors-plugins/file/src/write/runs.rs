//! Writing ranges of the bytes of a batch.

use std::{
    io::{self, IoSlice, Write},
    ops::Range,
};

/// A write that stopped before its end.
#[derive(Debug)]
pub(super) struct Stopped {
    /// Bytes that were written before the error.
    pub(super) written: u64,
    pub(super) error: io::Error,
}

/// Returns the number of bytes of all runs.
pub(super) fn length_of(runs: &[Range<usize>]) -> u64 {
    runs.iter().map(|run| run.len() as u64).sum()
}

/// Maximum bytes of short runs that are copied to a buffer, so that the system gets one slice. For each slice, the
/// system waits for the memory before it begins with the next one. A copy here reads several of them at the same time.
const GATHERED: u64 = 64 << 10;
/// Mean length of runs, in bytes, from which on they are not copied.
const LONG: u64 = 1 << 10;

/// Writes ranges of `bytes`, in order, with as few system calls as possible.
pub(super) fn write_runs(
    mut out: impl Write,
    bytes: &[u8],
    runs: &[Range<usize>],
) -> Result<(), Stopped> {
    let all = || runs.iter().map(|run| &bytes[run.clone()]);
    let length = length_of(runs);
    if length == 0 {
        return Ok(());
    }
    let gathers = runs.len() > 1 && length <= GATHERED && length / LONG < runs.len() as u64;
    let mut gathered = Vec::new();
    if gathers {
        gathered.reserve_exact(runs.iter().map(Range::len).sum());
        all().for_each(|run| gathered.extend_from_slice(run));
    }
    let mut slices: Vec<_> =
        if gathers { vec![IoSlice::new(&gathered)] } else { all().map(IoSlice::new).collect() };
    let mut rest = &mut slices[..];
    let mut written = 0;
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(Stopped { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => {
                written += count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stopped { written, error }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use tremor_pdk::{Batch, raw_runs};

    use super::write_runs;

    /// A writer that accepts `space` bytes, at most three in one call, and is full after that.
    struct Disk {
        space: usize,
        content: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(3).min(self.space - self.content.len());
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn long_and_short_runs_are_written_alike() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|it| it.to_le_bytes()[it as usize % 2]).collect();
        for (length, step) in [(10, 20), (1_000, 1_001), (3_000, 5_000), (0, 700)] {
            let starts = (0..bytes.len() - length).step_by(step);
            let runs: Vec<_> = starts.map(|start| start..start + length).collect();
            for runs in [&runs[..1], &runs[..2], &runs[..]] {
                let mut disk = Disk { space: usize::MAX, content: Vec::new() };
                write_runs(&mut disk, &bytes, runs).unwrap();
                let expected: Vec<&[u8]> = runs.iter().map(|run| &bytes[run.clone()]).collect();
                assert!(disk.content == expected.concat(), "{length} {step} {}", runs.len());
            }
        }
    }

    #[test]
    fn partial_writes_continue_until_the_disk_is_full() {
        let mut thinned = Batch::new();
        ["one\n", "gone", "three\n", "four\n"]
            .iter()
            .for_each(|message| thinned.push_message(message.as_bytes()));
        thinned.retain(|event| event.raw() != Some(b"gone"));
        let thinned = thinned.into();
        let runs = raw_runs(&thinned);
        assert_eq!(runs.len(), 2);

        let mut disk = Disk { space: 100, content: Vec::new() };
        write_runs(&mut disk, thinned.bytes(), &runs).unwrap();
        assert_eq!(disk.content, b"one\nthree\nfour\n");

        let mut disk = Disk { space: 12, content: Vec::new() };
        let stopped = write_runs(&mut disk, thinned.bytes(), &runs).unwrap_err();
        assert_eq!(disk.content, b"one\nthree\nfo");
        assert_eq!(stopped.error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(stopped.written, 12);
    }
}
