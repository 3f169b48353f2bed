//! The event as a VRL target. Only the parts that the program uses are converted, and edits are kept until the program
//! has completed.

use std::{
    cell::{Cell, OnceCell, Ref, RefCell},
    fmt,
};

use bytes::Bytes;
use bytestring::ByteString;
use vrl::{
    compiler::{SecretTarget, Target},
    path::OwnedTargetPath,
    value::{KeyString, ObjectMap, Value as Vrl},
};

use crate::{
    convert::{Arena, to_vrl},
    layout::{Input, Layout, UsedPath},
    memory,
};

/// Memory of the values to which an event may be converted, in bytes. An object with one short field takes 100 times as
/// much as its text in JSON.
pub(crate) const MOST_CONVERTED: usize = 128 << 20;

/// Edit of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Index of the path in the layout.
    pub(crate) path: usize,
    pub(crate) kind: EditKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    /// The new value is in the slot.
    Written,
    /// The value was removed.
    Removed {
        /// `true` if objects and arrays that became empty are removed, too.
        compact: bool,
    },
}

/// State of the current event: the converted slots and the edits. It is reused for each event.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Values of the slots. A cell is empty before the first access to its slot. After that the
    /// cell has the value, or `None` if the event has no such value.
    slots: Vec<OnceCell<Option<Vrl>>>,
    edits: Vec<Edit>,
    /// The slots that the program read, in order.
    reads: RefCell<Vec<usize>>,
    arena: RefCell<Arena>,
    /// `true` if the program used a path that its compiler had not reported.
    strayed: Cell<bool>,
}

impl Scratch {
    /// Creates a state without values for the slots of a layout.
    pub(crate) fn new(layout: &Layout) -> Self {
        let slots = layout.slots().iter().map(|_| OnceCell::new()).collect();
        Self { slots, ..Self::default() }
    }

    /// Returns whether the values of the event exceed [`MOST_CONVERTED`].
    pub(crate) fn is_exceeded(&self) -> bool {
        self.arena.borrow().is_exceeded()
    }

    /// Drops the values and edits of the event.
    pub(crate) fn clear(&mut self) {
        self.arena.get_mut().limit(MOST_CONVERTED);
        for slot in &mut self.slots {
            slot.take();
        }
        self.edits.clear();
        self.reads.get_mut().clear();
        self.strayed.set(false);
    }

    /// Returns the edits of the event, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Returns the slots that the program read, in order.
    pub(crate) fn reads(&self) -> Ref<'_, Vec<usize>> {
        self.reads.borrow()
    }

    /// Returns a copy of the edits and of the slots that they refer to, and its bytes. Returns `None` if the edits and the
    /// values of these slots have more than `most` bytes.
    pub(crate) fn kept(&self, layout: &Layout, most: usize) -> Option<(Self, usize)> {
        let mut left = most.checked_sub(size_of_val(&self.edits[..]))?;
        let mut kept = Self::new(layout);
        for edit in &self.edits {
            let slot = layout.path(edit.path).slot;
            if kept.slots[slot].get().is_none() {
                let value = match self.slots[slot].get()? {
                    Some(value) => Some(copied(value, &mut left)?),
                    None => None,
                };
                kept.slots[slot] = OnceCell::from(value);
            }
        }
        kept.edits.clone_from(&self.edits);
        let bytes = most - left + size_of_val(&kept.slots[..]);
        Some((kept, bytes))
    }

    /// Returns whether the program used a path that VRL's compiler had not reported. VRL guarantees that this does not
    /// happen.
    pub(crate) fn strayed(&self) -> bool {
        self.strayed.get()
    }

    /// Returns the current value that an edit of a path writes back: that of the path, or that of the array that
    /// contains it.
    pub(crate) fn written(&self, used: &UsedPath) -> Option<&Vrl> {
        self.slots[used.slot].get()?.as_ref()?.get(&used.written_rest)
    }

    /// Returns the current value of a path that the program has used.
    pub(crate) fn value(&self, used: &UsedPath) -> Option<&Vrl> {
        self.slots[used.slot].get()?.as_ref()?.get(&used.rest)
    }

    fn log(&mut self, edit: Edit) {
        if self.edits.last() != Some(&edit) {
            self.edits.push(edit);
        }
    }
}

/// Returns a copy of a value that shares no memory with it, and subtracts its bytes from `left`. Returns `None` if they
/// exceed `left`. Text that was converted shares a large buffer, which a small copy must not retain.
fn copied(value: &Vrl, left: &mut usize) -> Option<Vrl> {
    *left = left.checked_sub(size_of::<Vrl>())?;
    let mut data = |data: &[u8]| {
        *left = left.checked_sub(data.len())?;
        Some(Bytes::copy_from_slice(data))
    };
    Some(match value {
        Vrl::String(text) => Vrl::String(ByteString::try_from(data(text.as_bytes())?).ok()?),
        Vrl::Bytes(bytes) => Vrl::Bytes(data(bytes)?),
        Vrl::Array(array) => {
            Vrl::Array(array.iter().map(|it| copied(it, left)).collect::<Option<_>>()?)
        }
        Vrl::Object(object) => {
            let copy = |(key, value): (&KeyString, _)| {
                *left = left.checked_sub(key.len())?;
                Some((key.clone(), copied(value, left)?))
            };
            Vrl::Object(object.iter().map(copy).collect::<Option<_>>()?)
        }
        // A regular expression has any size.
        Vrl::Regex(_) => return None,
        other => other.clone(),
    })
}

