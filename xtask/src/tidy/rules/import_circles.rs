//! Modules that lie side by side do not import each other in a circle: then one can be read, tested and
//! changed without the others. A module and those within it are one thing, and may.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};
use crate::tidy::tokens::Token;

/// Circles that are there for a reason: the folder, and its modules in order.
const ALLOWED: &[(&str, &[&str])] = &[
    // Two forms of one thing: either is read as a view of both, and made from the other.
    ("tremor-pdk/abi/src", &["document", "value"]),
];

/// The imports among the modules of one folder: from which to which, with a place.
type Imports = BTreeMap<String, BTreeMap<String, (String, usize)>>;

pub(super) fn imports_go_one_way(repository: &Repository) -> Vec<Violation> {
    let files: Vec<_> =
        repository.rust().filter_map(|file| Some((Module::of(file)?, file))).collect();
    let known: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
    let mut folders: BTreeMap<String, Imports> = BTreeMap::new();
    for (module, file) in &files {
        for (path, line) in paths(file) {
            let Some((folder, from, to)) = module.import(&path, &known) else { continue };
            let imports = folders.entry(folder).or_default();
            let place = (file.path.clone(), line);
            imports.entry(from).or_default().entry(to).or_insert(place);
        }
    }
    folders.iter().flat_map(|(folder, imports)| circles(folder, imports)).collect()
}

/// A module by its crate's `src` folder and its path within it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Module {
    root: String,
    path: Vec<String>,
}

impl Module {
    /// None for tests, and for what is no part of a crate.
    fn of(file: &File) -> Option<Self> {
        let (root, rest) = file.path.split_once("/src/")?;
        let mut path: Vec<_> =
            rest.strip_suffix(".rs")?.split('/').map(ToOwned::to_owned).collect();
        if path.iter().any(|name| name == "tests" || name == "bin") {
            return None;
        }
        if path.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
            path.pop();
        }
        Some(Self { root: format!("{root}/src"), path })
    }

    /// What an import by this path, as it is written in the module, means for the folder in which the
    /// ways of the two part: the folder, and the modules in it.
    fn import(&self, path: &[String], known: &BTreeSet<&Self>) -> Option<(String, String, String)> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let mut target = match path.first()?.as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [&self.path[..], &path[1..]].concat(),
            "super" => {
                let above = self.path.len().checked_sub(ups)?;
                [&self.path[..above], &path[ups..]].concat()
            }
            _ => return None,
        };
        let is_known = |path: &[String]| {
            known.contains(&Self { root: self.root.clone(), path: path.to_vec() })
        };
        while !target.is_empty() && !is_known(&target) {
            target.pop();
        }
        let common = self.path.iter().zip(&target).take_while(|(own, its)| own == its).count();
        let (from, to) = (self.path.get(common)?, target.get(common)?);
        let folder = [std::slice::from_ref(&self.root), &self.path[..common]].concat().join("/");
        Some((folder, from.clone(), to.clone()))
    }
}

/// The paths in a file that begin with `crate`, `self` or `super`, those in braces one by one.
fn paths(file: &File) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = file.tokens.get(at) {
        let starts = ["crate", "self", "super"].iter().any(|word| token.is(word));
        if starts && is_separator(&file.tokens, at + 1) && !file.is_test(token.line) {
            at = tree(&file.tokens, at, &mut Vec::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn is_separator(tokens: &[Token], at: usize) -> bool {
    tokens.get(at..at + 2).is_some_and(|pair| pair.iter().all(|token| token.is(":")))
}

/// Reads the tree of paths that starts at a token; gives the position after it.
fn tree(
    tokens: &[Token],
    mut at: usize,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let depth = path.len();
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            at += 1;
            while tokens.get(at).is_some_and(|token| !token.is("}")) {
                let next = tree(tokens, at, path, found);
                // What is no path, such as a comma.
                at = next.max(at + 1);
            }
            path.truncate(depth);
            return at + 1;
        }
        if !token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            path.truncate(depth);
            return at;
        }
        path.push(token.text.clone());
        if !is_separator(tokens, at + 1) {
            found.push((path.clone(), token.line));
            path.truncate(depth);
            return at + 1;
        }
        at += 3;
    }
    path.truncate(depth);
    at
}

/// The circles among the modules of one folder.
fn circles(folder: &str, imports: &Imports) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for start in imports.keys() {
        let members: Vec<_> = reached(imports, start)
            .into_iter()
            .filter(|other| reached(imports, other).contains(start.as_str()))
            .collect();
        if members.len() < 2
            || !seen.insert(members.clone())
            || ALLOWED.contains(&(folder, &members))
        {
            continue;
        }
        for from in &members {
            for (to, (path, line)) in imports.get(*from).into_iter().flatten() {
                if members.contains(&to.as_str()) {
                    let message = format!(
                        "in `{folder}`, `{from}` imports `{to}`, and that imports `{from}`, through \
                         others or itself: move what both need to a module of its own"
                    );
                    violations.push(Violation::at(path, *line, message));
                }
            }
        }
    }
    violations
}

/// What a module imports, directly or through others.
fn reached<'i>(imports: &'i Imports, start: &str) -> BTreeSet<&'i str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for to in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        imports_go_one_way(&Repository::of(files)).iter().map(|it| it.path.clone()).collect()
    }

    #[test]
    fn modules_that_import_each_other_through_a_third_are_found_in_their_folder() {
        let files = [
            ("a/src/lib.rs", "mod x; mod y;"),
            ("a/src/x/mod.rs", "mod inner;"),
            ("a/src/x/inner.rs", "use crate::{std_like, y::{self, deep::Thing}};"),
            ("a/src/y/mod.rs", "fn call() { super::z::call() }"),
            ("a/src/y/deep.rs", ""),
            ("a/src/z.rs", "use super::x::inner;"),
        ];
        assert_eq!(found(&files), ["a/src/x/inner.rs", "a/src/y/mod.rs", "a/src/z.rs"]);
    }

    #[test]
    fn a_module_and_what_is_within_it_may_import_each_other_and_tests_anything() {
        let files = [
            ("a/src/lib.rs", "use self::x::X;"),
            ("a/src/x/mod.rs", "use self::inner::Y; use crate::y::Y;"),
            ("a/src/x/inner.rs", "use super::X;"),
            ("a/src/y.rs", "struct Y;\n#[cfg(test)]\nmod tests {\n    use crate::x::X;\n}"),
            ("a/src/y/tests.rs", "use crate::x::X;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
