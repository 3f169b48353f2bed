//! Code that the compiler must reject: every view borrows from its batch, so that no code can keep a view of memory
//! that was freed, moved or returned to a pool.
//!
//! Each test has two forms, one that is rejected and one that compiles. The tests are documentation tests, because only
//! these can expect a compiler error. They do not appear in the documentation.

/// Common beginning of every test.
macro_rules! beginning {
    () => {
        r#"#![allow(unused)]
        use std::collections::HashMap;
        use tremor_abi::{batch::{Batch, HostBatch, Payload, Pool}, literal, value::{Value, from_ref}};
        fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
        let mut batch = Batch::new();
        batch.push(&literal!({ "level": "warn", "tags": ["a"] })).unwrap();
        batch.push_message(b"raw");
        "#
    };
}

macro_rules! refused {
    ($(
        $(#[$what:meta])*
        $name:ident, $error:literal: { $($refused:tt)* } but not { $($accepted:tt)* }
    )*) => {$(
        $(#[$what])*
        #[doc = concat!(
            "\n```compile_fail,", $error, "\n", beginning!(), stringify!($($refused)*), "\n```",
        )]
        #[doc = concat!("```\n", beginning!(), stringify!($($accepted)*), "\n```")]
        mod $name {}
    )*};
}

refused! {
    /// A view cannot outlive its batch.
    view, "E0505": {
        let view = batch.first().unwrap().value();
        drop(batch);
        assert!(view.is_some());
    } but not {
        let view = batch.first().unwrap().value();
        assert!(view.is_some());
        drop(batch);
    }

    /// Text that was read through a view cannot outlive the batch.
    text, "E0597": {
        let kept;
        {
            let batch = batch;
            kept = batch.first().unwrap().value().and_then(|value| value.get("level")?.as_str());
        }
        assert_eq!(kept, Some("warn"));
    } but not {
        let kept;
        {
            let batch = batch;
            let text = batch.first().unwrap().value().and_then(|value| value.get("level")?.as_str());
            kept = text.map(str::to_owned);
        }
        assert_eq!(kept.as_deref(), Some("warn"));
    }

    /// An array, an object, or an iterator over one of them cannot outlive the batch.
    elements, "E0505": {
        let tags = batch.first().unwrap().value().and_then(|value| value.get("tags")?.as_array());
        let mut tags = tags.unwrap().iter();
        drop(batch);
        assert_eq!(tags.next().and_then(|tag| tag.as_str()), Some("a"));
    } but not {
        let tags = batch.first().unwrap().value().and_then(|value| value.get("tags")?.as_array());
        let mut tags = tags.unwrap().iter();
        assert_eq!(tags.next().and_then(|tag| tag.as_str()), Some("a"));
        drop(batch);
    }

    /// The bytes of a message, the bytes it was decoded from, its origin and its metadata cannot outlive the batch.
    bytes, "E0505": {
        let event = batch.get(1).unwrap();
        let (raw, original) = (event.raw(), event.original());
        let (origin, metadata) = (event.origin(), event.metadata());
        drop(batch);
        assert!(raw == Some(original) && origin.is_none() && metadata.is_none());
    } but not {
        let event = batch.get(1).unwrap();
        let (raw, original) = (event.raw(), event.original());
        let (origin, metadata) = (event.origin(), event.metadata());
        assert!(raw == Some(original) && origin.is_none() && metadata.is_none());
        drop(batch);
    }

    /// A value that borrows its text cannot outlive the batch; a value that owns its text can.
    borrowed_value, "E0505": {
        let value = batch.first().unwrap().value().unwrap().to_borrowed();
        drop(batch);
        assert_eq!(value.get("level"), Some(&Value::from("warn")));
    } but not {
        let value = batch.first().unwrap().value().unwrap().to_value();
        drop(batch);
        assert_eq!(value.get("level"), Some(&Value::from("warn")));
    }

    /// Data that was deserialised without a copy cannot outlive the batch.
    deserialised, "E0505": {
        let view = batch.first().unwrap().value().unwrap();
        let level: HashMap<&str, Value<'_>> = from_ref(view).unwrap();
        drop(batch);
        assert!(level.contains_key("level"));
    } but not {
        let view = batch.first().unwrap().value().unwrap();
        let level: HashMap<String, Value<'_>> = from_ref(view).unwrap();
        drop(batch);
        assert!(level.contains_key("level"));
    }

    /// While data is borrowed, no event can be added, because that might move the buffers.
    push, "E0502": {
        let view = batch.first().unwrap().value();
        batch.push_message(b"more");
        assert!(view.is_some());
    } but not {
        batch.push_message(b"more");
        let view = batch.first().unwrap().value();
        assert!(view.is_some());
    }

    /// While data is borrowed, no event can be removed from the batch. A clone can be changed.
    retain, "E0502": {
        let view = batch.first().unwrap().value();
        batch.retain(|_| false);
        assert!(view.is_some());
    } but not {
        let mut clone = batch.clone();
        let view = batch.first().unwrap().value();
        clone.retain(|_| false);
        assert!(view.is_some());
    }

    /// While data is borrowed, no event of the batch can be edited.
    edit, "E0502": {
        let view = batch.first().unwrap().value();
        assert!(batch.get_mut(1).is_some());
        assert!(view.is_some());
    } but not {
        let mut clone = batch.clone();
        let view = batch.first().unwrap().value();
        assert!(clone.get_mut(1).is_some());
        assert!(view.is_some());
    }

    /// Two events cannot be edited at the same time.
    two_edits, "E0499": {
        let first = batch.get_mut(0);
        let second = batch.get_mut(0);
        assert!(first.is_some() && second.is_some());
    } but not {
        let first = batch.get_mut(0).is_some();
        let second = batch.get_mut(0);
        assert!(first && second.is_some());
    }

    /// A task cannot borrow a batch that it does not own. It has to own the batch or a clone.
    task, "E0597": {
        let level = batch.first().unwrap().value();
        spawn(async move { assert!(level.is_some()) });
    } but not {
        spawn(async move { assert!(batch.first().unwrap().value().is_some()) });
    }

    /// A thread cannot borrow a batch that it does not own. It has to own the batch or a clone.
    thread, "E0521": {
        fn deliver(batch: &Batch) {
            let level = batch.first().unwrap().value();
            std::thread::spawn(move || assert!(level.is_some()));
        }
        deliver(&batch);
    } but not {
        fn deliver(batch: &Batch) {
            let batch = batch.clone();
            std::thread::spawn(move || assert!(batch.first().unwrap().value().is_some()));
        }
        deliver(&batch);
    }

    /// Metadata cannot contain borrowed text, because metadata has to live as long as any clone of the batch.
    metadata, "E0597": {
        let text = String::from("here");
        batch.get_mut(0).unwrap().set_metadata(Value::from(&*text));
    } but not {
        let text = String::from("here");
        batch.get_mut(0).unwrap().set_metadata(Value::from(text));
    }

    /// The payload in a call of `cut` cannot be used after `emit`, because the payload lies in the buffer that `emit`
    /// writes to.
    cut, "E0502": {
        batch.cut(|cutter| {
            let payload = cutter.payload();
            cutter.emit(0..payload.len());
            assert_eq!(payload.first(), cutter.payload().first());
        });
    } but not {
        batch.cut(|cutter| {
            let payload = cutter.payload();
            assert_eq!(payload.first(), cutter.payload().first());
            let len = payload.len();
            cutter.emit(0..len);
        });
    }

    /// The payload in a call of `cut` cannot outlive the call.
    cut_payload, "E0521": {
        let mut kept: Option<&[u8]> = None;
        batch.cut(|cutter| kept = Some(cutter.payload()));
        assert!(kept.is_some());
    } but not {
        let mut kept: Option<Vec<u8>> = None;
        batch.cut(|cutter| kept = Some(cutter.payload().to_vec()));
        assert!(kept.is_some());
    }

    /// The payload that an encoder receives cannot outlive the call.
    encoded_payload, "E0521": {
        let mut kept: Option<Payload<'_>> = None;
        batch.encode_with(&Pool::new(1), |payload, _| {
            kept = Some(payload);
            Ok(())
        });
        assert!(kept.is_some());
    } but not {
        let mut kept: Option<bool> = None;
        batch.encode_with(&Pool::new(1), |payload, _| {
            kept = Some(matches!(payload, Payload::Value(_)));
            Ok(())
        });
        assert!(kept.is_some());
    }

    /// The space that a source reads into cannot outlive the call.
    read_space, "E0521": {
        let mut kept: Option<&mut [u8]> = None;
        batch.stream(0).read_fragment(8, |space| {
            kept = Some(space);
            Ok::<usize, ()>(0)
        });
        assert!(kept.is_some());
    } but not {
        let mut kept: Option<usize> = None;
        batch.stream(0).read_fragment(8, |space| {
            kept = Some(space.len());
            Ok::<usize, ()>(0)
        });
        assert_eq!(kept, Some(8));
    }
}
