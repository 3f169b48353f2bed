//! Settings of the C library's allocator, for the program and its plugins.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::{env, ffi::c_int};

/// Minimum size in bytes of allocations that are mapped one by one. The allocator returns such an allocation to the
/// system when it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: c_int = 32 << 10;

/// Makes the allocator return the buffers of batches to the system when they are freed, unless the environment
/// sets the threshold.
///
/// A buffer is often freed by another thread than the one that allocated it. glibc keeps freed memory for each thread,
/// so a process would otherwise have several times the memory that it uses.
pub(crate) fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !is_set() {
        // SAFETY: the function takes two numbers, and may be called at any time.
        // If it fails, the process only takes more memory.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES) };
    }
}

/// Returns whether the environment sets the threshold.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_set() -> bool {
    let tunables = env::var("GLIBC_TUNABLES").unwrap_or_default();
    env::var_os("MALLOC_MMAP_THRESHOLD_").is_some() || tunables.contains("mmap_threshold")
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::return_freed_memory;

    /// Returns the bytes of allocations that were mapped one by one.
    fn mapped_bytes() -> usize {
        // SAFETY: the function takes nothing, may be called at any time, and returns numbers.
        unsafe { libc::mallinfo2() }.hblkhd
    }

    #[test]
    fn freed_buffers_are_returned_to_the_system() {
        return_freed_memory();
        let before = mapped_bytes();
        let buffers: Vec<Vec<u8>> = (0..1_000).map(|_| Vec::with_capacity(40 << 10)).collect();
        let with = mapped_bytes();
        assert!(with - before > 35 << 20, "{before}, then {with}");
        drop(buffers);
        assert!(mapped_bytes() < before + (5 << 20));
    }
}
