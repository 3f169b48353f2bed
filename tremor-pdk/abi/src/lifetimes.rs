//! How long what is read from a batch lives, and what the compiler refuses.
//!
//! Everything that a batch shows borrows from it: there is no way to keep a view of memory that was
//! freed, moved or given back to a pool. This module has nothing but examples of that. Each comes in
//! two forms, one that is refused and one that is not; they are tests.
//!
//! A view cannot outlive its batch:
//!
//! ```compile_fail,E0505
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]);
//! drop(batch);
//! assert!(view.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]);
//! assert!(view.is_some());
//! drop(batch);
//! ```
//!
//! Nor can text that was read through one:
//!
//! ```compile_fail,E0597
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let kept;
//! {
//!     let batch = batch;
//!     kept = batch.value(&batch.events()[0]).and_then(|value| value.get("level")?.as_str());
//! }
//! assert_eq!(kept, Some("warn"));
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let kept;
//! {
//!     let batch = batch;
//!     let text = batch.value(&batch.events()[0]).and_then(|value| value.get("level")?.as_str());
//!     kept = text.map(str::to_owned);
//! }
//! assert_eq!(kept.as_deref(), Some("warn"));
//! ```
//!
//! Nor an array, an object or what iterates over one:
//!
//! ```compile_fail,E0505
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let tags = batch.value(&batch.events()[0]).and_then(|value| value.get("tags")?.as_array());
//! let mut tags = tags.unwrap().iter();
//! drop(batch);
//! assert_eq!(tags.next().and_then(|tag| tag.as_str()), Some("a"));
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let tags = batch.value(&batch.events()[0]).and_then(|value| value.get("tags")?.as_array());
//! let mut tags = tags.unwrap().iter();
//! assert_eq!(tags.next().and_then(|tag| tag.as_str()), Some("a"));
//! drop(batch);
//! ```
//!
//! Nor the bytes of a message, the bytes it was decoded from, its origin or its metadata:
//!
//! ```compile_fail,E0505
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let event = batch.events()[1];
//! let (raw, original) = (batch.raw(&event), batch.original(&event));
//! let (origin, metadata) = (batch.origin(&event), batch.metadata(&event));
//! drop(batch);
//! assert!(raw == Some(original) && origin.is_none() && metadata.is_none());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let event = batch.events()[1];
//! let (raw, original) = (batch.raw(&event), batch.original(&event));
//! let (origin, metadata) = (batch.origin(&event), batch.metadata(&event));
//! assert!(raw == Some(original) && origin.is_none() && metadata.is_none());
//! drop(batch);
//! ```
//!
//! Nor a value that borrows its text, as opposed to one that owns it:
//!
//! ```compile_fail,E0505
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let value = batch.value(&batch.events()[0]).unwrap().to_borrowed();
//! drop(batch);
//! assert_eq!(value.get("level"), Some(&Value::from("warn")));
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let value = batch.value(&batch.events()[0]).unwrap().to_value();
//! drop(batch);
//! assert_eq!(value.get("level"), Some(&Value::from("warn")));
//! ```
//!
//! Nor anything that was deserialised without a copy:
//!
//! ```compile_fail,E0505
//! # #![allow(unused)]
//! # use std::collections::HashMap;
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]).unwrap();
//! let level: HashMap<&str, Value<'_>> = from_ref(view).unwrap();
//! drop(batch);
//! assert!(level.contains_key("level"));
//! ```
//! ```
//! # #![allow(unused)]
//! # use std::collections::HashMap;
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]).unwrap();
//! let level: HashMap<String, Value<'_>> = from_ref(view).unwrap();
//! drop(batch);
//! assert!(level.contains_key("level"));
//! ```
//!
//! While something is borrowed, nothing can be added, which might move the buffers:
//!
//! ```compile_fail,E0502
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]);
//! batch.push_message(0, b"more");
//! assert!(view.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! batch.push_message(0, b"more");
//! let view = batch.value(&batch.events()[0]);
//! assert!(view.is_some());
//! ```
//!
//! Nor taken out or edited, even in another event. A clone can be:
//!
//! ```compile_fail,E0502
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]);
//! batch.retain(|_, _| false);
//! assert!(view.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut clone = batch.clone();
//! let view = batch.value(&batch.events()[0]);
//! clone.retain(|_, _| false);
//! assert!(view.is_some());
//! ```
//!
//! ```compile_fail,E0502
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let view = batch.value(&batch.events()[0]);
//! assert!(batch.value_mut(1).is_none());
//! assert!(view.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut clone = batch.clone();
//! let view = batch.value(&batch.events()[0]);
//! assert!(clone.value_mut(1).is_none());
//! assert!(view.is_some());
//! ```
//!
//! Nor can the part of a batch that is edited be edited twice at once:
//!
//! ```compile_fail,E0499
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let first = batch.value_mut(0);
//! let second = batch.value_mut(0);
//! assert!(first.is_some() && second.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let first = batch.value_mut(0).is_some();
//! let second = batch.value_mut(0);
//! assert!(first && second.is_some());
//! ```
//!
//! What runs for itself, a thread or a task, takes the batch along or a clone of it, and borrows there:
//!
//! ```compile_fail,E0597
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let level = batch.value(&batch.events()[0]);
//! spawn(async move { assert!(level.is_some()) });
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! spawn(async move { assert!(batch.value(&batch.events()[0]).is_some()) });
//! ```
//!
//! ```compile_fail,E0521
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! fn deliver(batch: &Batch) {
//!     let level = batch.value(&batch.events()[0]);
//!     std::thread::spawn(move || assert!(level.is_some()));
//! }
//! deliver(&batch);
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! fn deliver(batch: &Batch) {
//!     let batch = batch.clone();
//!     std::thread::spawn(move || assert!(batch.value(&batch.events()[0]).is_some()));
//! }
//! deliver(&batch);
//! ```
//!
//! Metadata is owned, so that it lives as long as any clone of the batch:
//!
//! ```compile_fail,E0597
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let text = String::from("here");
//! batch.set_metadata(Value::from(&*text));
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let text = String::from("here");
//! batch.set_metadata(Value::from(text));
//! ```
//!
//! The payload that a preprocessor cuts lies in the buffer that it writes to:
//!
//! ```compile_fail,E0502
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! batch.cut(|cutter| {
//!     let payload = cutter.payload();
//!     cutter.emit(0..payload.len());
//!     assert_eq!(payload.first(), cutter.payload().first());
//! });
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! batch.cut(|cutter| {
//!     let payload = cutter.payload();
//!     assert_eq!(payload.first(), cutter.payload().first());
//!     let len = payload.len();
//!     cutter.emit(0..len);
//! });
//! ```
//!
//! And it stays there, as does what an encoder is given, and the space that a source reads into:
//!
//! ```compile_fail,E0521
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<&[u8]> = None;
//! batch.cut(|cutter| kept = Some(cutter.payload()));
//! assert!(kept.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<Vec<u8>> = None;
//! batch.cut(|cutter| kept = Some(cutter.payload().to_vec()));
//! assert!(kept.is_some());
//! ```
//!
//! ```compile_fail,E0521
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<Payload<'_>> = None;
//! batch.encode_with(&Pool::new(1), |payload, _| {
//!     kept = Some(payload);
//!     Ok(())
//! });
//! assert!(kept.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<bool> = None;
//! batch.encode_with(&Pool::new(1), |payload, _| {
//!     kept = Some(matches!(payload, Payload::Value(_)));
//!     Ok(())
//! });
//! assert!(kept.is_some());
//! ```
//!
//! ```compile_fail,E0521
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<&mut [u8]> = None;
//! batch.read_fragment(0, 8, |space| {
//!     kept = Some(space);
//!     Ok::<usize, ()>(0)
//! });
//! assert!(kept.is_some());
//! ```
//! ```
//! # #![allow(unused)]
//! # use tremor_abi::{batch::{Batch, Payload, Pool}, literal, value::{Value, from_ref}};
//! # let mut batch = Batch::new();
//! # batch.push_value(0, &literal!({ "level": "warn", "tags": ["a"] })).unwrap();
//! # batch.push_message(0, b"raw");
//! let mut kept: Option<usize> = None;
//! batch.read_fragment(0, 8, |space| {
//!     kept = Some(space.len());
//!     Ok::<usize, ()>(0)
//! });
//! assert_eq!(kept, Some(8));
//! ```
