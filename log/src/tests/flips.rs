//! Single flipped bits: each is found, and costs at most the record that it hits.

use std::collections::BTreeMap;
use std::env;

use crate::commit::Progress;
use crate::layout::{align, u64_at};
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, Stepped, numbered};

/// Flips of bits of records and padding that CI makes.
const FLIPS: usize = 3000;

/// Bytes of a sheet that mean something: of a segment's header, and of positions without ranges.
const HEADER: u64 = 96;

/// A log, and what each of its bytes means.
struct Sample {
    disk: SimDisk,
    segments: u64,
    /// The records that have to be found, by their numbers, and numbers that may be found.
    records: BTreeMap<u64, Vec<u8>>,
    settled_to: u64,
    /// Parts of files whose bytes mean something, with the number of the record if the part is one.
    parts: Vec<(String, u64, u64, Option<u64>)>,
}

impl Sample {
    /// Makes a log that was used for long enough that its segments were reused.
    fn new(segments: u64, count: u64) -> Self {
        let disk = SimDisk::new(1);
        let mut log = Stepped::open(&disk, segments).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut id = 0;
        let mut append = |log: &mut Stepped| {
            for _ in 0..random.u32(1..4) {
                id += 1;
                log.append(numbered(id, random.usize(..3000)), |_| ());
            }
            while log.committer.step() == Progress::Worked {}
            log.shared.lock().next - 1
        };
        let mut settled_to = 0;
        while log.shared.lock().live.keys().next_back().is_none_or(|it| *it < segments + 3) {
            let last = append(&mut log);
            if log.shared.lock().is_full {
                // Settles many segments at once, and in one block of positions only.
                settled_to = last;
                log.settle(1, last);
                log.committer.rest();
                while log.committer.step() == Progress::Worked {}
            }
        }
        for _ in 0..count {
            append(&mut log);
        }
        let records = log.read_all().into_iter().map(|it| (it.number, it.bytes)).collect();
        let mut sample = Self { disk, segments, records, settled_to, parts: Vec::new() };
        sample.find_parts(&log);
        sample
    }

    fn find_parts(&mut self, log: &Stepped) {
        let state = log.shared.lock();
        for live in state.live.values().filter(|it| it.last > self.settled_to) {
            let name = format!("{DIR}/{:010}.segment", live.id);
            let bytes = self.disk.contents(&name);
            self.parts.push((name.clone(), 0, HEADER, None));
            self.parts.push((name.clone(), 4096, 4096 + HEADER, None));
            let mut at = 8192;
            while at < live.end {
                if bytes[at as usize..].starts_with(b"TRB2") {
                    let len = u64_at(&bytes, at as usize + 8);
                    let number = u64_at(&bytes, at as usize + 40);
                    self.parts.push((name.clone(), at, at + len, Some(number)));
                    at += len;
                } else {
                    self.parts.push((name.clone(), at, align(at), None));
                    at = align(at);
                }
            }
            self.parts.push((name, at, align(at), None));
        }
        for (name, block) in [("log", 4096), ("positions", 4096)] {
            let name = format!("{DIR}/{name}");
            self.parts.push((name.clone(), 0, 64, None));
            self.parts.push((name, block, block + 64, None));
        }
    }

    /// Flips one bit and opens the log.
    fn flip(&self, name: &str, byte: u64, bit: u8, record: Option<u64>) -> Result<(), String> {
        let disk = self.disk.fork();
        let mut bytes = disk.contents(name);
        bytes[byte as usize] ^= 1 << bit;
        disk.set_contents(name, &bytes);
        let at = format!("bit {bit} of byte {byte} of {name}, record {record:?}");
        let mut log = Stepped::open(&disk, self.segments).map_err(|it| format!("{at}: {it}"))?;
        if log.opened.damage.is_empty() {
            return Err(format!("{at}: not found"));
        }
        let found: BTreeMap<_, _> =
            log.read_all().into_iter().map(|it| (it.number, it.bytes)).collect();
        for (number, bytes) in &self.records {
            // The epoch and the checksum differ after a record was moved.
            let is_equal = |it: &Vec<u8>| it[64..] == bytes[64..] && it[..48] == bytes[..48];
            if !found.get(number).is_some_and(is_equal) && Some(*number) != record {
                return Err(format!("{at}: record {number} is lost"));
            }
        }
        let other =
            found.keys().find(|it| !self.records.contains_key(it) && **it > self.settled_to);
        if let Some(other) = other {
            return Err(format!("{at}: record {other} was never appended"));
        }
        if let Some(certain) =
            log.opened.damage.iter().find(|it| it.records > 1 && it.kind.is_certain())
        {
            return Err(format!("{at}: {certain:?}"));
        }
        Ok(())
    }

    fn flip_part(&self, part: &(String, u64, u64, Option<u64>)) -> Result<(), String> {
        let (name, from, to, record) = part;
        (*from..*to)
            .try_for_each(|byte| (0..8).try_for_each(|bit| self.flip(name, byte, bit, *record)))
    }
}

/// Flips each bit of the settled positions.
pub(super) fn flip_positions() -> Result<(), String> {
    let sample = Sample::new(4, 9);
    let mut positions = sample.parts.iter().filter(|it| it.0.ends_with("positions"));
    positions.try_for_each(|it| sample.flip_part(it))
}

#[test]
fn each_flipped_bit_of_headers_is_found() {
    let sample = Sample::new(4, 9);
    let headers = sample.parts.iter().filter(|it| it.3.is_none() && it.2 - it.1 <= HEADER);
    let mut count = 0;
    for part in headers {
        sample.flip_part(part).unwrap_or_else(|it| panic!("{it}"));
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

/// The long form flips every bit.
#[test]
fn flipped_bits_of_a_log_of_1_mib_cost_one_record() {
    let is_long = env::var_os("TREMOR_LOG_FLIPS").is_some();
    let sample = Sample::new(48, 340);
    let bytes: u64 = sample.parts.iter().map(|it| it.2 - it.1).sum();
    assert!(bytes > 1 << 20, "{bytes}");
    if is_long {
        sample
            .parts
            .iter()
            .try_for_each(|it| sample.flip_part(it))
            .unwrap_or_else(|it| panic!("{it}"));
        return;
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..FLIPS {
        let mut at = random.u64(..bytes);
        let (name, from, _, record) = sample
            .parts
            .iter()
            .find(|it| {
                let is_here = at < it.2 - it.1;
                at = at.wrapping_sub(if is_here { 0 } else { it.2 - it.1 });
                is_here
            })
            .unwrap();
        sample.flip(name, from + at, random.u8(..8), *record).unwrap_or_else(|it| panic!("{it}"));
    }
}
