//! Memory of a buffer that nothing was written to yet.

use std::{mem::MaybeUninit, ptr, slice};

use crate::ByteBuffer;

/// Lets `fill` write to the `space` bytes after the last one, and keeps what it gives back: the first of
/// them, as far as it has written. How many these are.
pub(super) fn fill_spare<E>(
    bytes: &mut ByteBuffer,
    space: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
) -> Result<usize, E> {
    // Positions in a batch are of 32 bits, and the vector adds without looking.
    let end = bytes.len().checked_add(space);
    assert!(
        end.is_some_and(|end| u32::try_from(end).is_ok()),
        "room for {space} bytes, where a batch holds less than 4 GiB"
    );
    bytes.reserve(space);
    let length = bytes.len();
    // SAFETY: there is room for `space` bytes after `length`, which nothing else refers to meanwhile, and
    // any byte is a valid `MaybeUninit`.
    let spare = unsafe {
        let first = bytes.as_mut_ptr().add(length).cast::<MaybeUninit<u8>>();
        slice::from_raw_parts_mut(first, space)
    };
    let first = spare.as_ptr().cast::<u8>();
    let filled = fill(spare)?;
    let count = filled.len();
    assert!(
        count == 0 || (ptr::eq(filled.as_ptr(), first) && count <= space),
        "what was filled is the beginning of the room that was given"
    );
    // SAFETY: the bytes of a slice are initialised, and these are the `count` after `length`.
    unsafe { bytes.set_len(length + count) };
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::fill_spare;
    use crate::ByteBuffer;

    #[test]
    #[should_panic(expected = "a batch holds less than 4 GiB")]
    fn more_room_than_a_batch_can_have_is_not_made() {
        let mut bytes = ByteBuffer::new();
        bytes.push(1);
        let _ = fill_spare(&mut bytes, usize::MAX, |_| Ok::<&mut [u8], ()>(&mut []));
    }
}
