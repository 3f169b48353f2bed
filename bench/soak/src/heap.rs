//! Allocated memory, as reported by the C library. The runtime and each plugin have an allocator,
//! and all of them use the C library's.

/// Returns the number of allocated bytes in all arenas. Memory that threads cache counts as
/// allocated, unless `GLIBC_TUNABLES` disables these caches. Returns 0 if the C library is not
/// glibc.
pub(crate) fn allocated() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the function has no parameters, may be called by any thread at any time, and
        // returns numbers.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks + info.hblkhd) as u64
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    0
}
