//! Resolution of duplicate keys: the last value of a key takes the position of the first value.

use std::collections::{HashMap, hash_map::Entry};

use abi_stable::std_types::RVec;

use super::{Node, NodeKind};

/// A Bloom filter that detects whether a key may have occurred before.
///
/// The filter has 256 bits: of objects with 13 different keys, one in four has a false positive. With 64 bits, seven in
/// ten would have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter([u64; 4]);

impl KeyFilter {
    /// Creates an empty filter.
    #[inline]
    pub const fn new() -> Self {
        Self([0; 4])
    }

    /// Adds a key by its [`Node::word`]. Returns whether the key may have been added before. If the result is `false`,
    /// the key was certainly not added before.
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

/// Maximum number of pairs of an object whose keys are checked without a hash map.
const SMALL: usize = 64;

/// Resolves duplicate keys in the object that begins at the node `head` and ends with the last of `nodes`. The node
/// `head` must contain the number of pairs. The call sets the number of pairs and the span of `head`.
///
/// Call this function once for each object that is written, after its values are complete. If there are no duplicates,
/// the call reads the nodes of the keys once and allocates nothing.
pub fn resolve_duplicates(bytes: &[u8], nodes: &mut RVec<Node>, head: usize) {
    let Some(len) = nodes.get(head).map(Node::len) else { return };
    if (len as usize) > SMALL || repeats(bytes, nodes, head) {
        rewrite(bytes, nodes, head);
    } else {
        nodes[head] = Node::object(len, (nodes.len() - head) as u64);
    }
}

/// Returns the positions of the key nodes after `head`.
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

/// Maximum number of keys that are compared with each other. For more keys, a [`KeyFilter`] is used.
const FEW: usize = 8;

/// Returns whether a key occurs twice, for small objects.
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

/// Keeps one pair for each key.
fn rewrite(bytes: &[u8], nodes: &mut RVec<Node>, head: usize) {
    let mut pairs: Vec<usize> = Vec::new();
    let mut positions: HashMap<&[u8], usize> = HashMap::new();
    for key in keys(nodes, head) {
        match positions.entry(text(bytes, nodes[key])) {
            Entry::Occupied(position) => pairs[*position.get()] = key,
            Entry::Vacant(position) => {
                position.insert(pairs.len());
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
    #[allow(clippy::cast_possible_truncation)] // not more pairs than before
    let len = pairs.len() as u32;
    nodes[head] = Node::object(len, (nodes.len() - head) as u64);
}
