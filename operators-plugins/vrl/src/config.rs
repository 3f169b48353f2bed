//! The configuration and its checks.

use std::{borrow::Cow, fs};

use tremor_pdk::prelude::*;
use vrl::compiler::TimeZone;

use crate::program::Compiled;

/// Program and its settings.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Source text of the program. Set either this key or `file`.
    pub source: Option<String>,
    /// File that contains the program, relative to the flow file.
    #[schemars(extend("x-file" = "read"))]
    pub file: Option<String>,
    /// Ports to which the program may send an event. The program sets `%port` to the name of a port.
    #[serde(default)]
    pub ports: Vec<String>,
    /// `true` if an event on which the program aborts is discarded. Otherwise the event leaves by `err`.
    #[serde(default)]
    pub drop_on_abort: bool,
    /// `true` if the program may call functions that use the machine or the network, such as `get_env_var` and
    /// `get_hostname`.
    #[serde(default)]
    pub allow_environment: bool,
    /// Time zone of times without a time zone, such as `Europe/Berlin`. Default: UTC. `local` is the time zone of the
    /// machine.
    pub timezone: Option<String>,
}

impl Config {
    /// Returns the text of the program. `host` resolves the path of its file.
    pub(crate) fn program(&self, host: &Host) -> Result<Cow<'_, str>> {
        match (&self.source, &self.file) {
            (Some(source), None) => Ok(source.into()),
            (None, Some(file)) => {
                let path = host.resolve(file);
                let text = fs::read_to_string(&path).map_err(|error| {
                    let path = path.display();
                    Error::configuration(format!(
                        "cannot read `{path}`, which `file` names: {error}"
                    ))
                })?;
                Ok(text.into())
            }
            (Some(_), Some(_)) => {
                Err(Error::configuration("both `source` and `file` are set; remove one of them"))
            }
            (None, None) => Err(Error::configuration(
                "there is no program: set `source` to its text, or `file` to its path",
            )),
        }
    }

    pub(crate) fn timezone(&self) -> Result<TimeZone> {
        let name = self.timezone.as_deref().unwrap_or("UTC");
        TimeZone::parse(name).ok_or_else(|| {
            Error::configuration(format!(
                "invalid `timezone` `{name}`: expected a time zone, such as `Europe/Berlin`, `UTC` or `local`"
            ))
        })
    }

    /// Checks the names of the ports.
    ///
    /// # Errors
    /// A port has an invalid name, or the program never sets `%port`.
    pub(crate) fn check_ports(&self, program: &Compiled) -> Result<()> {
        if !self.ports.is_empty() && program.port.is_none() {
            return Err(Error::configuration(
                "`ports` is set, but the program never sets `%port`, so no event can leave by these ports",
            ));
        }
        for (n, port) in self.ports.iter().enumerate() {
            if ["", "in", "out", "err"].contains(&port.as_str()) {
                return Err(Error::configuration(format!(
                    "invalid `ports`: the name `{port}` is reserved; choose another one"
                )));
            }
            if self.ports[..n].contains(port) {
                return Err(Error::configuration(format!(
                    "invalid `ports`: `{port}` appears twice; remove one of them"
                )));
            }
        }
        Ok(())
    }
}
