//! Names in messages: lists of them, and the ones that were probably meant.

use strsim::damerau_levenshtein;

/// More names than this are not listed.
const LISTED: usize = 24;

/// Longer names than this are no misspellings, in characters.
const LONGEST: usize = 64;

/// A text of the user's in backticks, cut where it is long and without control characters.
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

/// The names that `wanted` is probably a misspelling of, best first, three at most. A name that differs from `wanted`
/// only in `-` and `_` or in capitals is the only one.
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
    // One edit in three characters, as rustc does it.
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

/// "did you mean …?", if any name is near.
pub(crate) fn did_you_mean<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    let near = near(wanted, names);
    (!near.is_empty()).then(|| format!("did you mean {}?", join(&near, " or ")))
}

/// `` `a`, `b`, `c` ``
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
    fn misspelt_names_are_found_and_others_are_not() {
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
    fn long_lists_are_cut() {
        let names: Vec<_> = (0..30).map(|n| n.to_string()).collect();
        assert!(list(&names).ends_with("`23` and 6 more"));
    }
}
