//! What references refer to.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    io::{self, Read},
    path::Path,
};

use super::{
    super::{diagnostic::Severity, suggest::quote},
    To,
};

/// How large a file may be that a reference names, in bytes.
const FILE: u64 = 1 << 20;

/// What the references of a flow file refer to, and what it means if that is missing.
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

/// The variables of this process; what is missing is an error.
impl Default for Environment<'_> {
    fn default() -> Self {
        Self { variable: &|name: &str| env::var_os(name), missing: Severity::Error }
    }
}

impl<'v> Environment<'v> {
    /// With these variables in place of those of the process.
    #[must_use]
    pub fn variables(self, variable: &'v dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { variable, ..self }
    }

    /// A variable that is not set, or a file that cannot be read, is a warning, and its value is not
    /// checked: for flows that are to run elsewhere. A flow with such a warning is not to be run.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { missing: Severity::Warning, ..self }
    }

    /// The value of a reference in a file of `folder`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn value(&self, to: To<'_>, folder: &Path) -> Result<String, Missing> {
        match to {
            To::Variable { name, default } => self.value_of(name, default),
            To::File(path) => self.contents(&folder.join(path)),
        }
    }

    fn value_of(&self, name: &str, default: Option<&str>) -> Result<String, Missing> {
        match ((self.variable)(name), default) {
            // As a shell has it: an empty value is as good as none.
            (value, Some(default)) if value.as_ref().is_none_or(|value| value.is_empty()) => {
                Ok(default.to_owned())
            }
            (Some(value), _) => value.into_string().map_err(|_| Missing {
                severity: Severity::Error,
                message: format!("the value of the variable {} is not UTF-8", quote(name)),
                help: "set it to a text in UTF-8; `base64` makes one of any bytes".to_owned(),
            }),
            (None, _) => Err(Missing {
                severity: self.missing,
                message: format!("the variable {} is not set", quote(name)),
                help: format!("set it, or write a default: `${{env:{name}:-…}}`"),
            }),
        }
    }

    fn contents(&self, path: &Path) -> Result<String, Missing> {
        let shown = path.display();
        let unreadable = |why: &dyn fmt::Display| Missing {
            severity: self.missing,
            message: format!("{shown}: the file cannot be read: {why}"),
            help: "a relative path starts from the folder of the flow file".to_owned(),
        };
        // To open a pipe would wait for another process.
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
        };
        if bytes.len() as u64 > FILE {
            let message = format!("the file is larger than {FILE} bytes, the limit for a value");
            return Err(wrong(message, "data belongs in files that connectors read"));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let message = format!("the file is not UTF-8: byte {valid} cannot stand there");
            wrong(message, "save it as UTF-8; `base64` makes a text of any bytes")
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

/// Why a reference has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) help: String,
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt, path::Path};

    use super::{super::To, Environment, FILE, Severity};

    /// The value of a variable with this default, where `SET`, `EMPTY` and `BYTES` are set.
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
    fn a_default_stands_for_a_variable_that_is_not_set_or_empty() {
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
    fn of_a_file_all_is_the_value_but_for_one_line_break_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let value = |contents: &[u8]| {
            fs::write(folder.path().join("value"), contents).expect("writable");
            Environment::default().value(To::File("value"), folder.path()).map_err(|it| it.message)
        };
        assert_eq!(value(b"text\n"), Ok("text".to_owned()));
        assert_eq!(value(b"text\r\n"), Ok("text".to_owned()));
        assert_eq!(value(b" a\nb\n\n"), Ok(" a\nb\n".to_owned()));
        assert_eq!(value(b""), Ok(String::new()));
        assert!(
            value(b"ab\xff").is_err_and(|it| it.ends_with("not UTF-8: byte 2 cannot stand there"))
        );
        let most = usize::try_from(FILE).expect("fits");
        assert_eq!(value(&vec![b'x'; most]).map(|it| it.len()), Ok(most));
        assert!(value(&vec![b'x'; most + 1]).is_err_and(|it| it.contains("larger than 1048576")));
    }

    #[test]
    fn what_is_missing_is_as_grave_as_was_asked_for_and_what_is_wrong_is_an_error() {
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
