//! The servers that are measured.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::Arguments;
use crate::built;
use crate::project::root;
use crate::running;

const PLUGINS: [&str; 2] = ["connector-file", "connector-tcp-server"];

/// A server that can be started.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Whether its file has the bytes that it received.
    pub(super) is_as_it_is: bool,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    /// What its configuration is made of: `@PORT@`, `@OUTPUT@` and `@FOLDER@` are put in.
    template: Option<&'static str>,
}

/// A server that runs. Dropped, it is ended.
pub(super) struct Started(Child);

/// Those that are at hand.
pub(super) fn all(arguments: &Arguments, folder: &Path) -> Result<Vec<Server>> {
    let ours = built::build(&PLUGINS, true, &folder.join("bin"))?;
    let server = |name, program: &Path| Server {
        name,
        is_as_it_is: false,
        program: program.to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        template: None,
    };
    let flow = |name, file: &str| Server {
        arguments: vec!["run".into(), root().join("bench/network").join(file).into()],
        environment: vec![("TREMOR_PLUGIN_PATH", ours.plugins.clone().into())],
        ..server(name, &ours.tremor)
    };
    let mut servers = vec![
        Server {
            is_as_it_is: true,
            arguments: vec!["bare-loop".into()],
            ..server("bare-loop", &env::current_exe()?)
        },
        Server { is_as_it_is: true, ..flow("tremor", "forward.yaml") },
        flow("tremor-json", "parse.yaml"),
    ];
    if is_there(&arguments.rsyslogd) {
        let peer = |name, template| {
            let mut options: Vec<OsString> =
                ["-n", "-f", "@CONFIG@", "-i", "NONE"].map(OsString::from).into();
            if let Some(modules) = &arguments.rsyslog_modules {
                options.extend(["-M".into(), modules.into()]);
            }
            Server {
                arguments: options,
                template: Some(template),
                ..server(name, &arguments.rsyslogd)
            }
        };
        servers.push(peer("rsyslog", include_str!("../../../bench/network/rsyslog.conf")));
        servers
            .push(peer("rsyslog-json", include_str!("../../../bench/network/rsyslog-json.conf")));
    } else {
        missing("rsyslog", "--rsyslogd");
    }
    if is_there(&arguments.syslog_ng) {
        servers.push(Server {
            arguments: [
                "-F",
                "-f",
                "@CONFIG@",
                "-R",
                "@STATE@",
                "-p",
                "@STATE@.pid",
                "-c",
                "@STATE@.ctl",
            ]
            .map(OsString::from)
            .into(),
            template: Some(include_str!("../../../bench/network/syslog-ng.conf")),
            ..server("syslog-ng", &arguments.syslog_ng)
        });
    } else {
        missing("syslog-ng", "--syslog-ng");
    }
    Ok(servers)
}

/// Whether a program can be started.
fn is_there(program: &Path) -> bool {
    let mut asked = Command::new(program);
    // rsyslog knows only the short form.
    asked.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok()
}

fn missing(name: &str, option: &str) {
    eprintln!("SKIPPED: {name} is not installed, and {option} does not name it");
}

impl Server {
    /// Starts it on this port of the loopback address, to write to this file. Its log and configuration go
    /// to the folder.
    pub(super) fn start(&self, port: u16, output: &Path, folder: &Path) -> Result<Started> {
        let config = folder.join(format!("{}.conf", self.name));
        let state = folder.join(format!("{}.state", self.name));
        if let Some(template) = self.template {
            let text = template
                .replace("@PORT@", &port.to_string())
                .replace("@OUTPUT@", &output.display().to_string())
                .replace("@FOLDER@", &folder.display().to_string());
            running::write(&config, &text)?;
        }
        let _ = fs::remove_file(&state);
        let log = File::create(folder.join(format!("{}.log", self.name)))?;
        let mut command = Command::new(&self.program);
        for argument in &self.arguments {
            let argument = argument.to_string_lossy();
            let argument = argument.replace("@CONFIG@", &config.display().to_string());
            command.arg(argument.replace("@STATE@", &state.display().to_string()));
        }
        if self.name == "bare-loop" {
            command.arg(port.to_string()).arg(output);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("PORT", port.to_string()).env("OUTPUT", output);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn();
        Ok(Started(child.with_context(|| format!("cannot start {}", self.program.display()))?))
    }
}

impl Started {
    /// The processor time that it has taken.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        running::processor_time(self.0.id())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
