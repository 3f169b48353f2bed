//! Duplicate keys: of the pairs that share a key the last one stays, at its own place.
//!
//! Finding that there are none must cost next to nothing, because there are none in nearly every
//! object. Each open object has a [`Filter`]; only keys that it cannot tell apart are compared,
//! once the message is complete. Removing pairs is the rare case and a pass of its own.

use std::collections::HashMap;

use tremor_abi::document::{Node, NodeKind};

use super::buffer::Nodes;

/// Above this many pairs a filter says too little; the object's keys are sorted instead.
const CROWDED: u32 = 32;

/// The keys seen in one open object: a Bloom filter of two words, one bit in each for a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    first: u64,
    second: u64,
}

impl Filter {
    /// Notes a key, given as its node's [`Node::word`]; true if it may have come before.
    #[inline]
    pub(super) fn insert(&mut self, word: u64) -> bool {
        // Fibonacci hashing: the product's top bits depend on the fingerprint and the length.
        let hash = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (first, second) = (1 << (hash >> 58), 1 << (hash >> 52 & 63));
        let seen = self.first & first != 0 && self.second & second != 0;
        self.first |= first;
        self.second |= second;
        seen
    }
}

/// Finds and removes duplicate keys; kept from message to message for its buffers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    suspects: Vec<Suspect>,
    sorted: Vec<(u64, u32)>,
}

/// Where a key may come twice; positions are indices of nodes.
#[derive(Clone, Copy, Debug)]
enum Suspect {
    Key { head: u32, key: u32 },
    Object { head: u32 },
}

impl Duplicates {
    /// Starts the object of so many pairs whose node is at `head`.
    #[inline]
    pub(super) fn open(&mut self, head: u32, pairs: u32) {
        if pairs > CROWDED {
            self.suspects.push(Suspect::Object { head });
        }
    }

    /// Notes that the key at `key` may equal an earlier one of the object of so many pairs at
    /// `head`.
    #[cold]
    pub(super) fn suspect(&mut self, head: u32, pairs: u32, key: u32) {
        if pairs <= CROWDED {
            self.suspects.push(Suspect::Key { head, key });
        }
    }

    /// Forgets the suspects of a message that did not decode.
    pub(super) fn clear(&mut self) {
        self.suspects.clear();
    }

    /// Removes what has to go from the complete document that starts at `root` and reaches to
    /// the end of `nodes`.
    #[inline]
    pub(super) fn resolve(&mut self, bytes: &[u8], nodes: &mut Nodes, root: u32) {
        if self.suspects.is_empty() {
            return;
        }
        let Self { suspects, sorted } = self;
        let found = suspects.iter().any(|suspect| match *suspect {
            Suspect::Key { head, key } => repeats(bytes, nodes, head as usize, key as usize),
            Suspect::Object { head } => any_repeats(bytes, nodes, head as usize, sorted),
        });
        suspects.clear();
        if found {
            remove(bytes, nodes, root as usize);
        }
    }
}

/// The bytes of a string node.
fn text<'b>(bytes: &'b [u8], node: &Node) -> &'b [u8] {
    let start = index(node.payload());
    &bytes[start..start + node.len() as usize]
}

/// The positions of the keys of the object at `head`.
fn positions(nodes: &[Node], head: usize) -> impl Iterator<Item = usize> {
    let mut at = head + 1;
    (0..nodes[head].len()).map(move |_| {
        let key = at;
        at += 1 + index(nodes[key + 1].span());
        key
    })
}

/// Whether the key at `key` comes earlier in the object at `head`.
fn repeats(bytes: &[u8], nodes: &[Node], head: usize, key: usize) -> bool {
    let sought = &nodes[key];
    positions(nodes, head)
        .take_while(|other| *other < key)
        .map(|other| &nodes[other])
        .any(|other| other.word() == sought.word() && text(bytes, other) == text(bytes, sought))
}

/// Whether any key of the object at `head` comes twice.
fn any_repeats(bytes: &[u8], nodes: &[Node], head: usize, sorted: &mut Vec<(u64, u32)>) -> bool {
    let at = |key: u32| text(bytes, &nodes[key as usize]);
    sorted.clear();
    #[allow(clippy::cast_possible_truncation)] // a batch's nodes are counted in 32 bits
    sorted.extend(positions(nodes, head).map(|key| (nodes[key].word(), key as u32)));
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| at(a.1).cmp(at(b.1))));
    sorted.windows(2).any(|pair| pair[0].0 == pair[1].0 && at(pair[0].1) == at(pair[1].1))
}

#[cold]
fn remove(bytes: &[u8], nodes: &mut Nodes, root: usize) {
    let document = &mut nodes[root..];
    // First: whether node i goes. Then, summed up: how many of the nodes before it do.
    let mut gone = vec![0u32; document.len() + 1];
    for head in 0..document.len() {
        let node = document[head];
        if node.kind() != NodeKind::OBJECT || gone[head] != 0 {
            continue;
        }
        let mut places = HashMap::with_capacity(node.len() as usize);
        let mut pairs = node.len();
        for key in positions(document, head) {
            if let Some(earlier) = places.insert(text(bytes, &document[key]), key) {
                let value = earlier + 1;
                gone[earlier..value + index(document[value].span())].fill(1);
                pairs -= 1;
            }
        }
        document[head] = Node::object(pairs, node.span());
    }
    let mut sum = 0;
    for count in &mut gone {
        sum += std::mem::replace(count, sum);
    }
    let mut kept = 0;
    for at in 0..document.len() {
        if gone[at + 1] > gone[at] {
            continue;
        }
        let node = document[at];
        let span = |node: Node| node.span() - u64::from(gone[at + index(node.span())] - gone[at]);
        document[kept] = match node.kind() {
            NodeKind::OBJECT => Node::object(node.len(), span(node)),
            NodeKind::ARRAY => Node::array(node.len(), span(node)),
            _ => node,
        };
        kept += 1;
    }
    nodes.truncate(root + kept);
}

/// An offset or span that a decoder has just written, as an index.
#[allow(clippy::cast_possible_truncation)]
fn index(value: u64) -> usize {
    value as usize
}
