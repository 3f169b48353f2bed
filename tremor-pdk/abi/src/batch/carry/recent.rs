//! Metadata to which the same values were added before, which events then share.

use super::Leaf;

/// Number of remembered values. A power of 2.
const COUNT: usize = 16;

/// The last metadata to which values were added, by the values.
pub(super) struct Recent<'b>([Added<'b>; COUNT]);

/// Metadata to which values were added.
pub(super) struct Added<'b> {
    /// Location of the metadata without the values.
    before: u32,
    leaves: Vec<Leaf<'b>>,
    /// Location of the metadata with the values, or 0 if none was written yet.
    with: u32,
}

impl<'b> Recent<'b> {
    pub(super) const fn new() -> Self {
        Self([const { Added { before: 0, leaves: Vec::new(), with: 0 } }; COUNT])
    }

    /// Returns the slot of the values.
    #[inline]
    pub(super) fn slot(&mut self, leaves: &[Leaf<'_>]) -> &mut Added<'b> {
        &mut self.0[index(leaves)]
    }
}

impl<'b> Added<'b> {
    /// Returns the location of the metadata at `before` with the values `leaves`, if it is known.
    #[inline]
    pub(super) fn get(&self, before: u32, leaves: &[Leaf<'_>]) -> Option<u32> {
        (self.with != 0 && self.before == before && self.leaves == leaves).then_some(self.with)
    }

    /// Replaces the remembered values. `leaves` receives the list of the earlier ones, whose memory it may reuse.
    #[inline]
    pub(super) fn set(&mut self, before: u32, leaves: &mut Vec<Leaf<'b>>, with: u32) {
        (self.before, self.with) = (before, with);
        std::mem::swap(&mut self.leaves, leaves);
    }
}

/// Returns an index that depends on the ends of texts, because names such as `host-1` differ there.
#[inline]
fn index(leaves: &[Leaf<'_>]) -> usize {
    let mut hash = 0_u64;
    for leaf in leaves {
        let word = match leaf {
            Leaf::Missing => 0,
            Leaf::Node(node) => node.payload(),
            Leaf::TooLong(length) => *length as u64,
            Leaf::Text(text) | Leaf::Number(text) => match text.as_bytes().last_chunk() {
                Some(end) => u64::from_le_bytes(*end),
                None => text.bytes().fold(0, |word, byte| word << 8 | u64::from(byte)),
            },
        };
        hash = hash.rotate_left(5) ^ word;
    }
    // The highest bits of the product depend on all bits of the hash.
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - COUNT.ilog2());
    usize::try_from(mixed).unwrap_or(0)
}
