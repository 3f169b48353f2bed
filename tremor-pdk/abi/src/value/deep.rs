//! Operations on values of any depth whose stack usage is limited: dropping, copying and debug output.
//!
//! A program can build a value level by level, and so can a malicious plugin. Recursion over such a value would
//! overflow the stack, which ends the process. Therefore dropping and copying store the containers that they have not
//! finished in a list. Values with at most two levels of containers are processed recursively, without the list. Debug
//! output is recursive, but omits levels deeper than [`MAX_DEPTH`].

use std::{fmt, slice};

use super::{Array, IntoIter, Iter, Object, Str, Value};
use crate::document::MAX_DEPTH;

impl Value<'_> {
    fn is_container(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// Returns whether a child of the value is a container.
    fn holds_containers(&self) -> bool {
        match self {
            Self::Array(array) => array.iter().any(Self::is_container),
            Self::Object(object) => object.values().any(Self::is_container),
            _ => false,
        }
    }

    fn is_deep(&self) -> bool {
        match self {
            Self::Array(array) => array.iter().any(Self::holds_containers),
            Self::Object(object) => object.values().any(Self::holds_containers),
            _ => false,
        }
    }

    /// Returns an empty container of the same kind, with the capacity for as many children.
    fn like(&self) -> Value<'static> {
        match self {
            Self::Array(array) => Value::Array(Array::with_capacity(array.len())),
            Self::Object(object) => Value::Object(Object::with_capacity(object.len())),
            _ => Value::Null,
        }
    }
}

/// The remaining children of a container during an iteration.
enum Children<A, O> {
    None,
    Array(A),
    Object(O),
}

/// A value that is being copied, by cloning or by conversion to an owned value.
trait Copied<'to>: Sized {
    type Children;
    fn value(&self) -> &Value<'_>;
    /// Returns the copy, by recursion.
    fn copy(self) -> Value<'to>;
    fn children(self) -> Self::Children;
    /// Returns the next child and its key; the key is empty in an array.
    fn next(children: &mut Self::Children) -> Option<(Str<'to>, Self)>;
}

/// Copies a deep value without recursion.
fn copy<'to, V: Copied<'to>>(value: V) -> Value<'to> {
    /// A container that is partly copied, and its key in the enclosing container.
    struct Open<'to, C> {
        key: Str<'to>,
        copy: Value<'to>,
        left: C,
    }
    let open = |key, value: V| Open { key, copy: value.value().like(), left: value.children() };
    let mut enclosing = Vec::new();
    let mut now = open(Str::default(), value);
    loop {
        let (key, done) = match V::next(&mut now.left) {
            Some((key, child)) if child.value().holds_containers() => {
                enclosing.push(std::mem::replace(&mut now, open(key, child)));
                continue;
            }
            Some((key, child)) => (key, child.copy()),
            None => {
                let Some(outer) = enclosing.pop() else { return now.copy };
                let inner = std::mem::replace(&mut now, outer);
                (inner.key, inner.copy)
            }
        };
        match &mut now.copy {
            Value::Array(array) => array.push(done),
            Value::Object(object) => object.insert_nocheck(key, done),
            _ => {}
        }
    }
}

impl<'a, 'v> Copied<'v> for &'a Value<'v> {
    type Children = Children<slice::Iter<'a, Value<'v>>, Iter<'a, 'v>>;

    fn value(&self) -> &Value<'_> {
        self
    }

    fn copy(self) -> Value<'v> {
        self.clone()
    }

    fn children(self) -> Self::Children {
        match self {
            Value::Array(array) => Children::Array(array.iter()),
            Value::Object(object) => Children::Object(object.iter()),
            _ => Children::None,
        }
    }

    fn next(children: &mut Self::Children) -> Option<(Str<'v>, Self)> {
        match children {
            Children::None => None,
            Children::Array(left) => left.next().map(|value| (Str::default(), value)),
            Children::Object(left) => left.next().map(|(key, value)| (key.clone(), value)),
        }
    }
}

