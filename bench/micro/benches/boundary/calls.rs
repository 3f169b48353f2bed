//! The functions of the library, looked up by name.

use std::path::Path;

use libloading::Library;

use crate::echo::{DynEcho, Echo, LARGEST, Payloads, RawEchoBox};

/// A C function.
pub(crate) type Call = extern "C" fn(&mut Echo, &Payloads<'_>) -> u64;
/// A C function that may unwind.
pub(crate) type CallUnwind = extern "C-unwind" fn(&mut Echo, &Payloads<'_>) -> u64;

/// A library that was opened without any checks. Stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    library: &'static Library,
}

impl Calls {
    pub(crate) fn open(path: &Path) -> Self {
        // SAFETY: the library is `boundary-plugin`, which runs no code when it is loaded.
        let library = unsafe { Library::new(path) };
        Self { library: Box::leak(Box::new(library.expect("the system loads what was built"))) }
    }

    /// Looks up a function by name.
    ///
    /// # Safety
    /// `T` is the type of the function `name`.
    unsafe fn function<T: Copy>(self, name: &str) -> T {
        // SAFETY: the contract of this function.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        *found.unwrap_or_else(|error| panic!("`boundary-plugin` has no `{name}`: {error}"))
    }

    /// Returns the state for the functions.
    pub(crate) fn state(self) -> &'static mut Echo {
        // SAFETY: the type is that of the function in `boundary-plugin/src/lib.rs`. The same holds
        // for the calls below.
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
        let mut slot = None;
        // SAFETY: as above. The same compiler has compiled the trait from the same file for the library
        // and for the benchmark.
        let make: extern "C" fn(&mut Option<Box<dyn DynEcho>>) =
            unsafe { self.function("boundary_dyn") };
        make(&mut slot);
        slot.expect("the function has stored an object")
    }

    /// Returns a trait object whose buffer fits the largest call.
    pub(crate) fn raw(self) -> RawEchoBox {
        self.raw_with_capacity(LARGEST)
    }

    /// Returns a trait object with a buffer of `capacity` bytes.
    pub(crate) fn raw_with_capacity(self, capacity: usize) -> RawEchoBox {
        // SAFETY: as above.
        let make: extern "C" fn(usize) -> RawEchoBox = unsafe { self.function("boundary_raw") };
        make(capacity)
    }

    /// Returns the function that counts ended tasks of the operator `ask`.
    pub(crate) fn tasks_ended(self) -> extern "C" fn() -> u64 {
        // SAFETY: as above.
        unsafe { self.function("boundary_tasks_ended") }
    }
}
