//! A document as text files.

mod html;
mod markdown;

pub(crate) use html::html;
pub(crate) use markdown::markdown;
