//! The event as a VRL target: a view, of which only what the program reaches is converted, and the
//! edits, which are kept until the program has ended well.

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
    layout::{Layout, Place},
};

/// An edit of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The place, by its position in the layout.
    pub(crate) place: usize,
    pub(crate) kind: EditKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    /// It has the value that its slot says.
    Written,
    /// It was taken out.
    Removed {
        /// And with it what became empty around it.
        compact: bool,
    },
}

/// What is kept from event to event: the converted slots of the event in hand, and its edits.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Nothing before the first access, then what the slot holds, if anything.
    slots: Vec<OnceCell<Option<Vrl>>>,
    edits: Vec<Edit>,
    arena: RefCell<Arena>,
    /// Whether the program reached for a place that it had not named.
    strayed: Cell<bool>,
}

impl Scratch {
    /// Room for the slots of a layout.
    pub(crate) fn new(layout: &Layout) -> Self {
        let slots = layout.slots().iter().map(|_| OnceCell::new()).collect();
        Self { slots, ..Self::default() }
    }

    /// Forgets the event.
    pub(crate) fn clear(&mut self) {
        for slot in &mut self.slots {
            slot.take();
        }
        self.edits.clear();
        self.strayed.set(false);
    }

    /// The edits of the event, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Whether the program reached for a place that it had not named, which VRL promises not to
    /// happen.
    pub(crate) fn strayed(&self) -> bool {
        self.strayed.get()
    }

    /// What an edited place holds now.
    pub(crate) fn written(&self, place: &Place) -> Option<&Vrl> {
        self.slots[place.slot].get()?.as_ref()?.get(&place.written_rest)
    }

    /// What a place that was reached holds now.
    pub(crate) fn value(&self, place: &Place) -> Option<&Vrl> {
        self.slots[place.slot].get()?.as_ref()?.get(&place.rest)
    }

    fn log(&mut self, edit: Edit) {
        if self.edits.last() != Some(&edit) {
            self.edits.push(edit);
        }
    }
}

/// An event in the hands of a program.
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
            format!("the program did not say that it reaches for {path}")
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
        self.scratch.slots[slot].get_mut().expect("it was just filled")
    }
}

impl Target for EventTarget<'_> {
    fn target_get(&self, path: &OwnedTargetPath) -> Result<Option<&Vrl>, String> {
        let place = self.layout.place(self.find(path)?);
        let slot = self.scratch.slots[place.slot].get_or_init(|| self.convert(place.slot));
        Ok(match slot {
            Some(value) if !place.rest.is_root() => value.get(&place.rest),
            value => value.as_ref(),
        })
    }

    fn target_get_mut(&mut self, path: &OwnedTargetPath) -> Result<Option<&mut Vrl>, String> {
        // Nothing says what is done to the value: take it to be changed.
        let index = self.find(path)?;
        self.scratch.log(Edit { place: index, kind: EditKind::Written });
        let place = self.layout.place(index);
        Ok(self.slot_mut(place.slot).as_mut().and_then(|value| value.get_mut(&place.rest)))
    }

    fn target_insert(&mut self, path: &OwnedTargetPath, value: Vrl) -> Result<(), String> {
        let index = self.find(path)?;
        let place = self.layout.place(index);
        if place.rest.is_root() {
            self.scratch.slots[place.slot] = OnceCell::from(Some(value));
        } else {
            self.slot_mut(place.slot).get_or_insert(Vrl::Null).insert(&place.rest, value);
        }
        self.scratch.log(Edit { place: index, kind: EditKind::Written });
        Ok(())
    }

    fn target_remove(
        &mut self,
        path: &OwnedTargetPath,
        compact: bool,
    ) -> Result<Option<Vrl>, String> {
        let index = self.find(path)?;
        let place = self.layout.place(index);
        let is_root = self.layout.slots()[place.slot].is_root();
        let slot = self.slot_mut(place.slot);
        let removed = if place.rest.is_root() && !is_root {
            slot.take()
        } else {
            let removed = slot.as_mut().and_then(|value| value.remove(&place.rest, compact));
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
            let stays = self.scratch.written(place).is_some();
            let kind = if stays { EditKind::Written } else { EditKind::Removed { compact } };
            self.scratch.log(Edit { place: index, kind });
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
