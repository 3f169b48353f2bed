//! The book as a site: mdBook builds it, and every link in it leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::project::{root, run as run_command};
use crate::tools::Tool;

/// Where `docs/book.toml` has the site built.
const SITE: &str = "target/book";
/// Without a server and a search, which CI has no use for.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    says: "mdbook v0.5.",
    features: &["--no-default-features"],
};
/// What mdBook makes of no page: these have the links of others, relative to other folders.
const MADE: [&str; 3] = ["404.html", "print.html", "toc.html"];

pub(crate) fn run() -> Result<()> {
    ensure!(check()?, "there is no mdBook 0.5, and cargo cannot install it");
    eprintln!("the book is in {SITE}");
    Ok(())
}

/// Builds the site and follows its links; `false` where there is no mdBook to be had.
pub(crate) fn check() -> Result<bool> {
    let Some(mdbook) = MDBOOK.find() else { return Ok(false) };
    let mut build = Command::new(mdbook);
    build.args(["build", "docs"]).current_dir(root());
    run_command(build)?;
    let broken = broken_links(&root().join(SITE))?;
    ensure!(broken.is_empty(), "links of the book lead nowhere:\n{}", broken.join("\n"));
    Ok(true)
}

/// Each link to a file or an anchor of the site that is not there.
fn broken_links(site: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    find_pages(site, &mut pages)?;
    let mut broken = BTreeSet::new();
    for page in &pages {
        let html = fs::read_to_string(page)?;
        for link in links(&html) {
            if !leads_somewhere(page, link)? {
                let page = page.strip_prefix(site).unwrap_or(page);
                broken.insert(format!("{}: {link}", page.display()));
            }
        }
    }
    Ok(broken.into_iter().collect())
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            find_pages(&path, pages)?;
        } else if path.extension().is_some_and(|it| it == "html")
            && !MADE.iter().any(|it| name == *it)
        {
            pages.push(path);
        }
    }
    Ok(())
}

/// What the page refers to within the site.
fn links(html: &str) -> impl Iterator<Item = &str> {
    let attributes = ["href=\"", "src=\""];
    let values = attributes.into_iter().flat_map(move |name| {
        html.match_indices(name)
            .filter_map(move |(at, _)| html[at + name.len()..].split('"').next())
    });
    values.filter(|link| !link.contains(':') && !link.starts_with("//"))
}

fn leads_somewhere(page: &Path, link: &str) -> Result<bool> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.parent().unwrap_or(page);
    let target = if path.is_empty() { page.to_owned() } else { folder.join(path) };
    if !target.is_file() {
        return Ok(false);
    }
    if anchor.is_empty() {
        return Ok(true);
    }
    let html = fs::read_to_string(&target)?;
    Ok(html.contains(&format!("id=\"{anchor}\"")))
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_link_to_a_missing_page_or_anchor_is_found_and_an_address_is_not_looked_at() {
        let site = env::temp_dir().join(format!("xtask-book-{}", std::process::id()));
        fs::create_dir_all(site.join("guide")).expect("a folder for temporary files");
        let write =
            |name: &str, html: &str| fs::write(site.join(name), html).expect("a file in it");
        write(
            "index.html",
            "<h1 id=\"top\">A</h1><a href=\"guide/a.html#b\"><a href=\"none.html\">",
        );
        write("guide/a.html", "<a href=\"../index.html#top\"><a href=\"#c\"><img src=\"a.svg\">");
        write(
            "guide/b.html",
            "<a href=\"https://example.com/none\"><a href=\"mailto:a@b.example\">",
        );
        let broken = broken_links(&site);
        fs::remove_dir_all(&site).expect("it can be removed");
        let expected = ["guide/a.html: #c", "guide/a.html: a.svg", "index.html: guide/a.html#b"];
        assert_eq!(
            broken.expect("it can be read"),
            [&expected[..], &["index.html: none.html"]].concat()
        );
    }
}
