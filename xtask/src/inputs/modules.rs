//! The modules of `xtask` that a step uses.

use std::collections::BTreeSet;

use super::Sources;

const FOLDER: &str = "xtask/src/";

/// Returns the files of these top-level modules, and of the top-level modules that they use.
pub(super) fn closure(sources: &Sources, modules: &[&str]) -> BTreeSet<String> {
    let mut open: Vec<_> = modules.iter().map(|it| (*it).to_owned()).collect();
    let mut seen = BTreeSet::new();
    let mut closure = BTreeSet::new();
    while let Some(module) = open.pop() {
        if !seen.insert(module.clone()) {
            continue;
        }
        let (file, folder) = (format!("{FOLDER}{module}.rs"), format!("{FOLDER}{module}/"));
        let is_own = |path: &&String| **path == file || path.starts_with(&folder);
        for path in sources.files.iter().filter(is_own) {
            open.extend(used(&sources.text(path)).map(str::to_owned));
            closure.insert(path.clone());
        }
    }
    closure
}

/// Returns the first segments of all paths that begin with `crate::`, also of paths in braces.
fn used(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).flat_map(|path| {
        let Some(list) = path.strip_prefix('{') else { return vec![word(path)] };
        let mut depth = 0_usize;
        let mut first = Vec::new();
        let mut is_first = true;
        for (at, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if is_first && character.is_alphabetic() => {
                    first.push(word(&list[at..]));
                    is_first = false;
                }
                _ => {}
            }
        }
        first
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn modules_are_the_first_segments_of_paths() {
        let text = "use crate::a::b; use crate::{\n    c::{d, e}, f,\n    g_h::i};\nlet x = crate::k::l();";
        assert_eq!(used(text).collect::<Vec<_>>(), ["a", "c", "f", "g_h", "k"]);
    }
}
