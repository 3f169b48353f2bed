//! Edits as data: merging and patching.

use super::{IntoIter, NoSuchPlace, Object, Path, Str, Value};

/// One edit of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'v> {
    /// Puts a value somewhere, as [`Value::set_path`].
    Set(Path, Value<'v>),
    /// The same, unless there is something already.
    Default(Path, Value<'v>),
    /// Merges a value into what is there, as [`Value::merge`].
    Merge(Path, Value<'v>),
    /// Takes out what is there, if anything is.
    Remove(Path),
    /// Puts what is at the first path, if anything is, at the second as well.
    Copy(Path, Path),
    /// Takes out what is at the first path, if anything is, and puts it at the second. The way to
    /// the second is followed after the first is taken out.
    Move(Path, Path),
}

/// An object that is being merged, out of its place in the one around it, which is `key`.
struct Merging<'v> {
    key: Str<'v>,
    object: Object<'v>,
    patch: IntoIter<'v>,
}

impl<'v> Value<'v> {
    /// Merges `patch` into this value as RFC 7396 says: keys that are `null` in the patch are
    /// removed, objects are merged key by key, and everything else replaces what was there.
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
        let mut around = Vec::new();
        let mut now = open(Str::default(), Some(self), patch);
        loop {
            match now.patch.next() {
                Some((key, Value::Null)) => drop(now.object.remove(&key)),
                Some((key, Value::Object(patch))) => {
                    let inner = open(key.clone(), now.object.get_mut(&key), patch);
                    around.push(std::mem::replace(&mut now, inner));
                }
                Some((key, value)) => drop(now.object.insert(key, value)),
                None => {
                    let Some(outer) = around.pop() else { break };
                    let inner = std::mem::replace(&mut now, outer);
                    now.object.insert(inner.key, inner.object);
                }
            }
        }
        *self = Value::Object(now.object);
    }

    /// Applies changes one after the other. Where one fails, those before it stay done.
    pub fn patch(
        &mut self,
        changes: impl IntoIterator<Item = Change<'v>>,
    ) -> Result<(), NoSuchPlace> {
        changes.into_iter().try_for_each(|change| self.apply(change))
    }

    fn apply(&mut self, change: Change<'v>) -> Result<(), NoSuchPlace> {
        let set = match change {
            Change::Set(path, value) => Some((path, value)),
            Change::Default(path, value) => self.get_path(&path).is_none().then_some((path, value)),
            Change::Merge(path, changes) => {
                if let Some(place) = self.get_path_mut(&path) {
                    place.merge(changes);
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
    fn merging_follows_the_rfc() {
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
