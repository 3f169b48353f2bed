//! The `config` section of the connector in a flow file.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    process::{Command, Stdio},
};

use tremor_pdk::{ErrorKind, prelude::*, units::Interval};

use crate::limit;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The program: a name that is searched for in `PATH`, or a path relative to the folder of the
    /// flow file. No shell is involved.
    #[schemars(extend("examples" = ["cat"]))]
    pub command: String,
    /// Arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the process, in addition to those of the runtime.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub env: BTreeMap<String, String>,
    /// Working directory of the process. Default: that of the runtime.
    pub working_directory: Option<PathBuf>,
    /// Condition under which the process is restarted after it has ended.
    #[serde(default)]
    pub restart: Restart,
    /// Maximum time for the process to end after the last event, once its standard input is closed,
    /// such as `1m`. Has no effect if the output of the process is a source.
    #[serde(default = "default_stop_timeout")]
    pub stop_timeout: Interval,
}

/// Condition under which the process is restarted after it has ended.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// After every end.
    Always,
    /// After a failure: the exit status was not zero, or a signal ended the process.
    #[default]
    OnFailure,
    /// Never. If the process fails, the connector fails.
    Never,
}

fn default_stop_timeout() -> Interval {
    Interval::of_ms(5_000)
}

impl Config {
    /// Validates the configuration.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong =
            |key: &str, what: &str| Err(Error::configuration(format!("invalid `{key}`: {what}")));
        if self.command.is_empty() {
            return wrong("command", "expected the name or the path of a program; it is empty");
        }
        if self.command.contains('\0') {
            return wrong("command", "a program name must not contain a NUL byte");
        }
        if let Some(position) = self.args.iter().position(|it| it.contains('\0')) {
            return wrong(&format!("args[{position}]"), "an argument must not contain a NUL byte");
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return wrong(
                    "env",
                    &format!("the name `{name}` must not be empty or contain `=` or a NUL byte"),
                );
            }
            if value.contains('\0') {
                return wrong(&format!("env.{name}"), "a variable must not contain a NUL byte");
            }
        }
        Ok(())
    }

    /// Returns the program to start: a name unchanged, and a path resolved against the folder of
    /// the flow file.
    fn program(&self, host: &Host) -> PathBuf {
        if self.command.contains('/') {
            host.resolve(&self.command)
        } else {
            (&self.command).into()
        }
    }

    /// Returns the command that starts the process.
    pub(crate) fn command(&self, host: &Host) -> Command {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(self.program(host));
        command.args(&self.args).envs(&self.env);
        if let Some(folder) = &self.working_directory {
            command.current_dir(host.resolve(folder));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Create a process group, so that the child processes can be ended together with the
        // process.
        command.process_group(0);
        if let Some(limit) = host.inherited_descriptor_limit() {
            limit::set(&mut command, limit);
        }
        command
    }

    /// Converts the I/O error of a failed start, and adds a remedy.
    pub(crate) fn cannot_start(&self, host: &Host, error: &io::Error) -> Error {
        let command = &self.command;
        if let Some(folder) = self.working_directory.as_ref().map(|folder| host.resolve(folder))
            && !folder.is_dir()
        {
            let folder = folder.display();
            return Error::configuration(format!(
                "cannot start `{command}`: `working_directory` `{folder}` does not exist; create it, or correct \
                 `working_directory`"
            ));
        }
        let program = self.program(host);
        match error.kind() {
            io::ErrorKind::NotFound if command.contains('/') => Error::configuration(format!(
                "cannot start `{command}`: `{}` does not exist, or its interpreter is missing",
                program.display()
            )),
            io::ErrorKind::NotFound => Error::configuration(format!(
                "cannot start `{command}`: no folder of `PATH` contains this program; install it, or set its \
                 path",
            )),
            io::ErrorKind::PermissionDenied => Error::configuration(format!(
                "cannot start `{command}`: `{}` is not executable; allow that with `chmod +x`",
                program.display()
            )),
            _ => {
                let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::CONNECTION_REFUSED);
                Error::new(kind, format!("cannot start `{command}`: {error}"))
            }
        }
    }
}
