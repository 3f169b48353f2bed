//! The configuration, and what can be wrong with it.

use std::{borrow::Cow, fs};

use tremor_pdk::prelude::*;
use vrl::compiler::TimeZone;

use crate::program::Compiled;

/// A program and how to run it.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The program. Either this or `file` is needed.
    pub source: Option<String>,
    /// The file that the program is in, relative to the flow file.
    #[schemars(extend("x-file" = "read"))]
    pub file: Option<String>,
    /// Ports that the program may send an event to, by setting `%port` to one of their names.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Whether an event on which the program aborts is discarded. Otherwise it leaves by `err`.
    #[serde(default)]
    pub drop_on_abort: bool,
    /// Whether the program may call functions that ask the machine or the network, as
    /// `get_env_var` and `get_hostname`.
    #[serde(default)]
    pub allow_environment: bool,
    /// The time zone that times without one are in, as `Europe/Berlin`; UTC unless set. `local` is
    /// that of the machine.
    pub timezone: Option<String>,
}

impl Config {
    /// The program. `host` says where its file is.
    pub(crate) fn program(&self, host: &Host) -> Result<Cow<'_, str>> {
        match (&self.source, &self.file) {
            (Some(source), None) => Ok(source.into()),
            (None, Some(file)) => {
                let path = host.resolve(file);
                let text = fs::read_to_string(&path).map_err(|error| {
                    let path = path.display();
                    Error::configuration(format!("`file`: {path} cannot be read: {error}"))
                })?;
                Ok(text.into())
            }
            (Some(_), Some(_)) => Err(Error::configuration(
                "both `source` and `file` are set: there is one program; leave one of them out",
            )),
            (None, None) => Err(Error::configuration(
                "there is no program: set `source` to it, or `file` to where it is",
            )),
        }
    }

    pub(crate) fn timezone(&self) -> Result<TimeZone> {
        let name = self.timezone.as_deref().unwrap_or("UTC");
        TimeZone::parse(name).ok_or_else(|| {
            Error::configuration(format!(
                "`timezone` is `{name}`, which is none: write it as `Europe/Berlin`, `UTC` or `local`"
            ))
        })
    }

    /// # Errors
    /// A port has no good name, or the program never sets one.
    pub(crate) fn check_ports(&self, program: &Compiled) -> Result<()> {
        if !self.ports.is_empty() && program.port.is_none() {
            return Err(Error::configuration(
                "`ports` is set, but the program never sets `%port`, so that nothing can leave by them",
            ));
        }
        for (n, port) in self.ports.iter().enumerate() {
            if ["", "in", "out", "err"].contains(&port.as_str()) {
                return Err(Error::configuration(format!(
                    "`ports` has `{port}`, which cannot be one of its own: choose another name"
                )));
            }
            if self.ports[..n].contains(port) {
                return Err(Error::configuration(format!("`ports` has `{port}` twice")));
            }
        }
        Ok(())
    }
}
