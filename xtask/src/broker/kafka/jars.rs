//! Kafka's jars, which Maven brings once.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::broker::need;
use crate::project::{root, run};
use crate::running::empty_folder;

/// As `pom.xml` says.
const VERSION: &str = "4.3.1";

/// The folder with the jars: they are fetched if it is not there.
pub(super) fn find() -> Result<PathBuf> {
    let tools = root().join("target/tools/kafka");
    let folder = tools.join(VERSION);
    if folder.is_dir() {
        return Ok(folder);
    }
    need("mvn", "--version", "`apt-get install maven`")?;
    eprintln!("Maven fetches Kafka {VERSION} into {}", folder.display());
    // Under another name until all are there: two that do this at a time do not meet.
    let part = tools.join(format!("{VERSION}.{}", std::process::id()));
    empty_folder(&part)?;
    let mut maven = Command::new("mvn");
    maven.args(["-B", "-q", "-f"]).arg(root().join("xtask/src/broker/kafka/pom.xml"));
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    maven.arg(format!("-Dkafka={VERSION}")).arg(format!("-DoutputDirectory={}", part.display()));
    // What it says belongs to people, and not to those that read our output.
    maven.stdout(std::io::stderr());
    run(maven)?;
    if let Err(error) = fs::rename(&part, &folder) {
        fs::remove_dir_all(&part)?;
        folder.is_dir().then_some(()).ok_or(error).context("cannot keep the jars")?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn the_version_is_that_of_the_pom() {
        assert!(include_str!("pom.xml").contains(&format!("<kafka>{VERSION}</kafka>")));
    }
}