/// Event that a program reads and edits.
pub(crate) struct EventTarget<'a, 'e> {
    layout: &'a Layout,
    scratch: &'a mut Scratch,
    input: &'a Input<'e>,
    /// `true` once the program runs. Before that, the runtime of VRL asks whether there is an event.
    is_running: Cell<bool>,
}

/// Answer to the runtime of VRL, which only asks whether there is an event.
static EVENT: Vrl = Vrl::Null;

impl<'a, 'e> EventTarget<'a, 'e> {
    pub(crate) fn new(layout: &'a Layout, scratch: &'a mut Scratch, input: &'a Input<'e>) -> Self {
        Self { layout, scratch, input, is_running: Cell::new(false) }
    }

    fn find(&self, path: &OwnedTargetPath) -> Result<usize, String> {
        self.layout.find(path).ok_or_else(|| {
            self.scratch.strayed.set(true);
            format!("the compiler did not report that the program uses {path}")
        })
    }

    fn convert(&self, slot: usize) -> Option<Vrl> {
        self.scratch.reads.borrow_mut().push(slot);
        match self.input.get(self.layout, slot) {
            Some(found) => {
                let mut arena = self.scratch.arena.borrow_mut();
                Some(memory::converted(|| to_vrl(found, &mut arena)))
            }
            // An event without metadata has empty metadata.
            None if self.layout.slots()[slot].is_root() => Some(Vrl::Object(ObjectMap::new())),
            None => None,
        }
    }

    fn slot_mut(&mut self, slot: usize) -> &mut Option<Vrl> {
        if self.scratch.slots[slot].get().is_none() {
            let value = self.convert(slot);
            self.scratch.slots[slot] = OnceCell::from(value);
        }
        self.scratch.slots[slot].get_mut().expect("the slot was just filled")
    }
}

impl Target for EventTarget<'_, '_> {
    fn target_get(&self, path: &OwnedTargetPath) -> Result<Option<&Vrl>, String> {
        if !self.is_running.replace(true) {
            return Ok(Some(&EVENT));
        }
        let used = self.layout.path(self.find(path)?);
        let slot = self.scratch.slots[used.slot].get_or_init(|| self.convert(used.slot));
        Ok(match slot {
            Some(value) if !used.rest.is_root() => value.get(&used.rest),
            value => value.as_ref(),
        })
    }

    fn target_get_mut(&mut self, path: &OwnedTargetPath) -> Result<Option<&mut Vrl>, String> {
        // The caller may change the value through the reference, so the access is recorded as an edit.
        let index = self.find(path)?;
        self.scratch.log(Edit { path: index, kind: EditKind::Written });
        let used = self.layout.path(index);
        Ok(self.slot_mut(used.slot).as_mut().and_then(|value| value.get_mut(&used.rest)))
    }

    fn target_insert(&mut self, path: &OwnedTargetPath, value: Vrl) -> Result<(), String> {
        let index = self.find(path)?;
        let used = self.layout.path(index);
        if used.rest.is_root() {
            self.scratch.slots[used.slot] = OnceCell::from(Some(value));
        } else {
            self.slot_mut(used.slot).get_or_insert(Vrl::Null).insert(&used.rest, value);
        }
        self.scratch.log(Edit { path: index, kind: EditKind::Written });
        Ok(())
    }

    fn target_remove(
        &mut self,
        path: &OwnedTargetPath,
        compact: bool,
    ) -> Result<Option<Vrl>, String> {
        let index = self.find(path)?;
        let used = self.layout.path(index);
        let is_root = self.layout.slots()[used.slot].is_root();
        let slot = self.slot_mut(used.slot);
        let removed = if used.rest.is_root() && !is_root {
            slot.take()
        } else {
            let removed = slot.as_mut().and_then(|value| value.remove(&used.rest, compact));
            let is_empty = match slot {
                Some(Vrl::Object(object)) => object.is_empty(),
                Some(Vrl::Array(array)) => array.is_empty(),
                _ => false,
            };
            if removed.is_some() && compact && is_empty && !is_root {
                *slot = None;
            }
            removed
        };
        if removed.is_some() {
            let stays = self.scratch.written(used).is_some();
            let kind = if stays { EditKind::Written } else { EditKind::Removed { compact } };
            self.scratch.log(Edit { path: index, kind });
        }
        Ok(removed)
    }
}

/// Events carry no secrets.
impl SecretTarget for EventTarget<'_, '_> {
    fn get_secret(&self, _key: &str) -> Option<&str> {
        None
    }

    fn insert_secret(&mut self, _key: &str, _value: &str) {}

    fn remove_secret(&mut self, _key: &str) {}
}

impl fmt::Debug for EventTarget<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventTarget").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}
