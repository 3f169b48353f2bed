//! What host and plugin say to each other.

use tremor_abi::batch::Batch;

/// The host's allocator, for a plugin that has none of its own. Sizes and alignments are those of a
/// `std::alloc::Layout`.
#[repr(C)]
pub struct HostAllocator {
    /// Allocates so many bytes with that alignment; null where there are none.
    pub allocate: unsafe extern "C" fn(size: usize, align: usize) -> *mut u8,
    /// As `allocate`, filled with zeroes.
    pub allocate_zeroed: unsafe extern "C" fn(size: usize, align: usize) -> *mut u8,
    /// Frees what was allocated with that size and alignment.
    pub deallocate: unsafe extern "C" fn(memory: *mut u8, size: usize, align: usize),
    /// Makes what was allocated with that size and alignment `new` bytes long.
    pub reallocate:
        unsafe extern "C" fn(memory: *mut u8, size: usize, align: usize, new: usize) -> *mut u8,
}

/// The edit, which both sides can do: each event becomes a tree of its own.
pub fn edit(batch: &mut Batch) {
    for position in 0..batch.len() {
        if let Some(event) = batch.value_mut(position) {
            let _ = event.insert("short_message", "was edited".to_owned());
        }
    }
}
