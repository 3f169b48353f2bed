//! Duplicate keys: the last value wins, in the place of the first.

use std::collections::{HashMap, hash_map::Entry};

use abi_stable::std_types::RVec;

use super::{Node, NodeKind};

/// Tells keys that may repeat from those that cannot, by the words of their nodes.
///
/// 256 bits: with 13 keys one object in four raises a false alarm, where 64 bits would raise one in
/// seven objects of ten.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter([u64; 4]);

impl KeyFilter {
    /// A filter that has seen nothing.
    #[inline]
    pub const fn new() -> Self {
        Self([0; 4])
    }

    /// Whether a key of this [`Node::word`] may have been seen before; no means no.
    #[inline]
    pub fn may_repeat(&mut self, word: u64) -> bool {
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let seen = &mut self.0[(hash >> 6) as usize];
        let bit = 1 << (hash & 63);
        let repeats = *seen & bit != 0;
        *seen |= bit;
        repeats
    }
}

/// Objects up to this size are checked in place, larger ones with a hash map.
const SMALL: usize = 64;

/// Resolves duplicate keys in the object whose head is the node `head` and whose last node is the
/// last of `nodes`; its number of pairs must stand in the head, its span need not. Number and span
/// are right afterwards.
///
/// Whoever writes an object calls this once its values are complete. Without duplicates it reads the
/// keys' nodes once and allocates nothing.
pub fn resolve_duplicates(bytes: &[u8], nodes: &mut RVec<Node>, head: usize) {
    let Some(len) = nodes.get(head).map(Node::len) else { return };
    if (len as usize) > SMALL || repeats(bytes, nodes, head) {
        rewrite(bytes, nodes, head);
    } else {
        nodes[head] = Node::object(len, (nodes.len() - head) as u64);
    }
}

/// The positions of the key nodes after `head`.
fn keys(nodes: &[Node], head: usize) -> impl Iterator<Item = usize> + '_ {
    let after = move |key: &usize| {
        let span = nodes.get(key + 1)?.span().max(1);
        key.checked_add(usize::try_from(span).ok()?)?.checked_add(1)
    };
    let pairs = nodes.get(head).map_or(0, |head| head.len() as usize);
    std::iter::successors(Some(head + 1), after).take(pairs).take_while(|key| *key < nodes.len())
}

fn text(bytes: &[u8], key: Node) -> &[u8] {
    key.data().and_then(|range| bytes.get(range)).unwrap_or_default()
}

/// The words of this many keys are compared with each other rather than filtered.
const FEW: usize = 8;

/// Whether a key occurs twice, for small objects.
#[inline]
fn repeats(bytes: &[u8], nodes: &[Node], head: usize) -> bool {
    if nodes[head].len() as usize > FEW {
        return repeats_of_many(bytes, nodes, head);
    }
    let mut words = [0; FEW];
    for (number, at) in keys(nodes, head).enumerate() {
        let word = nodes[at].word();
        if words[..number].contains(&word) {
            return repeats_of_many(bytes, nodes, head);
        }
        words[number] = word;
    }
    false
}

fn repeats_of_many(bytes: &[u8], nodes: &[Node], head: usize) -> bool {
    let mut filter = KeyFilter::new();
    keys(nodes, head).any(|at| {
        let key = nodes[at];
        filter.may_repeat(key.word())
            && keys(nodes, head).take_while(|earlier| *earlier < at).any(|earlier| {
                let earlier = nodes[earlier];
                earlier.word() == key.word() && text(bytes, earlier) == text(bytes, key)
            })
    })
}

/// Keeps one pair of each key.
fn rewrite(bytes: &[u8], nodes: &mut RVec<Node>, head: usize) {
    let mut pairs: Vec<usize> = Vec::new();
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    for key in keys(nodes, head) {
        match places.entry(text(bytes, nodes[key])) {
            Entry::Occupied(place) => pairs[*place.get()] = key,
            Entry::Vacant(place) => {
                place.insert(pairs.len());
                pairs.push(key);
            }
        }
    }
    if nodes[head].len() as usize != pairs.len() {
        let mut kept: Vec<Node> = Vec::with_capacity(nodes.len() - head);
        for key in &pairs {
            let span = nodes.get(key + 1).map_or(0, |value| value.span().max(1));
            let end = key.saturating_add(1).saturating_add(usize::try_from(span).unwrap_or(0));
            kept.extend_from_slice(nodes.get(*key..end).unwrap_or_default());
        }
        nodes.truncate(head + 1);
        nodes.extend_from_copy_slice(&kept);
    }
    debug_assert_eq!(nodes[head].kind(), NodeKind::OBJECT);
    #[allow(clippy::cast_possible_truncation)] // at most as many as before
    let len = pairs.len() as u32;
    nodes[head] = Node::object(len, (nodes.len() - head) as u64);
}
