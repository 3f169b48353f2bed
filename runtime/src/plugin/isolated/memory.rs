//! The memory that a plugin's process shares with the runtime: one file without a name, divided into slots for frames.
//!
//! Both sides copy frames and map nothing, so neither side reads contents that change meanwhile.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use tremor_abi::{
    batch::{Batch, Claims, Pool},
    frame::{self, Decoded, Encoder, FrameError, MAX_LEN, Medium},
};
use tremor_pdk::Error;

/// Number of slots: one for the source, and one for each delivery that a sink may have in flight.
const SLOTS: u64 = 1 + MOST_IN_FLIGHT as u64;

/// Maximum number of deliveries that the sink of a plugin's process may have in flight.
pub(super) const MOST_IN_FLIGHT: usize = 1_024;

/// Slot of the events of pulls. The delivery slot `n` of a sink is the slot `n + 1`.
pub(super) const PULLS: u32 = 0;

/// Length of a frame in bytes above which the memory of its slot is freed after use.
const KEPT: usize = 1 << 20;

/// The shared memory.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// Creates the memory. Slots take up memory only while they contain frames.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create("tremor-frames", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, SLOTS * MAX_LEN as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self(file.into()))
    }

    /// Returns the memory that another process has created.
    pub(super) fn of(file: OwnedFd) -> Self {
        Self(file.into())
    }

    /// Returns a descriptor for the other process.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        self.0.try_clone().map(OwnedFd::from)
    }

    /// Writes a frame to a slot.
    ///
    /// # Errors
    /// Errors of the operating system, such as a lack of memory.
    fn write(&self, slot: u32, frame: &[u8]) -> io::Result<()> {
        self.0.write_all_at(frame, u64::from(slot) * MAX_LEN as u64)
    }

    /// Reads the frame of a slot, which the other process has written, into a batch.
    ///
    /// # Errors
    /// Kind internal, if the frame is invalid.
    pub(super) fn read(&self, slot: u32, len: u64) -> Result<(Batch, Claims), Error> {
        let invalid = |error: &dyn std::fmt::Display| {
            Error::internal(format_args!(
                "the other process sent an invalid frame in slot {slot}: {error}"
            ))
        };
        let whole = usize::try_from(len).ok().filter(|len| *len <= MAX_LEN);
        let whole = whole.filter(|_| u64::from(slot) < SLOTS);
        let Some(whole) = whole else {
            return Err(invalid(&format_args!(
                "it has {len} bytes; the limit is {MAX_LEN} bytes in {SLOTS} slots"
            )));
        };
        let mut bytes = vec![0; whole];
        self.0
            .read_exact_at(&mut bytes, u64::from(slot) * MAX_LEN as u64)
            .map_err(|error| invalid(&error))?;
        let Decoded { batch, claims, header } =
            frame::decode(&bytes, &Pool::new(0), Medium::Process)
                .map_err(|error| invalid(&error))?;
        if header.total_len != len {
            return Err(invalid(&format_args!(
                "its length is {} bytes, but the message says {len}",
                header.total_len
            )));
        }
        self.free(slot, whole);
        Ok((batch, claims))
    }

    /// Frees the memory of a slot if its frame had an unusual length.
    fn free(&self, slot: u32, len: usize) {
        if len > KEPT {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let at = u64::from(slot) * MAX_LEN as u64;
            // The memory stays in use until the next large frame if this fails.
            _ = fallocate(&self.0, flags, at, MAX_LEN as u64);
        }
    }
}

/// Writes batches to the slots of the shared memory.
pub(super) struct Writer {
    encoder: Encoder,
    frame: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self { encoder: Encoder::new(Medium::Process), frame: Vec::new() }
    }
}

impl Writer {
    /// Writes a batch to a slot. Returns the length of the frame.
    ///
    /// # Errors
    /// Inner: the batch has no frame, for example because it is too large. Outer: errors of the operating system.
    pub(super) fn write(
        &mut self,
        memory: &Memory,
        slot: u32,
        batch: &Batch,
    ) -> io::Result<Result<u64, FrameError>> {
        let prepared = match self.encoder.prepare(batch) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        self.frame.clear();
        prepared.append_to(0, &mut self.frame);
        memory.write(slot, &self.frame)?;
        let len = self.frame.len();
        if self.frame.capacity() > KEPT {
            self.frame = Vec::new();
        }
        Ok(Ok(len as u64))
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::HostBatch;
    use tremor_pdk::Batch;

    use super::{MAX_LEN, Memory, SLOTS, Writer};

    fn batch(messages: &[&[u8]]) -> Batch {
        let mut batch = Batch::new();
        messages.iter().for_each(|message| batch.push_message(message));
        batch
    }

    #[test]
    fn batch_is_read_from_the_slot_that_it_was_written_to() {
        let memory = Memory::new().unwrap();
        let other = Memory::of(memory.share().unwrap());
        let mut writer = Writer::default();
        let large = vec![7; 2 << 20];
        for (slot, message) in [(0, &b"a"[..]), (1_024, b"b"), (3, &large), (3, b"c")] {
            let len = writer.write(&memory, slot, &batch(&[message])).unwrap().unwrap();
            let (read, claims) = other.read(slot, len).unwrap();
            assert_eq!(read.raw(&read.events()[0]), Some(message));
            assert!(claims.is_empty());
        }
    }

    #[test]
    fn frame_with_wrong_length_slot_or_contents_is_an_error() {
        let memory = Memory::new().unwrap();
        let len = Writer::default().write(&memory, 1, &batch(&[b"a"])).unwrap().unwrap();
        let slots = u32::try_from(SLOTS).unwrap();
        for (slot, len) in [
            (1, len - 8),
            (1, len + 8),
            (1, 0),
            (1, u64::MAX),
            (1, MAX_LEN as u64 + 1),
            (2, len),
            (slots, len),
            (u32::MAX, len),
        ] {
            let error = memory.read(slot, len).unwrap_err();
            assert!(error.message().contains("invalid frame"), "{slot} {len}: {error}");
        }
    }

    #[test]
    fn size_of_the_memory_cannot_be_changed() {
        let memory = Memory::new().unwrap();
        let other = std::fs::File::from(memory.share().unwrap());
        assert!(other.set_len(0).is_err());
        assert!(other.set_len(SLOTS * MAX_LEN as u64 + 1).is_err());
    }
}
