//! The functions of the library, found by their names.

use std::path::Path;

use libloading::Library;

use crate::echo::{DynEcho, Echo, LARGEST, Payloads, RawEchoBox};

/// A C function.
pub(crate) type Call = extern "C" fn(&mut Echo, &Payloads<'_>) -> u64;
/// A C function that a panic may leave.
pub(crate) type CallUnwind = extern "C-unwind" fn(&mut Echo, &Payloads<'_>) -> u64;

/// A library that was opened with no check at all. It stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    library: &'static Library,
}

impl Calls {
    pub(crate) fn open(path: &Path) -> Self {
        // SAFETY: it is `boundary-plugin`, which does nothing when it is loaded.
        let library = unsafe { Library::new(path) };
        Self { library: Box::leak(Box::new(library.expect("the system loads what was built"))) }
    }

    /// # Safety
    /// `T` is the type of the function of that name.
    unsafe fn function<T: Copy>(self, name: &str) -> T {
        // SAFETY: the contract of this function.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        *found.unwrap_or_else(|error| panic!("`boundary-plugin` has no `{name}`: {error}"))
    }

    /// What the functions work on.
    pub(crate) fn state(self) -> &'static mut Echo {
        // SAFETY: the type is that of `boundary-plugin/src/lib.rs`; below as well.
        let make: extern "C" fn() -> &'static mut Echo = unsafe { self.function("boundary_state") };
        make()
    }

    pub(crate) fn call(self) -> Call {
        // SAFETY: as above.
        unsafe { self.function("boundary_call") }
    }

    pub(crate) fn call_unwind(self) -> CallUnwind {
        // SAFETY: as above.
        unsafe { self.function("boundary_call_unwind") }
    }

    pub(crate) fn boxed(self) -> Box<dyn DynEcho> {
        let mut place = None;
        // SAFETY: as above. Both sides have the trait from one file and one compiler.
        let make: extern "C" fn(&mut Option<Box<dyn DynEcho>>) =
            unsafe { self.function("boundary_dyn") };
        make(&mut place);
        place.expect("it was made")
    }

    /// With room for the largest call.
    pub(crate) fn raw(self) -> RawEchoBox {
        self.raw_with_room(LARGEST)
    }

    /// With room for a call with so many bytes.
    pub(crate) fn raw_with_room(self, room: usize) -> RawEchoBox {
        // SAFETY: as above.
        let make: extern "C" fn(usize) -> RawEchoBox = unsafe { self.function("boundary_raw") };
        make(room)
    }

    /// How many tasks that the operator `ask` spawned have ended.
    pub(crate) fn tasks_ended(self) -> extern "C" fn() -> u64 {
        // SAFETY: as above.
        unsafe { self.function("boundary_tasks_ended") }
    }
}
