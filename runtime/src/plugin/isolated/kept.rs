//! Texts of processes that the interface of connectors needs for the lifetime of the program.

use std::{collections::HashSet, sync::Mutex};

use tremor_pdk::lock;

/// Returns a copy of a short text that is never freed. Copies of equal texts are the same, and their number is limited,
/// so that restarts do not leak memory.
pub(super) fn kept(text: &str) -> &'static str {
    const MOST: usize = 1_000;
    const LONGEST: usize = 100;
    static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut kept = lock(&KEPT);
    let kept = kept.get_or_insert_default();
    match kept.get(text) {
        Some(text) => text,
        None if kept.len() >= MOST || text.len() > LONGEST => "",
        None => {
            let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
            kept.insert(text);
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kept;

    #[test]
    fn equal_texts_are_kept_once_and_long_ones_not_at_all() {
        let (first, second) = (kept("max_in_flight"), kept(&String::from("max_in_flight")));
        assert!(std::ptr::eq(first, second), "two copies");
        assert_eq!((first, kept(&"x".repeat(101))), ("max_in_flight", ""));
    }
}
