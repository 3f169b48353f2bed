//! What no server can do without: it reads one connection, and writes what it has read to a file.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Bytes of a read.
const READ: usize = 256 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    port: u16,
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut file = File::create(&arguments.output).context("cannot write the file")?;
    let (mut connection, _) = TcpListener::bind(("127.0.0.1", arguments.port))?.accept()?;
    let mut buffer = vec![0; READ];
    loop {
        match connection.read(&mut buffer)? {
            0 => return Ok(()),
            count => file.write_all(&buffer[..count])?,
        }
    }
}
