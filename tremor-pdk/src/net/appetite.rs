//! How much to read at once.

/// How much room a read of one peer gets: little for a peer that sends a line now and then, so that its
/// batches are small, and much for one that sends without end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appetite(u32);

/// In bytes.
const LEAST: u32 = 16 << 10;
const MOST: u32 = 256 << 10;

impl Default for Appetite {
    fn default() -> Self {
        Self(LEAST)
    }
}

impl Appetite {
    /// Where there is so much room in the batch. One byte at least.
    pub(super) fn space(self, room: usize) -> usize {
        (self.0 as usize).min(room).max(1)
    }

    /// Learns from a read of so many bytes into so much space.
    pub(super) fn learn(&mut self, count: usize, space: usize) {
        if count == space {
            self.0 = self.0.saturating_mul(4).min(MOST);
        } else if count < space / 4 {
            self.0 = (self.0 / 2).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Appetite, LEAST, MOST};

    #[test]
    fn a_peer_that_fills_its_room_gets_more_and_one_that_does_not_gets_less() {
        let mut appetite = Appetite::default();
        let room = usize::MAX;
        for _ in 0..4 {
            let space = appetite.space(room);
            appetite.learn(space, space);
        }
        assert_eq!(appetite.space(room), MOST as usize);
        assert_eq!((appetite.space(100), appetite.space(0)), (100, 1));
        for _ in 0..10 {
            appetite.learn(1, appetite.space(room));
        }
        assert_eq!(appetite.space(room), LEAST as usize);
    }
}
