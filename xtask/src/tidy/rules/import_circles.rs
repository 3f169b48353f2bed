//! Sibling modules do not import each other in a circle, so that each can be read, tested and changed without the
//! others. A module and its submodules may import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};
use crate::tidy::tokens::Token;

/// The `src` folder of a crate, followed by the path of a module within it.
type Module = Vec<String>;
/// The imports among the modules of one folder: pairs of the importing and the imported module, each with the file and
/// line of the first import.
type Imports = BTreeMap<(String, String), (String, usize)>;

pub(super) fn imports_go_one_way(repository: &Repository) -> Vec<Violation> {
    let files: Vec<_> = repository.rust().filter_map(|file| Some((module(file)?, file))).collect();
    let known: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
    let mut folders: BTreeMap<String, Imports> = BTreeMap::new();
    for (module, file) in &files {
        for (path, line) in paths(file) {
            let Some([folder, from, to]) = import(module, &path, &known) else { continue };
            let imports = folders.entry(folder).or_default();
            imports.entry((from, to)).or_insert_with(|| (file.path.clone(), line));
        }
    }
    folders.iter().flat_map(|(folder, imports)| circles(folder, imports)).collect()
}

/// Returns the module in a file; `None` for tests and files outside of `src` folders.
fn module(file: &File) -> Option<Module> {
    let (root, path) = file.path.strip_suffix(".rs")?.split_once("/src/")?;
    let mut module = vec![format!("{root}/src")];
    module.extend(path.split('/').map(ToOwned::to_owned));
    if ["lib", "main", "mod"].iter().any(|name| module.ends_with(&[(*name).to_owned()])) {
        module.pop();
    }
    let is_for_tests = module.iter().any(|name| name == "tests" || name == "bin");
    (!is_for_tests).then_some(module)
}

/// Finds the folder in which the paths of the importing and the imported module diverge. Returns the folder, and the
/// importing and the imported module in it.
fn import(module: &[String], path: &[String], known: &BTreeSet<&Module>) -> Option<[String; 3]> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let mut target = match path[0].as_str() {
        "crate" => [&module[..1], &path[1..]].concat(),
        "self" => [module, &path[1..]].concat(),
        _ => [&module[..module.len().checked_sub(ups)?], &path[ups..]].concat(),
    };
    while !known.contains(&target) {
        target.pop()?;
    }
    let common = module.iter().zip(&target).take_while(|(own, its)| own == its).count();
    let (from, to) = (module.get(common)?, target.get(common)?);
    Some([module[..common].join("/"), from.clone(), to.clone()])
}

/// Returns the paths in a file that begin with `crate`, `self` or `super`, with their lines. Paths in braces are
/// returned one by one.
fn paths(file: &File) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = file.tokens.get(at) {
        let starts = ["crate", "self", "super"].iter().any(|word| token.is(word));
        if starts && is_separator(&file.tokens, at + 1) && !file.is_test(token.line) {
            at = tree(&file.tokens, at, Vec::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn is_separator(tokens: &[Token], at: usize) -> bool {
    tokens.get(at..at + 2).is_some_and(|pair| pair.iter().all(|token| token.is(":")))
}

/// Reads the tree of paths that starts at a token, below `path`. Returns the position after the tree.
fn tree(
    tokens: &[Token],
    mut at: usize,
    mut path: Vec<String>,
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            at += 1;
            while tokens.get(at).is_some_and(|token| !token.is("}")) {
                // A token that begins no path, such as a comma, is skipped.
                at = tree(tokens, at, path.clone(), found).max(at + 1);
            }
            return at + 1;
        }
        if !token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return at;
        }
        path.push(token.text.clone());
        if !is_separator(tokens, at + 1) {
            found.push((path, token.line));
            return at + 1;
        }
        at += 3;
    }
    at
}

/// Returns the imports of a folder that are part of a circle.
fn circles(folder: &str, imports: &Imports) -> Vec<Violation> {
    let circles =
        imports.iter().filter(|((from, to), _)| reached(imports, to).contains(from.as_str()));
    let violation = |((from, to), (path, line)): (&(String, String), &(String, usize))| {
        let message = format!(
            "in `{folder}`, `{from}` imports `{to}`, which imports `{from}` directly or through other modules: move the \
             shared items to a module of their own"
        );
        Violation::at(path, *line, message)
    };
    circles.map(violation).collect()
}

/// Returns the modules that a module imports, directly or through others.
fn reached<'i>(imports: &'i Imports, start: &'i str) -> BTreeSet<&'i str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(module) = open.pop() {
        for (_, to) in imports.keys().filter(|(from, _)| from == module) {
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
    fn indirect_import_circle_is_found() {
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
    fn submodules_and_tests_may_import_anything() {
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
