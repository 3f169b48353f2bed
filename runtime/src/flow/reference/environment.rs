//! Values of references.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    io::{self, Read},
    path::Path,
};

use tremor_pdk::names_credentials;

use super::{
    super::{diagnostic::Severity, suggest::quote},
    To,
};

/// Maximum size of a file that a reference names, in bytes.
const FILE: u64 = 1 << 20;

/// Source of the values of references. Also determines whether a missing value is an error or a warning.
#[derive(Clone, Copy)]
pub struct Environment<'v> {
    variable: &'v dyn Fn(&str) -> Option<OsString>,
    missing: Severity,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("missing", &self.missing).finish_non_exhaustive()
    }
}

/// Uses the variables of this process. A missing value is an error.
impl Default for Environment<'_> {
    fn default() -> Self {
        Self { variable: &|name: &str| env::var_os(name), missing: Severity::Error }
    }
}

impl<'v> Environment<'v> {
    /// Makes the environment use `variable` instead of the variables of the process.
    #[must_use]
    pub fn variables(self, variable: &'v dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { variable, ..self }
    }

    /// Makes a missing value a warning instead of an error, for checking flows that are to run on another machine.
    ///
    /// If a variable is not set or a file cannot be read, the value is not checked. A flow with such a warning must not
    /// be run.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { missing: Severity::Warning, ..self }
    }

    /// Returns the value of a reference in a flow file in `folder`.
    ///
    /// # Errors
    /// Returns the reason why the reference has no value.
    pub(crate) fn value(&self, to: To<'_>, folder: &Path) -> Result<String, Missing> {
        match to {
            To::Variable { name, default } => self.value_of(name, default),
            To::File(path) => self.contents(&folder.join(path)),
        }
    }

    fn value_of(&self, name: &str, default: Option<&str>) -> Result<String, Missing> {
        match ((self.variable)(name), default) {
            // If there is a default, an empty value counts as not set, as with `${NAME:-…}` in a shell.
            (value, Some(default)) if value.as_ref().is_none_or(|value| value.is_empty()) => {
                Ok(default.to_owned())
            }
            (Some(value), _) => value.into_string().map_err(|_| Missing {
                severity: Severity::Error,
                message: format!("the value of the variable {} is not UTF-8", quote(name)),
                help: "set it to text in UTF-8; encode other bytes with `base64`".to_owned(),
                open_help: None,
            }),
            (None, _) => Err(Missing {
                severity: self.missing,
                message: format!("the variable {} is not set", quote(name)),
                help:
                    "set it where the flow runs, or write `${file:PATH}` for a file with the value"
                        .to_owned(),
                // The default of a secret would be a secret in the flow file.
                open_help: (!names_credentials(name))
                    .then(|| format!("set it, or write a default: `${{env:{name}:-…}}`")),
            }),
        }
    }

    fn contents(&self, path: &Path) -> Result<String, Missing> {
        let shown = path.display();
        let unreadable = |why: &dyn fmt::Display| Missing {
            severity: self.missing,
            message: format!("{shown}: cannot read the file: {why}"),
            help: "a relative path is resolved against the folder of the flow file".to_owned(),
            open_help: None,
        };
        // Opening a named pipe would wait for another process.
        match fs::metadata(path) {
            Ok(about) if about.is_file() => {}
            Ok(_) => return Err(unreadable(&"it is not a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(unreadable(&"there is no such file"));
            }
            Err(error) => return Err(unreadable(&error)),
        }
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(&error))?;
        let wrong = |message: String, help: &str| Missing {
            severity: Severity::Error,
            message: format!("{shown}: {message}"),
            help: help.to_owned(),
            open_help: None,
        };
        if bytes.len() as u64 > FILE {
            let message = format!("the file is larger than {FILE} bytes, the limit for a value");
            return Err(wrong(message, "read large data with a connector"));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let message = format!("the file is not UTF-8: byte {valid} is not valid");
            wrong(message, "save it as UTF-8; encode other bytes with `base64`")
        })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// Reason why a reference has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) help: String,
    /// Help in place of `help` for a value that is not a secret.
    pub(crate) open_help: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt, path::Path};

    use super::{super::To, Environment, FILE, Severity};

    /// Returns the value of a variable with this default. The variables `SET`, `EMPTY` and `BYTES` are set.
    fn variable(name: &str, default: Option<&str>) -> Result<String, String> {
        let variable = |name: &str| match name {
            "SET" => Some(OsString::from("set here")),
            "EMPTY" => Some(OsString::new()),
            "BYTES" => Some(OsString::from_vec(vec![0xff])),
            _ => None,
        };
        let environment = Environment::default().variables(&variable);
        let value = environment.value(To::Variable { name, default }, Path::new(""));
        value.map_err(|missing| missing.message)
    }

    #[test]
    fn default_replaces_unset_or_empty_variable() {
        assert_eq!(variable("SET", None), Ok("set here".to_owned()));
        assert_eq!(variable("SET", Some("default")), Ok("set here".to_owned()));
        assert_eq!(variable("NONE", Some("default")), Ok("default".to_owned()));
        assert_eq!(variable("NONE", Some("")), Ok(String::new()));
        assert_eq!(variable("EMPTY", Some("default")), Ok("default".to_owned()));
        assert_eq!(variable("EMPTY", None), Ok(String::new()));
        assert_eq!(variable("NONE", None), Err("the variable `NONE` is not set".to_owned()));
        let expected = "the value of the variable `BYTES` is not UTF-8";
        assert_eq!(variable("BYTES", Some("x")), Err(expected.to_owned()));
    }

    #[test]
    fn one_line_break_at_end_of_file_is_not_part_of_value() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let value = |contents: &[u8]| {
            fs::write(folder.path().join("value"), contents).expect("writable");
            Environment::default().value(To::File("value"), folder.path()).map_err(|it| it.message)
        };
        assert_eq!(value(b"text\n"), Ok("text".to_owned()));
        assert_eq!(value(b"text\r\n"), Ok("text".to_owned()));
        assert_eq!(value(b" a\nb\n\n"), Ok(" a\nb\n".to_owned()));
        assert_eq!(value(b""), Ok(String::new()));
        assert!(value(b"ab\xff").is_err_and(|it| it.ends_with("not UTF-8: byte 2 is not valid")));
        let most = usize::try_from(FILE).expect("fits");
        assert_eq!(value(&vec![b'x'; most]).map(|it| it.len()), Ok(most));
        assert!(value(&vec![b'x'; most + 1]).is_err_and(|it| it.contains("larger than 1048576")));
    }

    #[test]
    fn missing_value_has_configured_severity_invalid_is_error() {
        let elsewhere = Environment::default().variables(&|_| None).elsewhere();
        let folder = tempfile::tempdir().expect("a folder for tests");
        fs::write(folder.path().join("bytes"), b"\xff").expect("writable");
        let severity = |to| elsewhere.value(to, folder.path()).map_err(|missing| missing.severity);
        assert_eq!(severity(To::Variable { name: "A", default: None }), Err(Severity::Warning));
        assert_eq!(severity(To::File("none")), Err(Severity::Warning));
        assert_eq!(severity(To::File(".")), Err(Severity::Warning));
        assert_eq!(severity(To::File("bytes")), Err(Severity::Error));
    }
}
