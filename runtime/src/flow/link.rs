//! The grammar of links: `name[/port] -> name[/port] -> …`.

use std::fmt;

use super::{name, source::Span, suggest::quote};

/// The port that events leave by where a link names none.
pub const OUT: &str = "out";
/// The port that events enter by where a link names none; the only one of its kind so far.
pub const IN: &str = "in";
/// The port that every connector and every pipeline has for what fails in it.
pub const ERR: &str = "err";

/// One end of a [`Link`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Name of a connector or a pipeline.
    pub name: String,
    /// Its port.
    pub port: String,
    /// Where the name and the port stand.
    pub at: Span,
}

/// Where events go from where. A chain `a -> b -> c` is two links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where events leave.
    pub from: End,
    /// Where they enter.
    pub to: End,
}

impl Link {
    /// The link's place: the name it starts with.
    pub fn at(&self) -> Span {
        self.from.at
    }
}

/// As one would write it, default ports left out.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from.written(OUT), self.to.written(IN))
    }
}

impl End {
    /// As one would write it, its port left out where it is this one.
    pub(super) fn written(&self, default: &str) -> String {
        let Self { name, port, .. } = self;
        if port == default { name.clone() } else { format!("{name}/{port}") }
    }
}

/// What is wrong with the text of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkError {
    /// Where in the text, in characters from its start, and how long.
    pub(crate) range: (usize, usize),
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

pub(crate) const FORM: &str = "a link is written `from -> to` or `from/port -> to/port`";

/// Parses a link or a chain of them.
///
/// In the middle of a chain, `/in` names the port by which the chain enters and any other port the
/// one by which it goes on: in `a -> b/err -> c`, what fails in `b` goes on to `c`.
///
/// `place` says where in the file a stretch of the text (characters from its start, length) is.
pub(crate) fn parse(
    text: &str,
    place: impl Fn(usize, usize) -> Span,
) -> Result<Vec<Link>, LinkError> {
    let mut ends = Vec::new();
    let mut start = 0;
    for part in text.split("->") {
        let blank = part.chars().take_while(|c| c.is_whitespace()).count();
        ends.push(parse_end(part.trim(), start + blank)?);
        start += part.chars().count() + "->".len();
    }
    if ends.len() < 2 {
        let message = format!("{} leads nowhere: expected `->` and another name", quote(text));
        return Err(LinkError { range: (0, text.chars().count()), message, help: FORM });
    }
    let links = ends.windows(2).map(|pair| {
        let (from, to) = (&pair[0], &pair[1]);
        let end = |part: &Part, port: Option<&str>, default: &str| End {
            name: part.name.to_owned(),
            port: port.unwrap_or(default).to_owned(),
            at: place(part.start, part.len),
        };
        let is_first = std::ptr::eq(from, &raw const ends[0]);
        let is_last = std::ptr::eq(to, &raw const ends[ends.len() - 1]);
        Link {
            from: end(from, from.port.filter(|port| is_first || *port != IN), OUT),
            to: end(to, to.port.filter(|port| is_last || *port == IN), IN),
        }
    });
    Ok(links.collect())
}

struct Part<'t> {
    name: &'t str,
    port: Option<&'t str>,
    start: usize,
    len: usize,
}

fn parse_end(text: &str, start: usize) -> Result<Part<'_>, LinkError> {
    let len = text.chars().count();
    let fail = |message: String, help| LinkError { range: (start, len), message, help };
    if text.is_empty() {
        return Err(fail(
            "expected the name of a connector or pipeline, found nothing".into(),
            FORM,
        ));
    }
    let (name, port) = match text.split_once('/') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    if name.contains('>') || name.contains(char::is_whitespace) {
        return Err(fail(format!("expected `->` between names, found {}", quote(text)), FORM));
    }
    if !name::is_valid(name) {
        return Err(fail(format!("{} is not a name", quote(name)), name::FORM));
    }
    match port {
        Some("") => Err(fail("expected the name of a port after `/`, found nothing".into(), FORM)),
        Some(port) if !name::is_valid(port) => {
            Err(fail(format!("{} is not the name of a port", quote(port)), FORM))
        }
        port => Ok(Part { name, port, start, len }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(text: &str) -> Vec<String> {
        let place = |start, width| Span { line: 1, column: start + 1, width };
        let links = parse(text, place).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        links.iter().map(ToString::to_string).collect()
    }

    fn error(text: &str) -> (usize, usize) {
        parse(text, |_, _| Span::START).expect_err(text).range
    }

    #[test]
    fn ports_have_defaults() {
        assert_eq!(links("a -> b"), ["a -> b"]);
        assert_eq!(links("a/out->b/in"), ["a -> b"]);
        assert_eq!(links("  a-b/err  ->  _c  "), ["a-b/err -> _c"]);
        assert_eq!(links("a -> b/other"), ["a -> b/other"]);
        assert_eq!(links("a/in -> b"), ["a/in -> b"]);
    }

    #[test]
    fn chains_are_several_links() {
        assert_eq!(links("a -> b -> c"), ["a -> b", "b -> c"]);
        assert_eq!(links("a -> b/err -> c"), ["a -> b", "b/err -> c"]);
        assert_eq!(links("a -> b/in -> c"), ["a -> b", "b -> c"]);
    }

    #[test]
    fn places_are_those_of_the_ends() {
        let place = |start, width| Span { line: 1, column: start + 1, width };
        let links = parse("\u{a0}ab/err  ->b -> c", place).expect("valid");
        assert_eq!(links[0].from.at, place(1, 6));
        assert_eq!(links[0].to.at, place(11, 1));
        assert_eq!(links[1].to.at, place(16, 1));
    }

    #[test]
    fn errors_point_into_the_text() {
        assert_eq!(error("a"), (0, 1));
        assert_eq!(error("a -> "), (5, 0));
        assert_eq!(error("-> a"), (0, 0));
        assert_eq!(error("a -> -> b"), (5, 0));
        assert_eq!(error("a -> b c"), (5, 3));
        assert_eq!(error("a => b"), (0, 6));
        assert_eq!(error("a -> b/"), (5, 2));
        assert_eq!(error("a -> b/c/d"), (5, 5));
        assert_eq!(error("a -> 1b"), (5, 2));
        assert_eq!(error(""), (0, 0));
    }
}
