//! The program of the server, which `go` builds once.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::broker::need;
use crate::project::{root, run};
use crate::running::empty_folder;

/// What is built.
const SERVER: &str = "github.com/nats-io/nats-server/v2";
const VERSION: &str = "2.15.2";

/// The program, built unless it is there.
pub(super) fn find() -> Result<PathBuf> {
    let folder = root().join("target/tools/nats-server").join(VERSION);
    let program = folder.join("nats-server");
    if program.exists() {
        return Ok(program);
    }
    need("go", "version", "`apt-get install golang`")?;
    eprintln!("builds the server of NATS, once");
    // Under another name until it is whole: two that do this at a time do not meet.
    let part = folder.with_extension(std::process::id().to_string());
    empty_folder(&part)?;
    let mut command = Command::new("go");
    command.args(["install", &format!("{SERVER}@v{VERSION}")]).env("GOBIN", &part);
    // What it says belongs to people, and not to those that read our output.
    command.stdout(std::io::stderr());
    run(command)?;
    std::fs::create_dir_all(&folder)?;
    std::fs::rename(part.join("nats-server"), &program).context("cannot keep the server")?;
    std::fs::remove_dir_all(&part)?;
    Ok(program)
}
