//! The plugin: it edits events, and drops what it is given.

mod boundary;

use tremor_abi::batch::Batch;

use self::boundary::HostAllocator;

/// Gives the plugin the host's allocator: its first call.
#[unsafe(no_mangle)]
pub extern "C" fn install(host: &'static HostAllocator) {
    #[cfg(feature = "forwarded")]
    forwarded::install(host);
    let _ = host;
}

/// Reads a batch, and leaves it alone.
#[unsafe(no_mangle)]
pub extern "C" fn read(batch: &Batch) -> usize {
    batch.len()
}

/// Gives a field of every event another text.
#[unsafe(no_mangle)]
pub extern "C" fn edit(batch: &mut Batch) {
    boundary::edit(batch);
}

/// Drops a batch with all that it owns.
#[unsafe(no_mangle)]
pub extern "C" fn finish(batch: Batch) {
    drop(batch);
}

/// An allocator that is the host's.
#[cfg(feature = "forwarded")]
mod forwarded {
    use std::{
        alloc::{GlobalAlloc, Layout},
        ptr::{self, null_mut},
        sync::atomic::{AtomicPtr, Ordering},
    };

    use super::HostAllocator;

    static HOST: AtomicPtr<HostAllocator> = AtomicPtr::new(null_mut());

    #[global_allocator]
    static ALLOCATOR: Forwarded = Forwarded;

    pub(super) fn install(host: &'static HostAllocator) {
        HOST.store(ptr::from_ref(host).cast_mut(), Ordering::Release);
    }

    struct Forwarded;

    fn host() -> Option<&'static HostAllocator> {
        // SAFETY: it is null or what `install` got, which lives for good.
        unsafe { HOST.load(Ordering::Acquire).as_ref() }
    }

    // SAFETY: memory comes from the host's global allocator, and goes back there with the layout
    // that it was asked for with. Before that is installed there is none.
    unsafe impl GlobalAlloc for Forwarded {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the layout is the caller's, and so is the contract.
            host().map_or(null_mut(), |host| unsafe {
                (host.allocate)(layout.size(), layout.align())
            })
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: as above.
            host().map_or(null_mut(), |host| unsafe {
                (host.allocate_zeroed)(layout.size(), layout.align())
            })
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            if let Some(host) = host() {
                // SAFETY: as above.
                unsafe { (host.deallocate)(memory, layout.size(), layout.align()) }
            }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new: usize) -> *mut u8 {
            // SAFETY: as above.
            host().map_or(null_mut(), |host| unsafe {
                (host.reallocate)(memory, layout.size(), layout.align(), new)
            })
        }
    }
}
