//! `cargo xtask servers`: runs flows to real servers, kills the flows and the servers, and reads back what the servers
//! have stored.
//!
//! A server that this machine does not have is skipped. The step of CI builds none, because a build takes minutes and
//! depends on registries. With `--fetch`, the command builds or downloads those that Go or Maven can get. They are kept
//! in the user's cache folder.

mod minio;
mod opensearch;
mod prometheus;
mod turn;
mod victorialogs;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::project::Skipped;
use crate::scenario::{self, Judgement, Options, Scenario, Stage};
use crate::tools::GoProgram;

/// A server, and the flows to it.
struct Server {
    name: &'static str,
    /// Returns the program, which is built if it is missing and the argument is `true`.
    program: fn(bool) -> Result<PathBuf>,
    play: fn(&Stage<'_>, PathBuf) -> Result<Vec<Finding>>,
}

const SERVERS: [Server; 4] = [
    Server { name: "prometheus", program: prometheus::program, play: prometheus::play },
    Server { name: "victorialogs", program: victorialogs::program, play: victorialogs::play },
    Server { name: "opensearch", program: opensearch::program, play: opensearch::play },
    Server { name: "minio", program: minio::program, play: minio::play },
];

/// Returns which servers this machine has.
pub(crate) fn present() -> [bool; SERVERS.len()] {
    SERVERS.map(|server| (server.program)(false).is_ok())
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to test; unless given, all
    #[arg(value_name = "SERVER", value_parser = SERVERS.map(|server| server.name))]
    servers: Vec<String>,
    /// Build or download servers that are missing, which takes minutes
    #[arg(long)]
    fetch: bool,
}

/// Runs the step of CI. Returns the servers that this machine does not have.
pub(crate) fn check() -> Result<Skipped> {
    let arguments = Arguments { servers: Vec::new(), fetch: false };
    scenario::run(&arguments, &Options::default())?;
    let missing: Vec<_> = SERVERS
        .iter()
        .filter_map(|server| {
            let error = (server.program)(false).err()?;
            Some(format!("{} ({error:#})", server.name))
        })
        .collect();
    Ok((!missing.is_empty()).then(|| missing.join(", ").into()))
}

/// A guarantee, and whether it was kept.
#[derive(Debug)]
pub(crate) struct Finding {
    what: String,
    text: String,
    holds: bool,
}

fn finding(what: &str, text: String, holds: bool) -> Finding {
    Finding { what: what.to_owned(), text, holds }
}

/// Findings about a server, or the reason why it was skipped.
type Found = std::result::Result<Vec<Finding>, anyhow::Error>;

impl Scenario for Arguments {
    const NAME: &'static str = "servers";
    const PLUGINS: &'static [&'static str] = &["connector-file", "connector-http"];
    const PARTS: &'static [&'static str] =
        &[SERVERS[0].name, SERVERS[1].name, SERVERS[2].name, SERVERS[3].name];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let Some(server) = SERVERS.iter().find(|server| server.name == stage.part) else {
            bail!("unknown server `{}`", stage.part);
        };
        if !self.servers.is_empty() && !self.servers.iter().any(|name| name == server.name) {
            return Ok(Err(anyhow::anyhow!("not selected")));
        }
        match (server.program)(self.fetch) {
            Ok(program) => (server.play)(stage, program).map(Ok),
            Err(error) if self.fetch => Err(error),
            Err(error) => Ok(Err(error)),
        }
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        match found {
            Ok(findings) => {
                findings.iter().for_each(|it| judgement.add(&it.what, &it.text, it.holds));
            }
            Err(why) => judgement.line(format_args!("  SKIPPED: {why:#}")),
        }
        Ok(judgement)
    }
}

/// Returns a program that Go has built, or builds it if `fetch` is set.
fn built(program: &GoProgram, fetch: bool) -> Result<PathBuf> {
    match program.built() {
        Some(path) => Ok(path),
        None if fetch => program.build(),
        None => bail!("`cargo xtask servers --fetch` builds it"),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn broken_finding_breaks_the_part_and_a_skip_does_not() {
        let arguments = Arguments { servers: Vec::new(), fetch: false };
        let broken = |found: &Found| arguments.judge(found).expect("a judgement").broken;
        let finding = |holds| finding("lost", "1 event".to_owned(), holds);
        assert_eq!(broken(&Ok(vec![finding(true), finding(false)])), 1);
        let skipped = Err(anyhow!("`go` is missing"));
        assert_eq!(broken(&skipped), 0);
        let text = arguments.judge(&skipped).expect("a judgement").text;
        assert_eq!(text, "  SKIPPED: `go` is missing\n");
    }
}
