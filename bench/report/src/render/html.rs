//! A document as one HTML file that needs no other: styles and pictures are inside.

use crate::document::{Block, Cell, Table, Tone};

const STYLE: &str = include_str!("style.css");

pub(crate) fn html(title: &str, blocks: &[Block]) -> String {
    let body = each(blocks, block);
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => element(&format!("h{level}"), "", &inline(text)),
        Block::Paragraph(text) => element("p", "", &inline(text)),
        Block::Notice(text) => element("p", "notice", &inline(text)),
        Block::List(items) => {
            element("ul", "", &each(items, |item| element("li", "", &inline(item))))
        }
        Block::Table(table) => element("div", "table", &table_of(table)),
        Block::Figure(figure) => {
            let caption = element("figcaption", "", &inline(&figure.title));
            element("figure", "", &(figure.svg.clone() + &caption))
        }
    }
}

fn table_of(table: &Table) -> String {
    let head = each(&table.headings, |heading| element("th", "", &inline(heading)));
    let body = each(&table.rows, |row| {
        let (first, others) = row.split_at(1.min(row.len()));
        element(
            "tr",
            "",
            &(each(first, |name| cell("th", name)) + &each(others, |value| cell("td", value))),
        )
    });
    let body = element("tbody", "", &body);
    let head = element("thead", "", &element("tr", "", &head));
    element("table", if table.is_text { "texts" } else { "" }, &(head + &body))
}

fn cell(name: &str, Cell { text, tone }: &Cell) -> String {
    let class = match tone {
        Tone::Plain => "",
        Tone::Better => "better",
        Tone::Worse => "worse",
        Tone::Quiet => "quiet",
    };
    element(name, class, &inline(text))
}

fn each<T>(items: &[T], html: impl Fn(&T) -> String) -> String {
    items.iter().map(html).collect()
}

fn element(name: &str, class: &str, content: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<{name}{class}>{content}</{name}>\n")
}

/// With `code` between backticks and links.
fn inline(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => links(&escaped(part)),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}

/// Makes links of what is escaped already.
fn links(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, label, address, after)) = first_link(rest) {
        out.extend([before, "<a href=\"", address, "\">", label, "</a>"]);
        rest = after;
    }
    out + rest
}

/// What stands before the first link, its label, its address, and the rest.
fn first_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let start = text[..middle].rfind('[')?;
    let end = middle + text[middle..].find(')')?;
    Some((&text[..start], &text[start + 1..middle], &text[middle + 2..end], &text[end + 1..]))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_have_code_and_links() {
        let table = [
            ("a < b & `x > y`", "a &lt; b &amp; <code>x &gt; y</code>"),
            ("[1.0, 2.0]", "[1.0, 2.0]"),
            ("see [it](a/b.svg), too", "see <a href=\"a/b.svg\">it</a>, too"),
            ("3.1 [2, 4] of [it](b)", "3.1 [2, 4] of <a href=\"b\">it</a>"),
        ];
        table.iter().for_each(|(text, expected)| assert_eq!(inline(text), *expected));
    }

    #[test]
    fn the_page_needs_no_other_file() {
        let page = html("Title", &[Block::Paragraph("text".to_owned())]);
        assert!(
            page.contains("<p>text</p>") && !page.contains("src=") && !page.contains("@import")
        );
    }
}
