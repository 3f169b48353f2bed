//! The results of a program, by the values that it read.
//!
//! Rules that classify events usually read few fields, which have few different values. If a program calls only
//! functions that depend on nothing but their arguments (`PURE` in `functions.rs`), the values that it reads determine
//! its result. The cache keeps the results in a tree: each step names the slot that the program reads
//! next, and leads to another step for each value of the slot, until the program ends.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};
use tremor_pdk::{MetadataFields, Shape, ValueRef};

use crate::{
    edits::added_fields,
    layout::{Input, Layout},
    target::Scratch,
};

/// Maximum bytes of the values that a program reads, so that its result is kept.
const MOST_READ: usize = 256;

/// Maximum bytes of the values that a program writes, so that its result is kept.
const MOST_WRITTEN: usize = 1 << 10;

/// Maximum bytes of all steps. When they are exceeded, all steps are removed.
const MOST: usize = 1 << 20;

/// Estimated memory of a step in bytes, without its key and the values of its result.
const STEP: usize = 512;

/// Number of events after which the cache pauses, unless it had the results for half of them.
const TRIAL: u32 = 4_096;

/// Number of events of a pause.
const PAUSE: u32 = 64 << 10;

/// Number of bits in which the cache records what programs have read in a trial.
const SEEN: usize = 16 << 10;

/// The results of a program, by the values that it read.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// The steps, of which the first one is the root. Empty if no results are kept.
    steps: Vec<Step>,
    /// Bytes of all steps.
    bytes: usize,
    /// The keys of the values that were read. The buffer is reused for its capacity.
    key: Vec<u8>,
    /// The slots whose values are in `key`, each with the end of its value.
    ends: Vec<(usize, usize)>,
    /// Bits, one for each hash of values that were read in the current trial. A result is kept only if its values were
    /// read before, so that values that never repeat cost no memory.
    seen: Vec<u64>,
    hasher: DefaultHashBuilder,
    /// Number of events of the trial, and number of those whose result was known.
    asked: u32,
    known: u32,
    /// Number of events that are left of the pause.
    pause: u32,
}

#[derive(Debug)]
enum Step {
    /// The program did not get here yet, or its result was not kept.
    Unknown,
    /// The program reads a slot. The value of the slot determines the next step.
    Reads { slot: usize, next: HashMap<Box<[u8]>, usize> },
    /// The program ends with this result.
    Ends(Known),
}

/// A result that is kept.
#[derive(Debug)]
pub(crate) struct Known {
    /// Position in the list of ports of the port by which the event leaves. `None` for the port `out`.
    pub(crate) port: Option<u16>,
    pub(crate) change: Change,
}

/// Change that a program makes to an event.
#[derive(Debug)]
pub(crate) enum Change {
    /// Fields that are added to the metadata.
    Fields(MetadataFields),
    /// Edits of any kind.
    Edits(Scratch),
}

impl Cache {
    /// Creates the cache of a program whose slots are those of `layout`. It keeps no results if the program is not pure,
    /// or reads whole events.
    pub(crate) fn new(layout: &Layout, is_pure: bool) -> Self {
        let mut cache = Self::default();
        if is_pure && !layout.slots().iter().any(|slot| slot.is_root() && !slot.is_metadata()) {
            cache.clear();
        }
        cache
    }

    /// Returns the result of the program for an event, if it is known.
    pub(crate) fn find(&mut self, layout: &Layout, input: &Input<'_>) -> Option<&Known> {
        if self.steps.is_empty() || self.is_paused() {
            return None;
        }
        let mut at = 0;
        while let Step::Reads { slot, next } = &self.steps[at] {
            self.key.clear();
            push_key(input.get(layout, *slot), &mut self.key);
            at = *next.get(&self.key[..])?;
        }
        match &self.steps[at] {
            Step::Ends(result) => {
                self.known += 1;
                Some(result)
            }
            _ => None,
        }
    }

