//! Names in messages: lists of names, and suggestions for misspelt names.

use strsim::damerau_levenshtein;

/// Maximum number of names in a list.
const LISTED: usize = 24;

/// Maximum length of names that are compared and of texts that are quoted, in characters.
const LONGEST: usize = 64;

/// Returns a text from the user in backticks. The text is truncated to 64 characters, and control characters are
/// escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Returns the names of which `wanted` is probably a misspelling: at most three, the most similar one first.
///
/// If a name differs from `wanted` only in case or in `-` and `_`, only this name is returned.
pub(crate) fn near<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    if wanted.chars().nth(LONGEST).is_some() {
        return Vec::new();
    }
    let names: Vec<_> = names.into_iter().collect();
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    if let Some(name) = names.iter().find(|name| plain(name) == plain(wanted)) {
        return vec![name];
    }
    let lower = wanted.to_lowercase();
    // A difference for every three characters is permitted, as in rustc.
    let allowed = wanted.chars().count().max(3) / 3;
    let mut found: Vec<_> = names
        .into_iter()
        .map(|name| (damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(3);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Returns "did you mean …?" if any name is similar.
pub(crate) fn did_you_mean<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    let near = near(wanted, names);
    (!near.is_empty()).then(|| format!("did you mean {}?", join(&near, " or ")))
}

/// Returns the names as `` `a`, `b`, `c` ``. If there are more than the maximum, the number of the remaining names
/// follows.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let shown = join(&names[..names.len().min(LISTED)], ", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn join<S: AsRef<str>>(names: &[S], separator: &str) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_misspelt_names_are_suggested() {
        let names = ["file", "stdio", "metronome", "exit"];
        assert_eq!(near("fiel", names), ["file"]);
        assert_eq!(near("STDIO", names), ["stdio"]);
        assert_eq!(near("metronom", names), ["metronome"]);
        assert!(near("kafka", names).is_empty());
        assert_eq!(did_you_mean("exot", names).as_deref(), Some("did you mean `exit`?"));
    }

    #[test]
    fn hyphen_for_underscore_has_one_suggestion() {
        let names = ["http_server", "tcp_server", "udp_server"];
        assert_eq!(near("tcp-server", names), ["tcp_server"]);
        assert_eq!(near("LENGTH_PREFIXED", ["length-prefixed"]), ["length-prefixed"]);
    }

    #[test]
    fn long_lists_are_truncated() {
        let names: Vec<_> = (0..30).map(|n| n.to_string()).collect();
        assert!(list(&names).ends_with("`23` and 6 more"));
    }
}
