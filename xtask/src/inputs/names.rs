//! Files, folders and packages that Rust code names in string literals.

/// Maximum length of a path, in bytes.
const LONGEST: usize = 200;

/// A string literal, or a part of one, that may name a file, a folder or a package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'t> {
    /// The literal, without an option in front of it, such as `--package=`.
    pub(super) text: &'t str,
    /// `true` if the literal is an argument of `join`, so that a single word is a path.
    is_joined: bool,
}

/// Returns the texts between quotation marks that have only characters of paths. Texts between two literals are
/// included, so that a quotation mark in a comment or an escape hides no literal.
pub(super) fn names(source: &str) -> impl Iterator<Item = Name<'_>> {
    let is_of_path = |it: u8| it.is_ascii_alphanumeric() || b"_-./=".contains(&it);
    let mut before = "";
    source.split('"').filter_map(move |text| {
        let is_joined = std::mem::replace(&mut before, text).trim_end().ends_with("join(");
        let text = text.rsplit_once('=').map_or(text, |(_, value)| value);
        let is_name = (1..LONGEST).contains(&text.len()) && text.bytes().all(is_of_path);
        is_name.then_some(Name { text, is_joined })
    })
}

impl Name<'_> {
    /// Returns the files of the project that the name refers to: a file or the files of a folder, relative to the root
    /// of the project, to a parent folder of the code, or to the folder of the file `from`, which contains the name.
    /// `files` is sorted.
    pub(super) fn files<'f>(
        &self,
        from: &str,
        files: &'f [String],
    ) -> impl Iterator<Item = &'f String> {
        let mut path = self.text.trim_matches('/');
        while let Some(rest) = path.strip_prefix("../").or_else(|| path.strip_prefix("./")) {
            path = rest;
        }
        let beside = from.rsplit_once('/').map(|(folder, _)| format!("{folder}/{path}"));
        let found = found(files, path, self.is_joined || path.contains('/'));
        let beside = beside.map(|path| self::found(files, &path, false)).unwrap_or_default();
        found.iter().chain(beside)
    }
}

/// Returns the file with this path, or the files of the folder with this path if `may_be_folder` is set.
fn found<'f>(files: &'f [String], path: &str, may_be_folder: bool) -> &'f [String] {
    if path.is_empty() {
        return &[];
    }
    let start = files.partition_point(|file| file.as_str() < path);
    if files.get(start).is_some_and(|file| file == path) {
        return &files[start..=start];
    }
    let folder = format!("{path}/");
    let start = files.partition_point(|file| *file < folder);
    let count = files[start..].iter().take_while(|file| file.starts_with(&folder)).count();
    if may_be_folder { &files[start..start + count] } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(source: &str) -> Vec<String> {
        let files = ["README.md", "a/b.rs", "a/flows/c.yaml", "docs/x.md", "docs/y/z.md"];
        let files = files.map(str::to_owned);
        let found = names(source).flat_map(|name| name.files("a/b.rs", &files).collect::<Vec<_>>());
        found.cloned().collect()
    }

    #[test]
    fn file_is_found_from_root_parent_and_own_folder() {
        assert_eq!(named(r#"read("docs/x.md")"#), ["docs/x.md"]);
        assert_eq!(named(r#"include_str!("../../docs/x.md")"#), ["docs/x.md"]);
        assert_eq!(named(r#"include_str!("flows/c.yaml")"#), ["a/flows/c.yaml"]);
        assert_eq!(named(r#"const PAGE: &str = "README.md";"#), ["README.md"]);
    }

    #[test]
    fn word_is_a_folder_only_if_it_is_joined() {
        assert_eq!(named(r#"workspace().join("docs")"#), ["docs/x.md", "docs/y/z.md"]);
        assert_eq!(named(r#"print("docs")"#), [""; 0]);
        assert_eq!(named(r#"read("docs/y/")"#), ["docs/y/z.md"]);
    }

    #[test]
    fn escaped_quotation_mark_hides_no_name() {
        assert_eq!(named(r#"say("\""); read("docs/x.md")"#), ["docs/x.md"]);
    }

    #[test]
    fn value_of_an_option_is_a_name() {
        let text: Vec<_> = names(r#"["--package=xtask"]"#).map(|name| name.text).collect();
        assert!(text.contains(&"xtask"), "{text:?}");
    }
}
