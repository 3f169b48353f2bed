//! How the C library keeps memory, for the program and its plugins.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::{env, ffi::c_int};

/// Allocations of so many bytes and more come from the system one by one, and go back to it when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FROM_THE_SYSTEM: c_int = 32 << 10;

/// Has buffers of batches go back to the system when they are freed, unless the environment says otherwise. A
/// buffer is freed by another thread than the one that made it, and glibc keeps what is free for each thread: a
/// process then has several times what it uses.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !is_set() {
        // SAFETY: the function takes two numbers, and may be called at any time.
        // Where it fails, the process takes more memory.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, FROM_THE_SYSTEM) };
    }
}

/// Whether the environment sets the same.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_set() -> bool {
    let tunables = env::var("GLIBC_TUNABLES").unwrap_or_default();
    env::var_os("MALLOC_MMAP_THRESHOLD_").is_some() || tunables.contains("mmap_threshold")
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::give_back;

    /// Bytes that came from the system one allocation at a time.
    fn from_the_system() -> usize {
        // SAFETY: the function takes nothing, may be called at any time, and returns numbers.
        unsafe { libc::mallinfo2() }.hblkhd
    }

    #[test]
    fn buffers_of_batches_go_back_to_the_system() {
        give_back();
        let before = from_the_system();
        let buffers: Vec<Vec<u8>> = (0..1_000).map(|_| Vec::with_capacity(40 << 10)).collect();
        let with = from_the_system();
        assert!(with - before > 35 << 20, "{before}, then {with}");
        drop(buffers);
        assert!(from_the_system() < before + (5 << 20));
    }
}