impl Clone for Value<'_> {
    fn clone(&self) -> Self {
        match self {
            Self::Null => Self::Null,
            Self::Bool(value) => Self::Bool(*value),
            Self::I64(value) => Self::I64(*value),
            Self::U64(value) => Self::U64(*value),
            Self::F64(value) => Self::F64(*value),
            Self::Number(value) => Self::Number(value.clone()),
            Self::String(value) => Self::String(value.clone()),
            Self::Bytes(value) => Self::Bytes(value.clone()),
            Self::Array(_) | Self::Object(_) if self.is_deep() => copy(self),
            Self::Array(value) => Self::Array(value.clone()),
            Self::Object(value) => Self::Object(value.clone()),
        }
    }
}

impl<'v> Copied<'static> for Value<'v> {
    type Children = Children<<Array<'v> as IntoIterator>::IntoIter, IntoIter<'v>>;

    fn value(&self) -> &Value<'_> {
        self
    }

    fn copy(self) -> Value<'static> {
        self.into_static()
    }

    fn children(self) -> Self::Children {
        match self {
            Value::Array(array) => Children::Array(array.into_iter()),
            Value::Object(object) => Children::Object(object.into_iter()),
            _ => Children::None,
        }
    }

    fn next(children: &mut Self::Children) -> Option<(Str<'static>, Self)> {
        match children {
            Children::None => None,
            Children::Array(left) => left.next().map(|value| (Str::default(), value)),
            Children::Object(left) => left.next().map(|(key, value)| (key.into_static(), value)),
        }
    }
}

impl Value<'_> {
    /// Copies all borrowed data, and returns the owned value.
    pub fn into_static(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::I64(value) => Value::I64(value),
            Value::U64(value) => Value::U64(value),
            Value::F64(value) => Value::F64(value),
            Value::Number(value) => Value::Number(value.into_static()),
            Value::String(value) => Value::String(value.into_static()),
            Value::Bytes(value) => Value::Bytes(value.into_static()),
            deep if deep.is_deep() => copy(deep),
            Value::Array(value) => Value::Array(value.into_static()),
            Value::Object(value) => Value::Object(value.into_static()),
        }
    }
}

/// Removes the children that are too deep for recursive dropping from `values`, which are about to be dropped, and
/// drops these children without recursion.
pub(super) fn dismantle<'a, 'v: 'a>(values: impl Iterator<Item = &'a mut Value<'v>>) {
    let mut taken = Vec::new();
    take_out(values, &mut taken);
    while let Some(mut value) = taken.pop() {
        match &mut value {
            Value::Array(array) => take_out(array.iter_mut(), &mut taken),
            Value::Object(object) => take_out(object.iter_mut().map(|entry| entry.1), &mut taken),
            _ => {}
        }
    }
}

fn take_out<'a, 'v: 'a>(
    values: impl Iterator<Item = &'a mut Value<'v>>,
    taken: &mut Vec<Value<'v>>,
) {
    taken.extend(values.filter(|value| value.holds_containers()).map(Value::take));
}

/// Writes the text of the derived implementation, but arrays and objects without parentheses, as in `Array[I64(1)]`.
/// Arrays and objects that are nested deeper than [`MAX_DEPTH`] levels are written as `…`.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(self, MAX_DEPTH).fmt(f)
    }
}

/// A value, and the number of its levels that are written.
struct Shown<'a>(&'a Value<'a>, usize);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(value, depth) = self;
        match value {
            Value::Null => f.write_str("Null"),
            Value::Bool(value) => write!(f, "Bool({value})"),
            Value::I64(value) => write!(f, "I64({value})"),
            Value::U64(value) => write!(f, "U64({value})"),
            Value::F64(value) => write!(f, "F64({value:?})"),
            Value::Number(value) => write!(f, "Number({value})"),
            Value::String(value) => write!(f, "String({value:?})"),
            Value::Bytes(value) => write!(f, "Bytes({value:?})"),
            Value::Array(_) | Value::Object(_) if depth == 0 => f.write_str("…"),
            Value::Array(array) => {
                f.write_str("Array")?;
                f.debug_list().entries(array.iter().map(|value| Shown(value, depth - 1))).finish()
            }
            Value::Object(object) => {
                let shown = |(key, value)| (key, Shown(value, depth - 1));
                f.write_str("Object")?;
                f.debug_map().entries(object.iter().map(shown)).finish()
            }
        }
    }
}
