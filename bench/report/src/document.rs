//! The report before it is Markdown or HTML: blocks of text, tables and pictures.
//!
//! Texts may have `code` between backticks and links as `[text](address)`, and nothing else.

/// A part of the report.
pub(crate) enum Block {
    /// With its level: 1 is the title.
    Heading(u8, String),
    Paragraph(String),
    /// Something the reader must not miss.
    Notice(String),
    List(Vec<String>),
    Table(Table),
    Figure(Figure),
}

/// The first column is the name of the row, the others are figures unless they are texts.
pub(crate) struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether columns behind the first are texts.
    pub(crate) is_text: bool,
}

pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

/// How a cell is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Better,
    Worse,
    /// Not what one reads first.
    Quiet,
}

/// A picture, also written to a file of its own.
pub(crate) struct Figure {
    /// Of the file, without its ending.
    pub(crate) name: String,
    /// What it shows.
    pub(crate) title: String,
    pub(crate) svg: String,
}

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}
