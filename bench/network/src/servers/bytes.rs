//! The minimum work of a server: reads one connection and writes the bytes to a file.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::TcpListener,
    path::PathBuf,
};

use rustls::StreamOwned;

use crate::{Result, certificates::ServerTls};

/// Maximum number of bytes per read.
const READ: usize = 256 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Bytes {
    port: u16,
    output: PathBuf,
    #[command(flatten)]
    tls: ServerTls,
}

impl Bytes {
    pub(crate) fn run(&self) -> Result {
        let mut file = File::create(&self.output)?;
        let session = self.tls.session()?;
        let (stream, _) = TcpListener::bind(("127.0.0.1", self.port))?.accept()?;
        match session {
            Some(session) => copy(StreamOwned::new(session, stream), &mut file)?,
            None => copy(stream, &mut file)?,
        }
        Ok(())
    }
}

fn copy(mut from: impl Read, to: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; READ];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
