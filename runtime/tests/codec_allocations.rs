//! Test that decoding and encoding JSON makes no allocations in the steady state, neither for each event nor for each
//! batch.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tremor_runtime::codec::{Bytes, Nodes, Span, json};

/// Allocator that counts the allocations of the current thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // Ignore the error: a thread that is ending has no counter any more, and is not the measured thread.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: all methods forward to the system allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `alloc`, which is the same for the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` comes from the system allocator, with this layout, because `alloc` forwards to it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `pointer` comes from the system allocator, with this layout, because `alloc` forwards to it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns event number `n`, with escapes in every third event, floats, and nested containers.
fn event(n: usize) -> String {
    let text =
        if n.is_multiple_of(3) { "line\\nand \\\"quotes\\\"" } else { "a line of plain text" };
    format!(
        "{{\"id\":{n},\"text\":\"{text}\",\"ratio\":0.{n}5,\"tags\":[\"a\",\"b\",{{\"c\":null}}],\
         \"wide\":{{{}}}}}",
        (0..40).map(|key| format!("\"key{key}\":{key}")).collect::<Vec<_>>().join(",")
    )
}

#[test]
fn json_to_json_over_batches_of_100_allocates_nothing() {
    let events: Vec<String> = (100..200).map(event).collect();
    let mut decoder = json::Decoder::new(json::DecodeOptions::default());
    let mut encoder = json::Encoder::default();
    let (mut bytes, mut nodes, mut out) = (Bytes::new(), Nodes::new(), Bytes::new());
    let mut spans = Vec::with_capacity(events.len());
    let mut batch = || {
        bytes.clear();
        nodes.clear();
        out.clear();
        spans.clear();
        for event in &events {
            let (start, len) = (bytes.len(), event.len());
            bytes.extend_from_copy_slice(event.as_bytes());
            let number = |n: usize| u32::try_from(n).expect("a small batch");
            spans.push(Span { start: number(start), len: number(len) });
        }
        for span in &spans {
            let root = decoder.decode(&mut bytes, *span, &mut nodes).expect("JSON");
            encoder.document(&bytes, &nodes, root, &mut out).expect("a document");
        }
    };
    batch();
    batch();
    let before = ALLOCATIONS.get();
    for _ in 0..10 {
        batch();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    let mut length = 0;
    for event in &events {
        assert!(out[length..].starts_with(event.as_bytes()));
        length += event.len();
    }
}
