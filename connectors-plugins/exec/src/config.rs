//! What to start, and when to start it again.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    process::{Command, Stdio},
};

use tremor_pdk::{ErrorKind, prelude::*, units::Interval};

use crate::limit;

/// What to start, and when to start it again.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The program: a name, which is looked for in `PATH`, or a path, which starts at the folder of the flow
    /// file. It is started as it is, by no shell.
    #[schemars(extend("examples" = ["cat"]))]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables of its environment, beside those of this process.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub env: BTreeMap<String, String>,
    /// The folder that it runs in. Unless set, that of this process.
    pub working_directory: Option<PathBuf>,
    /// When it is started again after it has ended.
    #[serde(default)]
    pub restart: Restart,
    /// How long it may take to end once its standard input is closed, after the last event: `1m`. Only where
    /// its output is not a source.
    #[serde(default = "default_stop_timeout")]
    pub stop_timeout: Interval,
}

/// When a process is started again after it has ended.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Whenever it has ended.
    Always,
    /// If it has failed: its exit status is not 0, or a signal has ended it.
    #[default]
    OnFailure,
    /// Never. If it fails, its connector does.
    Never,
}

fn default_stop_timeout() -> Interval {
    Interval::of_ms(5_000)
}

impl Config {
    /// Whether a process can be started with this at all.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |key: &str, what: &str| Err(Error::configuration(format!("`{key}` {what}")));
        if self.command.is_empty() {
            return wrong("command", "is empty: write the name or the path of a program");
        }
        if self.command.contains('\0') {
            return wrong("command", "has a NUL byte, which no program has in its name");
        }
        if let Some(position) = self.args.iter().position(|it| it.contains('\0')) {
            return wrong(
                &format!("args[{position}]"),
                "has a NUL byte, which no argument can have",
            );
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return wrong(
                    "env",
                    &format!("has the name `{name}`: it may not be empty or have `=`"),
                );
            }
            if value.contains('\0') {
                return wrong(&format!("env.{name}"), "has a NUL byte, which no variable can have");
            }
        }
        Ok(())
    }

    /// The program as it is started: a name as it is, a path from the folder of the flow file on.
    fn program(&self, host: &Host) -> PathBuf {
        if self.command.contains('/') {
            host.resolve(&self.command)
        } else {
            (&self.command).into()
        }
    }

    /// What starts it.
    pub(crate) fn command(&self, host: &Host) -> Command {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(self.program(host));
        command.args(&self.args).envs(&self.env);
        if let Some(folder) = &self.working_directory {
            command.current_dir(host.resolve(folder));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What it starts ends with it.
        command.process_group(0);
        if let Some(limit) = host.inherited_descriptor_limit() {
            limit::set(&mut command, limit);
        }
        command
    }

    /// Why it could not be started, and what to do.
    pub(crate) fn cannot_start(&self, host: &Host, error: &io::Error) -> Error {
        let command = &self.command;
        if let Some(folder) = self.working_directory.as_ref().map(|folder| host.resolve(folder))
            && !folder.is_dir()
        {
            let folder = folder.display();
            return Error::configuration(format!(
                "cannot start `{command}`: `working_directory` is `{folder}`, and there is no such folder"
            ));
        }
        let program = self.program(host);
        match error.kind() {
            io::ErrorKind::NotFound if command.contains('/') => Error::configuration(format!(
                "cannot start `{command}`: there is no `{}`, or what it is to be run by is missing",
                program.display()
            )),
            io::ErrorKind::NotFound => Error::configuration(format!(
                "cannot start `{command}`: no folder of `PATH` has a program of this name; install it, or \
                 write its path"
            )),
            io::ErrorKind::PermissionDenied => Error::configuration(format!(
                "cannot start `{command}`: `{}` may not be executed; allow it, as with `chmod +x`",
                program.display()
            )),
            _ => {
                let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::CONNECTION_REFUSED);
                Error::new(kind, format!("cannot start `{command}`: {error}"))
            }
        }
    }
}
