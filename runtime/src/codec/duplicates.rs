//! Duplicate keys: of the pairs that share a key, the last one stays, at its own place.
//!
//! Finding that there are none must cost next to nothing, because there are none in nearly every
//! object. Each open object has a 64-bit [`Filter`]; only keys that it cannot tell apart are
//! compared, once the message is complete. Removing pairs is the rare case and a pass of its own.

use std::collections::HashMap;

use tremor_abi::document::{Node, NodeKind};

use super::buffer::Nodes;

/// Above this many pairs a 64-bit filter says nothing; the object's keys are sorted instead.
const CROWDED: u32 = 32;

/// The keys seen in one open object, as one bit for each of 64 classes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    seen: u64,
    crowded: bool,
}

/// Finds and removes duplicate keys; kept from message to message for its buffers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    suspects: Vec<Suspect>,
    sorted: Vec<(u64, u32)>,
}

#[derive(Debug)]
enum Suspect {
    /// This key may equal an earlier one of this object.
    Key { head: u32, key: u32 },
    /// Any two keys of this object may be equal.
    Object { head: u32 },
}

impl Duplicates {
    /// Forgets the suspects of a message that did not decode.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.suspects.clear();
    }

    /// The filter for the object of so many pairs whose node is at `head`.
    #[inline]
    pub(super) fn open(&mut self, head: u32, pairs: u32) -> Filter {
        let crowded = pairs > CROWDED;
        if crowded {
            self.suspects.push(Suspect::Object { head });
        }
        Filter { seen: 0, crowded }
    }

    /// Notes the key node at `key`, whose [`Node::word`] is `word`, of the object at `head`.
    #[inline]
    pub(super) fn key(&mut self, filter: &mut Filter, head: u32, key: u32, word: u64) {
        // Fibonacci hashing: the product's top bits depend on the fingerprint and the length.
        let class = 1 << (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
        if filter.seen & class != 0 && !filter.crowded {
            self.suspects.push(Suspect::Key { head, key });
        }
        filter.seen |= class;
    }

    /// Removes what has to go from the complete document that starts at `root` and reaches to
    /// the end of `nodes`.
    #[inline]
    pub(super) fn resolve(&mut self, bytes: &[u8], nodes: &mut Nodes, root: u32) {
        if self.suspects.is_empty() {
            return;
        }
        let Self { suspects, sorted } = self;
        let found = suspects.drain(..).fold(false, |found, suspect| {
            found
                || match suspect {
                    Suspect::Key { head, key } => repeats(bytes, nodes, head, key),
                    Suspect::Object { head } => any(bytes, nodes, head, sorted),
                }
        });
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
fn keys(nodes: &[Node], head: usize) -> impl Iterator<Item = usize> {
    let mut at = head + 1;
    (0..nodes[head].len()).map(move |_| {
        let key = at;
        at += 1 + index(nodes[key + 1].span());
        key
    })
}

fn repeats(bytes: &[u8], nodes: &[Node], head: u32, key: u32) -> bool {
    let key = key as usize;
    let sought = &nodes[key];
    keys(nodes, head as usize)
        .take_while(|other| *other < key)
        .map(|other| &nodes[other])
        .any(|other| other.word() == sought.word() && text(bytes, other) == text(bytes, sought))
}

fn any(bytes: &[u8], nodes: &[Node], head: u32, sorted: &mut Vec<(u64, u32)>) -> bool {
    let at = |key: u32| text(bytes, &nodes[key as usize]);
    sorted.clear();
    #[allow(clippy::cast_possible_truncation)] // a batch's nodes are counted in 32 bits
    sorted.extend(keys(nodes, head as usize).map(|key| (nodes[key].word(), key as u32)));
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
        for key in keys(document, head) {
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
