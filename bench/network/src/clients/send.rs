//! A connection that sends as much as it can.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Instant,
};

use rustls::StreamOwned;
use serde_json::json;

use crate::{
    Result,
    certificates::ClientTls,
    descriptors,
    lines::{LINE, lines},
    parent,
};

/// Number of lines per write.
const LINES: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct Send {
    port: u16,
    /// Number of lines, in hundreds
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    hundreds: u64,
    #[command(flatten)]
    tls: ClientTls,
}

impl Send {
    pub(crate) fn run(&self) -> Result {
        let mut stream = descriptors::connect_as(0, self.port)?;
        let sessions = self.tls.sessions()?;
        parent::begin()?;
        let start = Instant::now();
        if let Some(sessions) = sessions {
            let mut stream = StreamOwned::new(sessions.session()?, stream);
            self.send(&mut stream)?;
            stream.conn.send_close_notify();
            stream.flush()?;
            close(&mut stream.sock)?;
        } else {
            self.send(&mut stream)?;
            close(&mut stream)?;
        }
        let bytes = self.hundreds * (LINES * LINE) as u64;
        parent::report(json!({
            "lines": self.hundreds * LINES as u64,
            "bytes": bytes,
            "seconds": start.elapsed().as_secs_f64(),
        }))?;
        parent::wait()
    }

    fn send(&self, to: &mut impl Write) -> Result {
        let lines = lines(0, LINES);
        (0..self.hundreds).try_for_each(|_| to.write_all(&lines))?;
        Ok(to.flush()?)
    }
}

/// Waits until the server has read everything.
fn close(stream: &mut TcpStream) -> Result {
    stream.shutdown(Shutdown::Write)?;
    let mut rest = [0; 1 << 10];
    while stream.read(&mut rest)? > 0 {}
    Ok(())
}