    /// Adds the result of the program for an event, whose result was not known, and the port by which the event leaves.
    pub(crate) fn add(
        &mut self,
        layout: &Layout,
        input: &Input<'_>,
        result: &Scratch,
        port: Option<u16>,
    ) {
        if self.steps.is_empty() || self.pause > 0 {
            return;
        }
        self.key.clear();
        self.ends.clear();
        for slot in result.reads().iter() {
            push_key(input.get(layout, *slot), &mut self.key);
            self.ends.push((*slot, self.key.len()));
        }
        if self.key.len() > MOST_READ || !self.was_seen() {
            return;
        }
        let Some((kept, written)) = result.kept(layout, MOST_WRITTEN) else { return };
        if self.bytes > MOST {
            self.clear();
        }
        let (mut at, mut start) = (0, 0);
        for &(slot, end) in &self.ends {
            let new = self.steps.len();
            if matches!(self.steps[at], Step::Unknown) {
                self.steps[at] = Step::Reads { slot, next: HashMap::new() };
            }
            let Step::Reads { slot: known, next } = &mut self.steps[at] else { return };
            if *known != slot {
                return;
            }
            at = *next.entry_ref(&self.key[start..end]).or_insert(new);
            if at == new {
                self.steps.push(Step::Unknown);
                self.bytes += STEP + (end - start);
            }
            start = end;
        }
        if matches!(self.steps[at], Step::Unknown) {
            let (change, size) = match added_fields(layout, &kept) {
                Some(fields) => {
                    let size = fields.size();
                    (Change::Fields(fields), size)
                }
                None => (Change::Edits(kept), written),
            };
            self.steps[at] = Step::Ends(Known { port, change });
            self.bytes += size;
        }
    }

    /// Records that the values of `key` were read. Returns whether they were probably read before in the trial.
    fn was_seen(&mut self) -> bool {
        self.seen.resize(SEEN / 64, 0);
        let hash = self.hasher.hash_one(&self.key[..]);
        let (word, bit) = ((hash >> 6) as usize % self.seen.len(), 1 << (hash % 64));
        let was_seen = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        was_seen
    }

    /// Counts an event. Returns whether the cache pauses.
    fn is_paused(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return true;
        }
        self.asked += 1;
        if self.asked < TRIAL {
            return false;
        }
        let is_useful = self.known >= TRIAL / 2;
        self.seen.clear();
        (self.asked, self.known) = (0, 0);
        if !is_useful {
            self.clear();
            self.pause = PAUSE;
        }
        !is_useful
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.steps.push(Step::Unknown);
        self.bytes = 0;
    }
}

/// Appends bytes that differ for different values. If the key exceeds [`MOST_READ`], it may be incomplete.
fn push_key(value: Option<ValueRef<'_>>, key: &mut Vec<u8>) {
    let Some(value) = value else { return key.push(0) };
    // Most values are text, which need not be checked to be UTF-8 here.
    if let Some(text) = value.text_bytes() {
        return push_data(8, text, key);
    }
    match value.shape() {
        Shape::Null => key.push(1),
        Shape::Bool(value) => key.push(2 + u8::from(value)),
        Shape::I64(value) => push_data(4, &value.to_le_bytes(), key),
        Shape::U64(value) => push_data(5, &value.to_le_bytes(), key),
        Shape::F64(value) => push_data(6, &value.to_bits().to_le_bytes(), key),
        Shape::Number(text) => push_data(7, text.as_bytes(), key),
        Shape::String(text) => push_data(8, text.as_bytes(), key),
        Shape::Bytes(data) => push_data(9, data, key),
        Shape::Array(array) => {
            key.push(10);
            for element in array {
                if key.len() > MOST_READ {
                    return;
                }
                push_key(Some(element), key);
            }
            key.push(12);
        }
        Shape::Object(object) => {
            key.push(11);
            for (name, value) in object {
                if key.len() > MOST_READ {
                    return;
                }
                push_data(8, name.as_bytes(), key);
                push_key(Some(value), key);
            }
            key.push(12);
        }
    }
}

fn push_data(kind: u8, data: &[u8], key: &mut Vec<u8>) {
    key.push(kind);
    key.extend_from_slice(&(data.len() as u64).to_le_bytes());
    // A longer part would only be copied to find out that the key is too long.
    key.extend_from_slice(&data[..data.len().min(MOST_READ)]);
}

#[cfg(test)]
mod tests;
