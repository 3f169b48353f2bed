//! JSON text without escapes to nodes, in one pass.
//!
//! A byte says what comes next, the end of a string is found 32 bytes at a time, and nodes are
//! written as they are met: there is no index of the text, and no tape in between. What is not
//! plain (an escape, a number beyond 64 bits, anything that is not JSON) is left to the parser that
//! knows all of it and says what is wrong.

use std::{mem::MaybeUninit, ops::Range};

use tremor_abi::document::{Node, fingerprint};

use super::escape;
use crate::codec::buffer::Nodes;
use crate::codec::duplicates::{Duplicates, Filter};
use crate::codec::output::BLOCK;

/// Digits that a `u64` holds whatever they are.
const SAFE_DIGITS: usize = 19;

/// Reads plain messages; kept from one to the next for its buffer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    open: Vec<Container>,
}

/// An array or object whose end has not been met.
#[derive(Clone, Copy, Debug, Default)]
struct Container {
    /// The index of its node.
    head: u32,
    /// Elements or pairs so far.
    len: u32,
    is_object: bool,
    /// The keys so far, if it is an object.
    keys: Filter,
}

impl Container {
    /// Its node, once `end` is the index behind its last one.
    #[inline]
    fn node(&self, end: u32) -> Node {
        let span = u64::from(end - self.head);
        if self.is_object { Node::object(self.len, span) } else { Node::array(self.len, span) }
    }
}

impl Reader {
    /// Appends the nodes of the message at `message`, none of which may need an index beyond 32 bits:
    /// there are at most as many as it has bytes. Behind it, [`BLOCK`] more bytes can be read.
    ///
    /// `None` if it is not plain; `duplicates` is then to be cleared.
    #[inline]
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        message: Range<usize>,
        max_depth: usize,
        nodes: &mut Nodes,
        duplicates: &mut Duplicates,
    ) -> Option<()> {
        let mut text = Text::new(bytes, message)?;
        let root = nodes.len();
        // `[1,1]` has a node for every two bytes, and an end, and every open bracket one more.
        nodes.reserve((text.end - text.at + max_depth) / 2 + 2);
        let spare = nodes.capacity() - root;
        // SAFETY: this is the part of the buffer behind its contents.
        let slots = unsafe {
            let start = nodes.as_mut_ptr().add(root).cast::<MaybeUninit<Node>>();
            std::slice::from_raw_parts_mut(start, spare)
        };
        #[allow(clippy::cast_possible_truncation)] // the caller has seen to it
        let mut slots = Slots { slots, root: root as u32, written: 0 };
        self.values(&mut text, max_depth, &mut slots, duplicates)?;
        let written = slots.written;
        // SAFETY: that many slots, from the first one on, have been written.
        unsafe { nodes.set_len(root + written) };
        Some(())
    }

    #[inline(always)]
    fn values(
        &mut self,
        text: &mut Text<'_>,
        max_depth: usize,
        nodes: &mut Slots<'_>,
        duplicates: &mut Duplicates,
    ) -> Option<()> {
        let mut now = Container::default();
        self.open.clear();
        'values: loop {
            if now.is_object {
                let key = text.key()?;
                if now.keys.insert(key.word()) {
                    duplicates.suspect(now.head, nodes.next_index());
                }
                nodes.push(key)?;
            }
            let byte = text.next()?;
            match byte {
                b'"' => {
                    let (start, len) = text.string()?;
                    nodes.push(Node::string(start as u64, len))?;
                }
                b'{' | b'[' => {
                    if self.open.len() == max_depth {
                        return None;
                    }
                    let is_object = byte == b'{';
                    let head = nodes.next_index();
                    let inner = Container { head, len: 0, is_object, keys: Filter::default() };
                    nodes.push(inner.node(head + 1))?;
                    text.at += 1;
                    if text.next()? == end_of(is_object) {
                        text.at += 1;
                    } else {
                        self.open.push(std::mem::replace(&mut now, inner));
                        continue 'values;
                    }
                }
                b'-' | b'0'..=b'9' => nodes.push(text.number()?)?,
                b't' => nodes.push(text.word(b"true", Node::bool(true))?)?,
                b'f' => nodes.push(text.word(b"false", Node::bool(false))?)?,
                b'n' => nodes.push(text.word(b"null", Node::null())?)?,
                _ => return None,
            }
            while let Some(outer) = self.open.last() {
                now.len += 1;
                let byte = text.next()?;
                text.at += 1;
                if byte == b',' {
                    continue 'values;
                }
                if byte != end_of(now.is_object) {
                    return None;
                }
                nodes.replace(now.head, now.node(nodes.next_index()))?;
                now = *outer;
                self.open.pop();
            }
            return text.is_at_end().then_some(());
        }
    }
}

