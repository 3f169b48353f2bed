//! Iteration over all levels of a value, and the estimate of its memory.

use super::{Array, Iter, Object, Str, Value};

/// Estimate of the bytes that the allocator adds to an allocation.
const ALLOCATION: usize = 16;

/// The remaining children of a container during an iteration.
enum Children<'a, 'v> {
    Array(std::slice::Iter<'a, Value<'v>>),
    Object(Iter<'a, 'v>),
}

impl<'a, 'v> Children<'a, 'v> {
    /// Returns the children of `value`, or `None` if it is empty or not a container.
    fn of(value: &'a Value<'v>) -> Option<Self> {
        match value {
            Value::Array(array) if !array.is_empty() => Some(Self::Array(array.iter())),
            Value::Object(object) if !object.is_empty() => Some(Self::Object(object.iter())),
            _ => None,
        }
    }

    fn next(&mut self) -> Option<(Option<&'a Str<'v>>, &'a Value<'v>)> {
        match self {
            Self::Array(left) => left.next().map(|value| (None, value)),
            Self::Object(left) => left.next().map(|(key, value)| (Some(key), value)),
        }
    }
}

impl<'v> Value<'v> {
    /// Calls `visit` for this value and every value in it, at any depth. The first argument is the key if the value
    /// belongs to an object. The iteration does not recurse, so the value may have any depth.
    pub(crate) fn walk<'a>(&'a self, mut visit: impl FnMut(Option<&'a Str<'v>>, &'a Self)) {
        visit(None, self);
        let Some(mut now) = Children::of(self) else { return };
        let mut enclosing = Vec::new();
        loop {
            while let Some((key, child)) = now.next() {
                visit(key, child);
                if let Some(inner) = Children::of(child) {
                    enclosing.push(std::mem::replace(&mut now, inner));
                }
            }
            match enclosing.pop() {
                Some(outer) => now = outer,
                None => return,
            }
        }
    }

    /// Returns an estimate of the memory that the value takes, in bytes, including everything that it owns.
    pub(crate) fn weight(&self) -> usize {
        let mut weight = 0;
        self.walk(|key, value| {
            weight += key.map_or(0, |key| size_of::<Str<'_>>() + owned(key.len()));
            weight += size_of::<Self>() + value.heap();
        });
        weight
    }

    /// Returns the bytes that this value allocates, without its children.
    fn heap(&self) -> usize {
        match self {
            Self::String(text) => owned(text.len()),
            Self::Number(number) => owned(number.as_str().len()),
            Self::Bytes(data) => owned(data.as_slice().len()),
            Self::Array(_) => Array::HEAP + 2 * ALLOCATION,
            Self::Object(_) => Object::HEAP + 2 * ALLOCATION,
            _ => 0,
        }
    }
}

/// Returns the bytes that owned text or data of `len` bytes allocates. Borrowed data is counted too.
fn owned(len: usize) -> usize {
    if len == 0 { 0 } else { len + ALLOCATION }
}

#[cfg(test)]
mod tests {
    use super::Value;
    use crate::literal;

    #[test]
    fn every_value_is_visited_once_with_its_key() {
        let value = literal!({ "a": [1, [2]], "b": {}, "c": { "d": "e" } });
        let mut seen = Vec::new();
        value.walk(|key, value| seen.push(format!("{}={value}", key.map_or("", |key| key))));
        assert_eq!(
            seen[1..],
            ["a=[1,[2]]", "=1", "=[2]", "=2", "b={}", "c={\"d\":\"e\"}", "d=\"e\""]
        );
    }

    #[test]
    fn value_of_any_depth_is_weighed() {
        let mut deep = Value::from("x".repeat(1_000));
        for _ in 0..200_000 {
            deep = literal!([deep]);
        }
        assert!(deep.weight() > 200_000 * 64);
    }

    #[test]
    fn weight_includes_allocations_of_text_and_containers() {
        assert_eq!(Value::from(1).weight(), 32);
        assert!(literal!({ "key": "some text" }).weight() > 32 + 56 + 3 + 9);
        let many: Value<'_> = vec![Value::from(0); 1_000].into_iter().collect::<Vec<_>>().into();
        assert!((32_000..33_000).contains(&many.weight()), "{}", many.weight());
    }
}
