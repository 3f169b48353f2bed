//! Resolution of duplicate keys. As in all codecs, the last value replaces the first one, at the position of the first
//! one.
//!
//! Hardly any object has duplicate keys, so the check must be cheap. Each open object has a [`Filter`], which rules out
//! most keys as duplicates. Only the remaining keys are compared, after the message is complete.

use std::collections::{HashMap, hash_map::Entry};

use tremor_abi::document::{Node, NodeKind};

use super::{buffer::Nodes, limit};

/// Number of pairs above which a filter reports too many keys by mistake. The keys of a larger object are sorted
/// instead.
const CROWDED: u32 = 32;

/// Finds duplicate keys. It is reused for every message, to keep its buffers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    suspects: Vec<Suspect>,
    sorted: Vec<(u64, u32)>,
    /// `true` if a document contained duplicates since the last call of [`Duplicates::take_found`].
    found: bool,
}

/// A key that may be a duplicate, and its object, both as indices of nodes.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    head: u32,
    key: u32,
}

impl Duplicates {
    /// Records that the key at `key` may equal an earlier key of the object at `head`.
    #[cold]
    pub(super) fn suspect(&mut self, head: u32, key: u32) {
        self.suspects.push(Suspect { head, key });
    }

    /// Discards the suspects of a message that could not be decoded.
    pub(super) fn clear(&mut self) {
        self.suspects.clear();
    }

    /// Resolves the duplicates in the document that starts at `root` and ends with the last node.
    #[inline]
    pub(super) fn resolve(&mut self, bytes: &[u8], nodes: &mut Nodes, root: u32) {
        if !self.suspects.is_empty() && self.confirm(bytes, nodes) {
            rewrite(bytes, nodes, root as usize);
            self.found = true;
        }
    }

    /// Returns whether a document contained duplicates since the last call, so that its value differs from its message.
    #[inline]
    pub(super) fn take_found(&mut self) -> bool {
        std::mem::take(&mut self.found)
    }

    fn confirm(&mut self, bytes: &[u8], nodes: &[Node]) -> bool {
        let Self { suspects, sorted, .. } = self;
        // Sorting by object makes sure that an object with many keys is searched only once.
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

/// A filter of the keys of an object: a Bloom filter of two words, in which each key sets one bit in each word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    first: u64,
    second: u64,
}

impl Filter {
    /// Adds a key, given by its [`Node::word`]. Returns `true` if the same key may have been added before, and `false`
    /// only if it was certainly not added before.
    #[inline]
    pub(super) fn insert(&mut self, word: u64) -> bool {
        // Fibonacci hashing: the top bits of the product depend on the fingerprint and the length.
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (first, second) = (1 << (hash >> 58), 1 << (hash >> 52 & 63));
        let seen = self.first & first != 0 && self.second & second != 0;
        self.first |= first;
        self.second |= second;
        seen
    }
}

/// Returns the bytes of a string node.
#[inline]
fn text<'b>(bytes: &'b [u8], node: &Node) -> &'b [u8] {
    let start = index(node.payload());
    &bytes[start..start + node.len() as usize]
}

/// Returns the positions of the keys of the object at `head`.
fn positions(nodes: &[Node], head: usize) -> impl Iterator<Item = usize> {
    let mut at = head + 1;
    (0..nodes[head].len()).map(move |_| {
        let key = at;
        at += 1 + index(nodes[key + 1].span());
        key
    })
}

/// Returns whether a key of the object at `head` that is before the key at `key` equals that key.
#[inline(never)]
fn repeats(bytes: &[u8], nodes: &[Node], head: usize, key: usize) -> bool {
    let sought = &nodes[key];
    positions(nodes, head)
        .take_while(|other| *other < key)
        .map(|other| &nodes[other])
        .any(|other| other.word() == sought.word() && text(bytes, other) == text(bytes, sought))
}

/// Returns whether the object at `head` contains any key twice.
#[cold]
fn any_repeats(bytes: &[u8], nodes: &[Node], head: usize, sorted: &mut Vec<(u64, u32)>) -> bool {
    let at = |key: u32| text(bytes, &nodes[key as usize]);
    sorted.clear();
    #[allow(clippy::cast_possible_truncation)] // a batch's nodes are counted in 32 bits
    sorted.extend(positions(nodes, head).map(|key| (nodes[key].word(), key as u32)));
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| at(a.1).cmp(at(b.1))));
    sorted.windows(2).any(|pair| pair[0].0 == pair[1].0 && at(pair[0].1) == at(pair[1].1))
}

/// Writes the document at `root` again, without duplicate keys. Every node is copied at most once, because replaced
/// values are not visited.
#[cold]
fn rewrite(bytes: &[u8], nodes: &mut Nodes, root: usize) {
    let old = nodes[root..].to_vec();
    nodes.truncate(root);
    copy(bytes, &old, 0, nodes);
}

/// Copies the value at `at`. The recursion is limited, because a decoder limits the depth.
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

/// Returns the keys of the object at `head`, each once. A key has the position of its first pair and its last value.
fn last_pairs(bytes: &[u8], nodes: &[Node], head: usize) -> Vec<usize> {
    let mut pairs: Vec<usize> = Vec::new();
    if nodes[head].len() <= CROWDED {
        for key in positions(nodes, head) {
            let is_same = |other: &&mut usize| {
                let (one, other) = (&nodes[key], &nodes[**other]);
                one.word() == other.word() && text(bytes, one) == text(bytes, other)
            };
            match pairs.iter_mut().find(is_same) {
                Some(position) => *position = key,
                None => pairs.push(key),
            }
        }
        return pairs;
    }
    let mut positions_of_keys: HashMap<&[u8], usize> = HashMap::new();
    for key in positions(nodes, head) {
        match positions_of_keys.entry(text(bytes, &nodes[key])) {
            Entry::Occupied(position) => pairs[*position.get()] = key,
            Entry::Vacant(position) => {
                position.insert(pairs.len());
                pairs.push(key);
            }
        }
    }
    pairs
}

/// Converts an offset or span that a decoder has just written to an index.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn index(value: u64) -> usize {
    value as usize
}
