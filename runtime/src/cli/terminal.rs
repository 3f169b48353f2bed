//! Output of commands on a terminal: a status line on stderr below the log lines, and a full screen.

use std::{
    io::{self, IsTerminal, Read, Stdout, Write},
    os::fd::AsFd,
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::stderr;

/// Escape sequence that switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Escape sequence that shows the cursor and returns to the normal screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Shows a status line below the log lines. Replaces the previous status line.
pub(super) fn show_line(text: &str) {
    stderr::set_status(fitted(text, size(io::stderr()).0));
}

/// Removes the status line.
pub(super) fn clear_line() {
    stderr::set_status(String::new());
}

/// Returns the numbers of columns and rows; 80 and 24 if the terminal does not report them.
fn size(terminal: impl AsFd) -> (usize, usize) {
    let size = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
}

/// Returns a text on one line, truncated at its end if it has more than `columns` characters.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    if text.chars().count() <= columns {
        return text.chars().map(shown).collect();
    }
    text.chars().take(columns.saturating_sub(1)).map(shown).chain(['…']).collect()
}

/// Returns a text on at most `most` lines of this number of columns. All but the first are indented, and the last one is
/// truncated if the text is longer.
pub(super) fn wrapped(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = text;
    while !left.is_empty() {
        let indent = if lines.is_empty() { "" } else { "  " };
        let width = columns.saturating_sub(indent.len()).max(1);
        let (end, _) = left.char_indices().nth(width).unwrap_or((left.len(), ' '));
        let is_last = lines.len() + 1 >= most;
        let end = if is_last { left.len() } else { end };
        lines.push(format!("{indent}{}", fitted(&left[..end], width)));
        left = &left[end..];
    }
    lines
}

/// Returns a text on one line, shortened in its middle if it has more than `columns` characters.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count <= columns {
        return fitted(text, columns);
    }
    let end = columns.saturating_sub(1) / 2;
    let end: String = text.chars().skip(count - end).collect();
    fitted(text, columns - end.chars().count()) + &fitted(&end, columns)
}

/// The alternate screen of a terminal. The normal screen is restored when the value is dropped.
pub(super) struct Screen {
    out: Stdout,
    /// Settings of the keyboard before the screen was entered, if there is a keyboard.
    before: Option<Termios>,
}

impl Screen {
    /// Switches to the alternate screen of the terminal at stdout. Returns `None` if stdout is not a terminal.
    pub(super) fn enter() -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut keys = before.clone();
            // Keys are read one by one, and are not echoed.
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            _ = tcsetattr(io::stdin(), OptionalActions::Now, &keys);
        }
        let screen = Self { out: io::stdout(), before };
        screen.write(ENTER);
        Some(screen)
    }

    /// Returns the number of columns: 80 if the terminal does not report it.
    pub(super) fn columns(&self) -> usize {
        size(&self.out).0
    }

    /// Shows as many of the lines as fit on the screen.
    pub(super) fn show(&self, lines: &[Line]) {
        let (columns, rows) = size(&self.out);
        let mut text = "\x1b[H".to_owned();
        for (position, Line { style, text: line }) in lines.iter().take(rows).enumerate() {
            let end = if position + 1 < rows { "\r\n" } else { "" };
            let (before, line) = (style.as_str(), fitted(line, columns));
            text.extend([before, &line, "\x1b[0m\x1b[K", end]);
        }
        text.push_str("\x1b[J");
        self.write(&text);
    }

    fn write(&self, text: &str) {
        let mut out = self.out.lock();
        // An error is ignored, because it means that the terminal was closed.
        _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.write(LEAVE);
        if let Some(before) = &self.before {
            _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Waits for a key that quits. Returns `false` if the input ends without such a key.
pub(super) fn until_quit() -> bool {
    let keys = io::stdin().lock().bytes();
    keys.map_while(Result::ok).any(|key| matches!(key, b'q' | b'Q' | 3 | 4))
}

/// Line of a screen.
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Waiting,
    Failed,
}

impl Style {
    fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "\x1b[7m",
            Self::Waiting => "\x1b[33m",
            Self::Failed => "\x1b[31m",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fitted, shortened, wrapped};

    #[test]
    fn wide_text_is_shortened_in_its_middle() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("abcdefg", 5), "ab…fg");
        assert_eq!(shortened("abcdefg", 4), "ab…g");
        assert_eq!(shortened("a\nbcdefg", 5), "a …fg");
    }

    #[test]
    fn wrapped_text_is_indented_and_truncated_at_its_end() {
        assert_eq!(wrapped("äöü", 3, 2), ["äöü"]);
        assert_eq!(wrapped("äöüabcd", 4, 3), ["äöüa", "  bc", "  d"]);
        assert_eq!(wrapped("abcdefghij", 4, 2), ["abcd", "  e…"]);
        assert!(wrapped("", 4, 2).is_empty());
    }

    #[test]
    fn wide_text_is_truncated_and_stays_on_one_line() {
        assert_eq!(fitted("äöü", 3), "äöü");
        assert_eq!(fitted("äöüß", 3), "äö…");
        assert_eq!(fitted("a\n\x1b[2J", 9), "a  [2J");
    }
}
