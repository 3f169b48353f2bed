//! What is allocated, as the C library tells it. Plugins and the runtime have an allocator each, and
//! both ask this one.

/// Bytes that are allocated and not freed, in all arenas. What threads keep for the next call
/// counts as allocated, unless `GLIBC_TUNABLES` says that they keep nothing. Zero where the C library is not glibc.
pub(crate) fn allocated() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the function takes nothing, may be called by any thread at any time, and returns
        // numbers.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks + info.hblkhd) as u64
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    0
}
