//! Merging of values, and edits of values that are described as data.

use super::{IntoIter, Object, Path, PathMismatch, Str, Value};

/// An edit of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'v> {
    /// Sets the value at the path, as [`Value::set_path`] does.
    Set(Path, Value<'v>),
    /// Sets the value at the path unless a value exists there.
    Default(Path, Value<'v>),
    /// Merges a value into the value at the path, as [`Value::merge`] does.
    Merge(Path, Value<'v>),
    /// Removes the value at the path, if it exists.
    Remove(Path),
    /// Copies the value at the first path, if it exists, to the second path.
    Copy(Path, Path),
    /// Moves the value at the first path, if it exists, to the second path. The value is removed first, so that the
    /// second path refers to the remaining value.
    Move(Path, Path),
}

/// An object that is being merged. It was moved out of the enclosing object, in which its key is `key`.
struct Merging<'v> {
    key: Str<'v>,
    object: Object<'v>,
    patch: IntoIter<'v>,
}

impl<'v> Value<'v> {
    /// Merges `patch` into this value according to RFC 7396: keys that are `null` in the patch are removed, objects are
    /// merged key by key, and all other values replace the existing values.
    pub fn merge(&mut self, patch: Value<'v>) {
        let Value::Object(patch) = patch else {
            *self = patch;
            return;
        };
        let open = |key, value: Option<&mut Value<'v>>, patch: Object<'v>| {
            let object = match value.map(Value::take) {
                Some(Value::Object(object)) => object,
                _ => Object::new(),
            };
            Merging { key, object, patch: patch.into_iter() }
        };
        let mut enclosing = Vec::new();
        let mut now = open(Str::default(), Some(self), patch);
        loop {
            match now.patch.next() {
                Some((key, Value::Null)) => drop(now.object.remove(&key)),
                Some((key, Value::Object(patch))) => {
                    let inner = open(key.clone(), now.object.get_mut(&key), patch);
                    enclosing.push(std::mem::replace(&mut now, inner));
                }
                Some((key, value)) => drop(now.object.insert(key, value)),
                None => {
                    let Some(outer) = enclosing.pop() else { break };
                    let inner = std::mem::replace(&mut now, outer);
                    now.object.insert(inner.key, inner.object);
                }
            }
        }
        *self = Value::Object(now.object);
    }

    /// Applies changes one after the other. If a change fails, the changes before it remain applied.
    pub fn patch(
        &mut self,
        changes: impl IntoIterator<Item = Change<'v>>,
    ) -> Result<(), PathMismatch> {
        changes.into_iter().try_for_each(|change| self.apply(change))
    }

    fn apply(&mut self, change: Change<'v>) -> Result<(), PathMismatch> {
        let set = match change {
            Change::Set(path, value) => Some((path, value)),
            Change::Default(path, value) => self.get_path(&path).is_none().then_some((path, value)),
            Change::Merge(path, changes) => {
                if let Some(target) = self.get_path_mut(&path) {
                    target.merge(changes);
                    return Ok(());
                }
                let mut value = Value::Null;
                value.merge(changes);
                Some((path, value))
            }
            Change::Remove(path) => {
                self.remove_path(&path);
                None
            }
            Change::Copy(from, to) => self.get_path(&from).cloned().map(|value| (to, value)),
            Change::Move(from, to) => self.remove_path(&from).map(|value| (to, value)),
        };
        set.map_or(Ok(()), |(path, value)| self.set_path(&path, value).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn merging_follows_rfc_7396() {
        let cases = [
            (literal!({"a":"b"}), literal!({"a":"c"}), literal!({"a":"c"})),
            (literal!({"a":"b"}), literal!({"b":"c"}), literal!({"a":"b","b":"c"})),
            (literal!({"a":"b"}), literal!({ "a": null }), literal!({})),
            (literal!({"a":"b","b":"c"}), literal!({ "a": null }), literal!({"b":"c"})),
            (literal!({"a":["b"]}), literal!({"a":"c"}), literal!({"a":"c"})),
            (literal!({"a":"c"}), literal!({"a":["b"]}), literal!({"a":["b"]})),
            (
                literal!({"a":{"b":"c"}}),
                literal!({"a":{"b":"d","c":null}}),
                literal!({"a":{"b":"d"}}),
            ),
            (literal!({"a":[{"b":"c"}]}), literal!({"a":[1]}), literal!({"a":[1]})),
            (literal!(["a", "b"]), literal!(["c", "d"]), literal!(["c", "d"])),
            (literal!({"a":"b"}), literal!(["c"]), literal!(["c"])),
            (literal!({"a":"foo"}), literal!(null), literal!(null)),
            (literal!({"a":"foo"}), literal!("bar"), literal!("bar")),
            (literal!({ "e": null }), literal!({"a":1}), literal!({"e":null,"a":1})),
            (literal!([1, 2]), literal!({"a":"b","c":null}), literal!({"a":"b"})),
            (literal!({}), literal!({"a":{"bb":{"ccc":null}}}), literal!({"a":{"bb":{}}})),
        ];
        for (mut value, patch, expected) in cases {
            value.merge(patch);
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn changes_are_applied_in_order() {
        let path = |text: &str| text.parse::<Path>().expect("a path");
        let mut value = literal!({ "a": 1, "b": { "c": 2 }, "gone": 0 });
        let done = value.patch([
            Change::Set(path("a"), literal!(10)),
            Change::Default(path("a"), literal!(0)),
            Change::Default(path("d"), literal!(4)),
            Change::Merge(path("b"), literal!({ "c": null, "e": 5 })),
            Change::Remove(path("gone")),
            Change::Copy(path("a"), path("copy")),
            Change::Move(path("d"), path("b.d")),
            Change::Move(path("absent"), path("a")),
        ]);
        assert_eq!(done, Ok(()));
        assert_eq!(value, literal!({ "a": 10, "b": { "e": 5, "d": 4 }, "copy": 10 }));
        assert!(value.patch([Change::Set(path("a.x"), literal!(1))]).is_err());
    }
}
