//! Rust as a flat list of tokens with their lines, so that comments, strings and line breaks do not mislead a rule.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// An identifier, keyword, punctuation character, literal or bracket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// Number of the line, from 1.
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }
}

pub(super) fn tokens(source: &str) -> Result<Vec<Token>> {
    let stream = TokenStream::from_str(source)
        .map_err(|error| anyhow!("line {}: {error}", error.span().start().line))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token { text: close.to_owned(), line });
            }
            tree => tokens.push(Token { text: tree.to_string(), line }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_its_line() {
        let tokens = tokens("fn a() {\n    b!(1)\n}").expect("the code is valid");
        let found: Vec<_> = tokens.iter().map(|token| (token.text.as_str(), token.line)).collect();
        let expected = [
            ("fn", 1),
            ("a", 1),
            ("(", 1),
            (")", 1),
            ("{", 1),
            ("b", 2),
            ("!", 2),
            ("(", 2),
            ("1", 2),
            (")", 2),
            ("}", 3),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn comments_and_strings_are_not_identifiers() {
        let tokens =
            tokens("// unsafe\nlet a = \"unsafe\"; /* unsafe */").expect("the code is valid");
        assert!(!tokens.iter().any(|token| token.is("unsafe")));
    }

    #[test]
    fn syntax_error_has_its_line() {
        let error = tokens("fn a() {}\n}").expect_err("a bracket closes nothing").to_string();
        assert!(error.starts_with("line 2:"), "{error}");
    }
}
