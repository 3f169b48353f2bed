//! The grammar of links: `name[/port] -> name[/port] -> …`.

use std::fmt;

use super::{name, source::Span, suggest::quote};

/// Output port of a link that names no port.
pub const OUT: &str = "out";
/// Input port of a link that names no port. There are no other input ports so far.
pub const IN: &str = "in";
/// Output port that every connector and every pipeline has for events that fail in it.
pub const ERR: &str = "err";

/// Source or target of a [`Link`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Name of a connector or a pipeline.
    pub name: String,
    /// Name of the port, also if it is the default.
    pub port: String,
    /// Location of the name and the port.
    pub at: Span,
}

/// Connection from an output port to an input port. A chain `a -> b -> c` consists of two links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// End at which events leave.
    pub from: End,
    /// End at which events enter.
    pub to: End,
}

impl Link {
    /// Returns the location of the link, which is the location of its first name.
    pub fn at(&self) -> Span {
        self.from.at
    }
}

/// Displays the link as it is written in a flow file, without default ports.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from.written(OUT), self.to.written(IN))
    }
}

impl End {
    /// Returns the end as it is written in a flow file, without its port if that is `default`.
    pub(super) fn written(&self, default: &str) -> String {
        let Self { name, port, .. } = self;
        if port == default { name.clone() } else { format!("{name}/{port}") }
    }
}

/// Syntax error in the text of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkError {
    /// Start and length in the text, both in characters.
    pub(crate) range: (usize, usize),
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

pub(crate) const FORM: &str = "a link is written `from -> to` or `from/port -> to/port`";

/// Parses a link or a chain of links.
///
/// In the middle of a chain, `/in` is the port through which the chain enters, and any other port is the one through
/// which it leaves: in `a -> b/err -> c`, events that fail in `b` continue to `c`.
///
/// `span` converts a part of the text, given by its start and length in characters, to its location in the file.
pub(crate) fn parse(
    text: &str,
    span: impl Fn(usize, usize) -> Span,
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
            at: span(part.start, part.len),
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
    if text.contains('>') || text.contains(char::is_whitespace) {
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
        let span = |start, width| Span { line: 1, column: start + 1, width };
        let links = parse(text, span).unwrap_or_else(|error| panic!("{text}: {error:?}"));
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
    fn location_of_an_end_covers_its_name_and_port() {
        let span = |start, width| Span { line: 1, column: start + 1, width };
        let links = parse("\u{a0}ab/err  ->b -> c", span).expect("valid");
        assert_eq!(links[0].from.at, span(1, 6));
        assert_eq!(links[0].to.at, span(11, 1));
        assert_eq!(links[1].to.at, span(16, 1));
    }

    #[test]
    fn broken_arrow_behind_a_port_is_reported_as_such() {
        let error = parse("a/b - > c", |_, _| Span::START).expect_err("a broken arrow");
        assert_eq!(error.message, "expected `->` between names, found `a/b - > c`");
    }

    #[test]
    fn errors_point_into_the_text() {
        assert_eq!(error("a"), (0, 1));
        assert_eq!(error("a -> "), (5, 0));
        assert_eq!(error("-> a"), (0, 0));
        assert_eq!(error("a -> -> b"), (5, 0));
        assert_eq!(error("a -> b c"), (5, 3));
        assert_eq!(error("a => b"), (0, 6));
        assert_eq!(error("a/b - > c"), (0, 9));
        assert_eq!(error("a -> b/"), (5, 2));
        assert_eq!(error("a -> b/c/d"), (5, 5));
        assert_eq!(error("a -> 1b"), (5, 2));
        assert_eq!(error(""), (0, 0));
    }
}
