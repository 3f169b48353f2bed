//! The event as a VRL target. Only the parts that the program uses are converted, and edits are kept until the program
//! has completed.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
};

use tremor_pdk::ValueRef;
use vrl::{
    compiler::{SecretTarget, Target},
    path::OwnedTargetPath,
    value::{ObjectMap, Value as Vrl},
};

use crate::{
    convert::{Arena, to_vrl},
    layout::{Layout, UsedPath},
};

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

    /// Drops the values and edits of the event.
    pub(crate) fn clear(&mut self) {
        for slot in &mut self.slots {
            slot.take();
        }
        self.edits.clear();
        self.strayed.set(false);
    }

    /// Returns the edits of the event, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
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

/// Event that a program reads and edits.
pub(crate) struct EventTarget<'a> {
    layout: &'a Layout,
    scratch: &'a mut Scratch,
    event: ValueRef<'a>,
    metadata: Option<ValueRef<'a>>,
}

impl<'a> EventTarget<'a> {
    pub(crate) fn new(
        layout: &'a Layout,
        scratch: &'a mut Scratch,
        event: ValueRef<'a>,
        metadata: Option<ValueRef<'a>>,
    ) -> Self {
        Self { layout, scratch, event, metadata }
    }

    fn find(&self, path: &OwnedTargetPath) -> Result<usize, String> {
        self.layout.find(path).ok_or_else(|| {
            self.scratch.strayed.set(true);
            format!("the compiler did not report that the program uses {path}")
        })
    }

    fn convert(&self, slot: usize) -> Option<Vrl> {
        let slot = &self.layout.slots()[slot];
        let whole = if slot.is_metadata() { self.metadata } else { Some(self.event) };
        match whole.and_then(|whole| slot.of(whole)) {
            Some(found) => Some(to_vrl(found, &mut self.scratch.arena.borrow_mut())),
            // An event without metadata has empty metadata.
            None if slot.is_root() => Some(Vrl::Object(ObjectMap::new())),
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

impl Target for EventTarget<'_> {
    fn target_get(&self, path: &OwnedTargetPath) -> Result<Option<&Vrl>, String> {
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
impl SecretTarget for EventTarget<'_> {
    fn get_secret(&self, _key: &str) -> Option<&str> {
        None
    }

    fn insert_secret(&mut self, _key: &str, _value: &str) {}

    fn remove_secret(&mut self, _key: &str) {}
}

impl fmt::Debug for EventTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventTarget").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}
