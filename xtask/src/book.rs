//! The book as a site: mdBook builds it with a search index. `cargo xtask tidy` checks the links of its pages.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};

use crate::project::{Skipped, cargo, root, run as run_command};
use crate::tools::Tool;

/// Folder of the site, as set in `docs/book.toml`.
const SITE: &str = "target/book";
/// The feature `search` adds the index and the search field; the server and the watcher of mdBook are left out, because
/// nothing here uses them.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    says: "mdbook v0.5.",
    features: &["--no-default-features", "--features=search"],
};
/// The latest run of the flows, and the name of its subject that has loaded plugins and the default threads.
const RUN: &str = "bench/runs/2026-11-28-threads";
const SUBJECT: &str = "default";
const CHART: &str = "docs/images/flows.svg";

pub(crate) fn run() -> Result<()> {
    ensure!(check()?.is_none(), "mdBook 0.5 is not installed, and cargo cannot install it");
    eprintln!("the book is in {SITE}");
    Ok(())
}

/// Compares the chart of the README with its run, and builds the site.
pub(crate) fn check() -> Result<Skipped> {
    check_chart()?;
    let Some(mdbook) = MDBOOK.find() else {
        return Ok(Some(
            "the book as a site (no mdBook 0.5 is installed, and cargo cannot install it; \
             `cargo install mdbook` provides it)"
                .into(),
        ));
    };
    let mut build = Command::new(mdbook);
    build.args(["build", "docs"]).current_dir(root());
    run_command(build)?;
    ensure!(
        has_search(&root().join(SITE))?,
        "the book has no search: mdBook was built without its feature `search`; remove it from the path and from \
         `~/.cache/tremor/tools/bin`, or install one with the feature"
    );
    Ok(None)
}

/// Returns whether the site contains a search index. Its name contains a hash of its contents.
fn has_search(site: &Path) -> Result<bool> {
    for entry in fs::read_dir(site)? {
        if entry?.file_name().to_string_lossy().starts_with("searchindex") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Draws the chart of the README from its run in `bench/runs`.
pub(crate) fn draw() -> Result<()> {
    draw_chart(CHART)
}

/// Compares the committed chart with a new one from the same run.
fn check_chart() -> Result<()> {
    let drawn = "target/flows.svg";
    draw_chart(drawn)?;
    let [drawn, kept] = [drawn, CHART].map(|path| fs::read(root().join(path)));
    ensure!(drawn? == kept?, "{CHART} differs from what `cargo xtask pictures` draws from {RUN}");
    Ok(())
}

fn draw_chart(output: &str) -> Result<()> {
    let tool = ["run", "--quiet", "--package=bench-report", "--bin=bench-report", "--", "chart"];
    run_command(cargo([&tool[..], &[RUN, "--subject", SUBJECT, "--output", output]].concat()))
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn search_needs_an_index_in_the_site() {
        let site = env::temp_dir().join(format!("xtask-search-{}", std::process::id()));
        fs::create_dir_all(&site).expect("a folder for temporary files");
        let without = has_search(&site);
        fs::write(site.join("searchindex-1a2b3c4d.js"), "").expect("a file in the folder");
        let with = has_search(&site);
        fs::remove_dir_all(&site).expect("the folder can be removed");
        assert!(!without.expect("the site can be read") && with.expect("the site can be read"));
    }
}
