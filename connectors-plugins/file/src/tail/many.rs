//! A pattern of paths without the paths that are excluded.

use std::{path::Path, sync::Arc};

use glob::MatchOptions;
use tremor_pdk::{Error, Result};

/// A pattern of paths, and the patterns of the paths that are left out.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    pub(super) text: String,
    exclude: Arc<[Exclude]>,
}

/// A pattern of files that are left out.
#[derive(Debug)]
struct Exclude {
    pattern: glob::Pattern,
    /// `true` if the pattern is compared with the whole path and not with the name.
    is_path: bool,
}

impl Many {
    /// Creates the pattern `text`, without the files that match one of the patterns `exclude`.
    pub(super) fn new(text: &str, exclude: &[String]) -> Result<Self> {
        let exclude = exclude.iter().map(|text| {
            let is_path = text.contains('/');
            glob::Pattern::new(text).map(|pattern| Exclude { pattern, is_path })
        });
        let exclude: std::result::Result<Vec<_>, _> = exclude.collect();
        let exclude = exclude.map_err(Error::configuration)?.into();
        Ok(Self { text: text.to_owned(), exclude })
    }

    /// Returns whether a file that the pattern matches is left out.
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.exclude.iter().any(|Exclude { pattern, is_path }| {
            let text = if *is_path { Some(path.as_os_str()) } else { path.file_name() };
            let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
            text.is_some_and(|text| pattern.matches_with(&text.to_string_lossy(), options))
        })
    }
}