#[inline]
fn end_of(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// Where nodes are written.
struct Slots<'n> {
    slots: &'n mut [MaybeUninit<Node>],
    /// The index of the first of them.
    root: u32,
    /// Slots that have been written, from the first one on.
    written: usize,
}

impl Slots<'_> {
    /// The index that the next node will have.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // see `read`
    fn next_index(&self) -> u32 {
        self.root + self.written as u32
    }

    #[inline]
    fn push(&mut self, node: Node) -> Option<()> {
        self.slots.get_mut(self.written)?.write(node);
        self.written += 1;
        Some(())
    }

    #[inline]
    fn replace(&mut self, index: u32, node: Node) -> Option<()> {
        self.slots.get_mut((index - self.root) as usize)?.write(node);
        Some(())
    }
}

/// A message that is being read.
///
/// Invariant: `end + BLOCK <= bytes.len()`.
struct Text<'b> {
    bytes: &'b [u8],
    /// The next byte.
    at: usize,
    /// Behind the message.
    end: usize,
}

impl<'b> Text<'b> {
    fn new(bytes: &'b [u8], message: Range<usize>) -> Option<Self> {
        let is_padded = message.end.checked_add(BLOCK).is_some_and(|end| end <= bytes.len());
        is_padded.then_some(Self { bytes, at: message.start, end: message.end })
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        // SAFETY: it is before the end of the message, which is before that of the bytes.
        Some(unsafe { *self.bytes.get_unchecked(self.at) })
    }

    /// The next byte that is no blank; it is not taken.
    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        if byte > b' ' { Some(byte) } else { self.behind_blanks() }
    }

    #[inline(never)]
    fn behind_blanks(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Whether nothing but blanks is left.
    fn is_at_end(&mut self) -> bool {
        self.next().is_none() && self.at == self.end
    }

    /// Takes a key and the colon behind it.
    #[inline(always)]
    fn key(&mut self) -> Option<Node> {
        if self.next()? != b'"' {
            return None;
        }
        let (start, len) = self.string()?;
        if self.next()? != b':' {
            return None;
        }
        self.at += 1;
        // SAFETY: the string is within the message.
        let key = unsafe { self.bytes.get_unchecked(start..start + len as usize) };
        Some(Node::key(start as u64, len, fingerprint(key)))
    }

    /// Takes a string, whose quote is the next byte; where its text is, and how long.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // messages are below 4 GiB
    fn string(&mut self) -> Option<(usize, u32)> {
        let start = self.at + 1;
        let mut at = start;
        while at < self.end {
            // SAFETY: a block can be read wherever the message has a byte.
            let block = unsafe { &*self.bytes.as_ptr().add(at).cast::<[u8; BLOCK]>() };
            let dirty = escape::dirty(block);
            if dirty != 0 {
                at += dirty.trailing_zeros() as usize;
                self.at = at;
                let is_whole = self.peek()? == b'"';
                self.at += 1;
                return is_whole.then_some((start, (at - start) as u32));
            }
            at += BLOCK;
        }
        None
    }

    /// Takes a word.
    #[inline(always)]
    fn word(&mut self, word: &[u8], node: Node) -> Option<Node> {
        let end = self.at + word.len();
        if end > self.end || self.bytes.get(self.at..end)? != word {
            return None;
        }
        self.at = end;
        Some(node)
    }

    /// Takes digits: their value, if there are few enough, and how many.
    #[inline(always)]
    fn digits(&mut self) -> (u64, usize) {
        let (start, mut value) = (self.at, 0_u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        (value, self.at - start)
    }

    /// Takes a number.
    #[inline(always)]
    fn number(&mut self) -> Option<Node> {
        let start = self.at;
        let is_negative = self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        let first = self.peek();
        let (value, count) = self.digits();
        if count == 0 || (first == Some(b'0') && count > 1) {
            return None;
        }
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return self.float(start);
        }
        if count > SAFE_DIGITS {
            return None;
        }
        match (is_negative, value) {
            (false, _) => Some(Node::u64(value)),
            // An integer has no sign that zero could keep.
            (true, 0) => Some(Node::f64(-0.0)),
            (true, _) => 0_i64.checked_sub_unsigned(value).map(Node::i64),
        }
    }

    /// Takes what is left of a float that began at `start`.
    #[inline(never)]
    fn float(&mut self, start: usize) -> Option<Node> {
        let is_complete = |count: usize| (count > 0).then_some(());
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_complete(self.digits().1)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            is_complete(self.digits().1)?;
        }
        let text = std::str::from_utf8(self.bytes.get(start..self.at)?).ok()?;
        text.parse().ok().filter(|float: &f64| float.is_finite()).map(Node::f64)
    }
}
