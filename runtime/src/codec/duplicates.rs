//! Duplicate keys: the last value stays, in the place of the first, as everywhere in the project.
//!
//! Finding that there are none must cost next to nothing, because there are none in nearly every
//! object: a [`Filter`] per open object tells which keys cannot have come before, and only the
//! others are compared, once the message is complete.

use std::collections::{HashMap, hash_map::Entry};

use tremor_abi::document::{Node, NodeKind};

use super::{buffer::Nodes, limit};

/// Above this many pairs a filter says too little; the object's keys are sorted instead.
const CROWDED: u32 = 32;

/// Finds duplicate keys; kept from message to message for its buffers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    suspects: Vec<Suspect>,
    sorted: Vec<(u64, u32)>,
}

/// A key that may have come before in its object; both as indices of nodes.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    head: u32,
    key: u32,
}

impl Duplicates {
    /// Notes that the key at `key` may equal an earlier one of the object at `head`.
    #[cold]
    pub(super) fn suspect(&mut self, head: u32, key: u32) {
        self.suspects.push(Suspect { head, key });
    }

    /// Forgets what was noted of a message that did not decode.
    pub(super) fn clear(&mut self) {
        self.suspects.clear();
    }

    /// Resolves the duplicates in the document that starts at `root` and reaches to the end of
    /// `nodes`.
    #[inline]
    pub(super) fn resolve(&mut self, bytes: &[u8], nodes: &mut Nodes, root: u32) {
        if !self.suspects.is_empty() && self.confirm(bytes, nodes) {
            rewrite(bytes, nodes, root as usize);
        }
    }

    fn confirm(&mut self, bytes: &[u8], nodes: &[Node]) -> bool {
        let Self { suspects, sorted } = self;
        // So that a crowded object is looked at once, wherever its suspects lie.
        suspects.sort_unstable_by_key(|suspect| suspect.head);
        let mut sorted_head = None;
        let found = suspects.iter().any(|suspect| {
            let (head, key) = (suspect.head as usize, suspect.key as usize);
            if nodes[head].len() <= CROWDED {
                repeats(bytes, nodes, head, key)
            } else if sorted_head == Some(head) {
                false
            } else {
                sorted_head = Some(head);
                any_repeats(bytes, nodes, head, sorted)
            }
        });
        suspects.clear();
        if (suspects.capacity() + sorted.capacity()) * size_of::<(u64, u32)>() > limit::KEPT {
            *self = Self::default();
        }
        found
    }
}

/// The keys seen in an object: a Bloom filter of two words with one bit in each for a key.
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
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (first, second) = (1 << (hash >> 58), 1 << (hash >> 52 & 63));
        let seen = self.first & first != 0 && self.second & second != 0;
        self.first |= first;
        self.second |= second;
        seen
    }
}

/// The bytes of a string node.
#[inline]
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
#[inline(never)]
fn repeats(bytes: &[u8], nodes: &[Node], head: usize, key: usize) -> bool {
    let sought = &nodes[key];
    positions(nodes, head)
        .take_while(|other| *other < key)
        .map(|other| &nodes[other])
        .any(|other| other.word() == sought.word() && text(bytes, other) == text(bytes, sought))
}

/// Whether any key of the object at `head` comes twice.
#[cold]
fn any_repeats(bytes: &[u8], nodes: &[Node], head: usize, sorted: &mut Vec<(u64, u32)>) -> bool {
    let at = |key: u32| text(bytes, &nodes[key as usize]);
    sorted.clear();
    #[allow(clippy::cast_possible_truncation)] // a batch's nodes are counted in 32 bits
    sorted.extend(positions(nodes, head).map(|key| (nodes[key].word(), key as u32)));
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| at(a.1).cmp(at(b.1))));
    sorted.windows(2).any(|pair| pair[0].0 == pair[1].0 && at(pair[0].1) == at(pair[1].1))
}

/// Writes the document at `root` anew. Every node is copied once at most: what a key's later value
/// replaces is not looked at.
#[cold]
fn rewrite(bytes: &[u8], nodes: &mut Nodes, root: usize) {
    let old = nodes[root..].to_vec();
    nodes.truncate(root);
    copy(bytes, &old, 0, nodes);
}

/// Copies the value at `at`, which lies no deeper than a decoder allows.
fn copy(bytes: &[u8], old: &[Node], at: usize, nodes: &mut Nodes) {
    let (head, value) = (nodes.len(), old[at]);
    nodes.push(value);
    match value.kind() {
        NodeKind::ARRAY => {
            let mut element = at + 1;
            for _ in 0..value.len() {
                copy(bytes, old, element, nodes);
                element += index(old[element].span());
            }
            nodes[head] = Node::array(value.len(), (nodes.len() - head) as u64);
        }
        NodeKind::OBJECT => {
            let pairs = last_pairs(bytes, old, at);
            for key in &pairs {
                nodes.push(old[*key]);
                copy(bytes, old, key + 1, nodes);
            }
            #[allow(clippy::cast_possible_truncation)] // at most as many as there were
            let len = pairs.len() as u32;
            nodes[head] = Node::object(len, (nodes.len() - head) as u64);
        }
        _ => {}
    }
}

/// The keys of the object at `head`, each once, with its last value in the place of its first.
fn last_pairs(bytes: &[u8], nodes: &[Node], head: usize) -> Vec<usize> {
    let mut pairs: Vec<usize> = Vec::new();
    if nodes[head].len() <= CROWDED {
        for key in positions(nodes, head) {
            let is_same = |other: &&mut usize| {
                let (one, other) = (&nodes[key], &nodes[**other]);
                one.word() == other.word() && text(bytes, one) == text(bytes, other)
            };
            match pairs.iter_mut().find(is_same) {
                Some(place) => *place = key,
                None => pairs.push(key),
            }
        }
        return pairs;
    }
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    for key in positions(nodes, head) {
        match places.entry(text(bytes, &nodes[key])) {
            Entry::Occupied(place) => pairs[*place.get()] = key,
            Entry::Vacant(place) => {
                place.insert(pairs.len());
                pairs.push(key);
            }
        }
    }
    pairs
}

/// An offset or span that a decoder has just written, as an index.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn index(value: u64) -> usize {
    value as usize
}
