//! A document as Markdown; pictures are files beside it.

use std::fmt::Write as _;

use crate::document::{Block, Table, Tone};

pub(crate) fn markdown(blocks: &[Block]) -> String {
    let blocks: Vec<_> = blocks.iter().map(block).collect();
    blocks.join("\n\n") + "\n"
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => format!("{} {text}", "#".repeat(usize::from(*level))),
        Block::Paragraph(text) => text.clone(),
        Block::Notice(text) => format!("> **{text}**"),
        Block::List(items) => {
            items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
        }
        Block::Table(table) => table_of(table),
        Block::Figure(figure) => format!("![{}](plots/{}.svg)", figure.title, figure.name),
    }
}

fn table_of(table: &Table) -> String {
    let aligned = if table.is_text { "---|" } else { "---:|" };
    let mut text = format!("| {} |\n|---|", table.headings.join(" | "));
    text += &aligned.repeat(table.headings.len().saturating_sub(1));
    for row in &table.rows {
        text += "\n|";
        for cell in row {
            // Also inside of code a bar would end the cell.
            let value = cell.text.replace('|', "\\|");
            match cell.tone {
                Tone::Better | Tone::Worse => write!(text, " **{value}** |"),
                Tone::Plain | Tone::Quiet => write!(text, " {value} |"),
            }
            .unwrap_or_default(); // Writing to a string does not fail.
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    #[test]
    fn a_table_keeps_its_bars_and_stresses_what_differs() {
        let slow = Cell { text: "97.0".to_owned(), tone: Tone::Worse };
        let table = Table {
            headings: vec!["flow".to_owned(), "plugin".to_owned()],
            rows: vec![vec![Cell::plain("a|b"), slow]],
            is_text: false,
        };
        let expected = "| flow | plugin |\n|---|---:|\n| a\\|b | **97.0** |\n";
        assert_eq!(markdown(&[Block::Table(table)]), expected);
    }
}
