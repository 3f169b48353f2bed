//! Filling the uninitialised capacity of a buffer.

use std::{mem::MaybeUninit, ptr, slice};

use crate::ByteBuffer;

/// Calls `fill` with the `space` bytes after the last byte of `bytes`, and appends the slice that `fill` returns, which
/// must begin at the first of these bytes. Returns the length of that slice.
pub(super) fn fill_spare<E>(
    bytes: &mut ByteBuffer,
    space: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
) -> Result<usize, E> {
    // Offsets in a batch have 32 bits, and `reserve` does not check for overflow.
    let end = bytes.len().checked_add(space);
    assert!(
        end.is_some_and(|end| u32::try_from(end).is_ok()),
        "cannot add {space} bytes: a batch contains less than 4 GiB"
    );
    bytes.reserve(space);
    let length = bytes.len();
    // SAFETY: `reserve` allocated at least `space` bytes after `length`, no other reference to them exists while
    // `spare` is used, and any byte is a valid `MaybeUninit`.
    let spare = unsafe {
        let first = bytes.as_mut_ptr().add(length).cast::<MaybeUninit<u8>>();
        slice::from_raw_parts_mut(first, space)
    };
    let first = spare.as_ptr().cast::<u8>();
    let filled = fill(spare)?;
    let count = filled.len();
    assert!(
        count == 0 || (ptr::eq(filled.as_ptr(), first) && count <= space),
        "`fill` has to return the beginning of the space that it received"
    );
    // SAFETY: `filled` is a slice of initialised bytes, and the assertion checked that it is the `count` bytes after
    // `length`.
    unsafe { bytes.set_len(length + count) };
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::fill_spare;
    use crate::ByteBuffer;

    #[test]
    #[should_panic(expected = "a batch contains less than 4 GiB")]
    fn space_beyond_batch_limit_panics() {
        let mut bytes = ByteBuffer::new();
        bytes.push(1);
        let _ = fill_spare(&mut bytes, usize::MAX, |_| Ok::<&mut [u8], ()>(&mut []));
    }
}
