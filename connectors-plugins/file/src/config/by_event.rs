//! Paths of sinks that are templates, so that each event names its file.

use std::{path::Path, sync::Arc};

use tremor_pdk::{Error, Result, prelude::*, template::Template};

use crate::{
    compression::{Compression, Format},
    open::TOO_LONG,
};

/// Maximum bytes of the name of a folder or a file.
pub(crate) const NAME_MAX: usize = 255;

/// Text that stands for a field or a time where only the fixed text of a template is checked.
const FIELD: char = '\u{1}';

/// A path with fields or times.
#[derive(Debug)]
pub(crate) struct ByEvent {
    pub(crate) template: Template,
    /// Folder below which all files are: the text before the first field or time, up to its last `/`.
    pub(crate) base: Arc<Path>,
    /// Number of bytes of that text.
    pub(crate) fixed_bytes: usize,
    /// Compression by the text after the last field or time, so that no value can choose it.
    pub(crate) format: Option<Format>,
}

/// The path of a sink.
#[derive(Debug)]
pub(crate) enum SinkPath {
    /// The path of a file, in which `{{` and `}}` are replaced by braces.
    File(String),
    ByEvent(ByEvent),
}

impl SinkPath {
    /// Parses the value of the key `path`.
    pub(crate) fn parse(
        path: &str,
        compression: Compression,
        context: &ComponentContext,
    ) -> Result<Self> {
        let template: Template = path.parse().map_err(|error| {
            let help = "write `{{` and `}}` for braces of the path";
            Error::configuration(format!("invalid `path` `{path}`: {error}; {help}"))
        })?;
        if let Some(path) = template.constant() {
            return Ok(Self::File(path.to_owned()));
        }
        let invalid =
            |problem: &str| Error::configuration(format!("invalid `path` `{template}`: {problem}"));
        let fixed_bytes = template.prefix().rfind('/').map_or(0, |at| at + 1);
        let (fixed, _) = template.prefix().split_at(fixed_bytes);
        if fixed.starts_with('/') && Path::new(fixed).file_name().is_none() {
            return Err(invalid(
                "expected a folder before the first field, such as `/var/log/remote/{host}.log`, because an event \
                 could otherwise name any folder of the system",
            ));
        }
        if fixed.contains('\0') {
            return Err(invalid("expected text without NUL"));
        }
        let shape = template.shape(&FIELD.to_string());
        expect_names(&shape[fixed_bytes..]).map_err(|problem| invalid(problem.message()))?;
        // A default that names no file is a mistake of the path, and not of the events that would get the default.
        let of_defaults = template.shape_of_defaults(&FIELD.to_string());
        expect_names(&of_defaults[fixed_bytes..]).map_err(|problem| {
            invalid(&format!(
                "for an event that gets the defaults: {}; change the default",
                problem.message()
            ))
        })?;
        let suffix = shape.rsplit(FIELD).next().unwrap_or_default();
        // A name before the suffix, because a name that begins with a point has no extension.
        let format = compression.of(Path::new(&format!("x{suffix}")));
        let base = context.resolve(Path::new(if fixed.is_empty() { "." } else { fixed })).into();
        Ok(Self::ByEvent(ByEvent { template, base, fixed_bytes, format }))
    }
}

/// Checks the names of the folders and of the file in a path, in which [`FIELD`] is in place of values.
///
/// # Errors
/// An error of the kind configuration for the first invalid name.
fn expect_names(path: &str) -> Result<()> {
    for name in path.split('/') {
        if name.is_empty() {
            return Err(Error::configuration(
                "a folder or the file has no name; remove a `/`, or add a name",
            ));
        }
        let fixed = name.len() - name.matches(FIELD).count();
        if fixed > NAME_MAX {
            return Err(Error::configuration(format_args!(
                "a name has {fixed} bytes without its fields, expected at most {NAME_MAX}; shorten it"
            )));
        }
        if name == "." || name == ".." {
            return Err(Error::configuration(format_args!(
                "expected no `{name}` after the first field"
            )));
        }
        if name.chars().any(|it| it != FIELD && it.is_control()) {
            return Err(Error::configuration(
                "expected no control characters after the first field",
            ));
        }
    }
    Ok(())
}

