//! What a terminal shows, as a picture.

use std::fmt::Write as _;

/// Characters of a line; a longer one is cut, as many terminals do it.
const COLUMNS: usize = 104;
const SIZE: usize = 14;
/// Of a letter and of a line, in pixels: six and fifteen tenths of the size.
const ADVANCE: f64 = 8.4;
const LINE: usize = 21;
const MARGIN: usize = 18;
/// The bar with the buttons.
const BAR: usize = 30;

const STYLE: &str = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;\
    white-space:pre;fill:#d6dde5}.typed{fill:#ffffff;font-weight:600}.log{fill:#8fb8de}.note{fill:#8a94a0}";

/// A line, and what it is.
pub(crate) enum Line<'a> {
    /// Typed by the user, after a prompt.
    Typed(&'a str),
    /// On standard output.
    Out(&'a str),
    /// On standard error.
    Log(&'a str),
    /// No line of the terminal.
    Note(String),
}

/// The picture, as SVG. Terminals are dark on pages of any colour.
pub(crate) fn draw(title: &str, lines: &[Line<'_>]) -> String {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let width = (ADVANCE * COLUMNS as f64) as usize + 2 * MARGIN;
    let height = BAR + LINE * lines.len() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    // Writing to a string does not fail.
    for (place, color) in [(20, "#ff6a5e"), (40, "#f5bf4f"), (60, "#61c555")] {
        let _ = writeln!(svg, "<circle cx=\"{place}\" cy=\"16\" r=\"6\" fill=\"{color}\"/>");
    }
    for (number, line) in lines.iter().enumerate() {
        let (class, text) = match line {
            Line::Typed(text) => ("typed", format!("$ {text}")),
            Line::Out(text) => ("out", (*text).to_owned()),
            Line::Log(text) => ("log", (*text).to_owned()),
            Line::Note(text) => ("note", text.clone()),
        };
        let baseline = BAR + LINE * number + SIZE + 4;
        let text = escaped(&shortened(&text));
        let _ =
            writeln!(svg, "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{baseline}\">{text}</text>");
    }
    svg + "</svg>\n"
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= COLUMNS {
        return text.to_owned();
    }
    text.chars().take(COLUMNS - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_a_long_line_is_cut() {
        let long = "x".repeat(COLUMNS + 1);
        let svg = draw("a title", &[Line::Typed("a <b> & c"), Line::Out(&long)]);
        assert!(svg.contains("$ a &lt;b&gt; &amp; c</text>"), "{svg}");
        assert!(svg.contains(&format!(">{}…</text>", "x".repeat(COLUMNS - 1))), "{svg}");
    }
}
