//! Idle connections.

use std::io::{Read, Write};

use clap::ValueEnum;
use rustls::StreamOwned;
use serde_json::json;

use crate::{Result, certificates::ClientTls, clients::requests, descriptors, lines, parent};

#[derive(Debug, clap::Args)]
pub(crate) struct Idle {
    port: u16,
    /// Number of connections
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    connections: usize,
    /// Data that each connection sends before it is idle
    #[arg(long, value_enum, default_value_t = First::Line)]
    first: First,
    #[command(flatten)]
    tls: ClientTls,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum First {
    /// No data
    Nothing,
    /// A line
    Line,
    /// An HTTP request, which is answered
    Request,
}

impl Idle {
    pub(crate) fn run(&self) -> Result {
        descriptors::allow(self.connections)?;
        let sessions = self.tls.sessions()?;
        parent::begin()?;
        // Keep the sockets and the TLS sessions open.
        let mut open: Vec<Box<dyn Send>> = Vec::new();
        for number in 0..self.connections {
            let mut stream = descriptors::connect_as(number, self.port)?;
            open.push(if let Some(sessions) = &sessions {
                let mut stream = StreamOwned::new(sessions.session()?, stream);
                stream.flush()?;
                self.first.send(&mut stream)?;
                Box::new(stream)
            } else {
                self.first.send(&mut stream)?;
                Box::new(stream)
            });
        }
        parent::report(json!({ "connections": open.len() }))?;
        parent::wait()
    }
}

impl First {
    fn send(self, stream: &mut (impl Read + Write)) -> Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Line => {
                stream.write_all(&lines::line(0))?;
                Ok(stream.flush()?)
            }
            Self::Request => {
                stream.write_all(&requests::request())?;
                stream.flush()?;
                let mut answer = requests::Answer::default();
                let mut buffer = [0; 1_024];
                loop {
                    let count = stream.read(&mut buffer)?;
                    if answer.is_whole(&buffer[..count])? {
                        return Ok(());
                    }
                }
            }
        }
    }
}