impl ByEvent {
    /// Returns an error if the folder of the files does not exist. May block.
    pub(crate) fn expect_base(&self) -> Result<()> {
        let problem = match std::fs::metadata(&self.base) {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Ok(_) => "it is not a folder; correct `path`".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => {
                TOO_LONG.to_owned()
            }
            Err(error) => format!("{error}; create the folder, or correct `path`"),
        };
        let folder = self.base.display();
        Err(Error::configuration(format!("cannot write files below `{folder}`: {problem}")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tremor_pdk::{Result, testing::TestHost};

    use super::{ByEvent, SinkPath};
    use crate::compression::{Compression, Format};

    fn parse(path: &str) -> Result<SinkPath> {
        SinkPath::parse(path, Compression::Auto, &TestHost::new().context())
    }

    fn by_event(path: &str) -> ByEvent {
        match parse(path).unwrap() {
            SinkPath::ByEvent(by_event) => by_event,
            SinkPath::File(path) => panic!("{path}"),
        }
    }

    #[test]
    fn fixed_start_ends_with_last_slash_before_first_field() {
        for (path, base, fixed_bytes) in [
            ("/var/log/{host}/x.log", "/var/log/", 9),
            ("/var/log/x-{host}.log", "/var/log/", 9),
            ("logs/{:+%F}", "logs/", 5),
            ("../logs/{{a}}/{host}", "../logs/{a}/", 12),
            ("{host}.log", ".", 0),
            ("l/{host:-unknown/x}{n:-}.log", "l/", 2),
        ] {
            let found = by_event(path);
            assert_eq!((&*found.base, found.fixed_bytes), (Path::new(base), fixed_bytes), "{path}");
        }
    }

    #[test]
    fn path_without_fields_is_a_constant() {
        let SinkPath::File(path) = parse("logs/{{a}}.log").unwrap() else { panic!() };
        assert_eq!(path, "logs/{a}.log");
    }

    #[test]
    fn value_cannot_choose_the_compression() {
        for (path, format) in [
            ("l/{host}.log.gz", Some(Format::Gzip)),
            ("l/{host}.gz", Some(Format::Gzip)),
            ("l/{host}/out.zst", Some(Format::Zstd)),
            ("l/{host}gz", None),
            ("l/{host}", None),
            ("l/x.gz/{host}", None),
            ("l/{host:-a.gz}", None),
        ] {
            assert_eq!(by_event(path).format, format, "{path}");
        }
    }

    /// Returns a path whose last name has 256 bytes besides its fields.
    fn long(start: &str) -> String {
        format!("{start}{}", "x".repeat(256))
    }

    #[test]
    fn template_that_can_leave_its_folder_is_rejected() {
        for (path, expected) in [
            ("/{host}", "expected a folder before the first field"),
            ("//{host}/x", "expected a folder before the first field"),
            ("/../{host}", "expected a folder before the first field"),
            ("l/{host}/../x", "expected no `..`"),
            ("l/{host}/./x", "expected no `.`"),
            ("l/{host}//x", "has no name"),
            ("l/{host}/", "has no name"),
            ("l/{host", "invalid template"),
            ("l/host}", "invalid template"),
            ("l/{a,b}", "invalid template"),
            ("l/{host}\n", "control characters"),
            (
                "l/{host:-../x}",
                "gets the defaults: expected no `..` after the first field; change the default",
            ),
            ("l/{host:-}", "gets the defaults: a folder or the file has no name"),
            ("l/{host:-a}/{:+%F:-a//b}", "gets the defaults: a folder or the file has no name"),
            ("l/{host:-unknown/{:+%F}.log", "expected `}` before this `{`"),
            ("l/{host}/{:+YYYY}.log", "has no `%`"),
            (&long("l/{host}/"), "a name has 256 bytes without its fields, expected at most 255"),
            (&long("l/{host}"), "a name has 256 bytes without its fields"),
            (
                &format!("l/{{host:-{}}}", "x".repeat(256)),
                "gets the defaults: a name has 256 bytes",
            ),
        ] {
            let error = parse(path).unwrap_err().to_string();
            assert!(error.contains(expected), "{path}: {error}");
        }
    }
}
