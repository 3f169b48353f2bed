//! Keys of objects: the text of a template for an event, with a part that makes the key unique.

use std::hash::{BuildHasher, Hasher, RandomState};

use tremor_pdk::{
    Error, EventRef, Result,
    template::{Template, TimeCache},
};

use super::{config::Compression, time};
use crate::exchange::Text;

/// Maximum length of a key of S3, in bytes.
const MOST: usize = 1_024;

/// Maximum length of the part that makes a key unique, in bytes.
const UNIQUE: usize = 1 + 16 + 1 + 12 + 1 + 20;

/// Text that stands for a field or a time where only the fixed text of a template is checked.
const FIELD: char = '\u{1}';

/// Template of keys.
pub(super) struct KeyTemplate {
    text: Text,
    /// Length of the extension in bytes. It begins at the first point of the last segment that follows all fields.
    extension: usize,
    /// Random number in hexadecimal, which is in all keys of this instance.
    run: String,
}

impl KeyTemplate {
    /// Validates the key `key`.
    ///
    /// # Errors
    /// An error of the kind configuration.
    pub(super) fn new(template: &Template) -> Result<Self> {
        let invalid = |problem: &str| {
            Err(Error::configuration(format_args!("invalid `key` `{template}`: {problem}")))
        };
        let shape = template.shape(&FIELD.to_string());
        if shape.is_empty() {
            return invalid("expected a text such as `{:+%Y/%m/%d}/events.ndjson`; it is empty");
        }
        if shape.starts_with('/') {
            return invalid("expected a text that does not begin with `/`; S3 has no root folder");
        }
        let mut segments = shape.split('/').peekable();
        while let Some(segment) = segments.next() {
            // A key may end with a slash, because the unique part follows.
            if segment.is_empty() && segments.peek().is_some() {
                return invalid("a folder has no name; remove a `/`");
            }
            if segment == "." || segment == ".." {
                return invalid("expected no folder with the name `.` or `..`");
            }
        }
        if shape.chars().any(|it| it != FIELD && it.is_control()) {
            return invalid("expected no control characters");
        }
        let end = shape.rsplit(FIELD).next().unwrap_or_default();
        let end = end.rsplit('/').next().unwrap_or_default();
        let extension = end.find('.').map_or(0, |at| end.len() - at);
        let random = RandomState::new().build_hasher().finish();
        let run = format!("{:012x}", random >> 16);
        let text = Text::new("key", Some(&template.to_string()), template.clone(), MOST - UNIQUE);
        Ok(Self { text, extension, run })
    }

    /// Appends the text for an event, without the unique part.
    ///
    /// # Errors
    /// An error of the kind bad data, which makes the event a dead letter.
    pub(super) fn render(
        &self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
    ) -> Result<()> {
        let start = out.len();
        self.text.render(event, out, cache, |out, at| match &out[at..] {
            "" => Err("a value has no characters"),
            value if value.contains('/') => {
                Err("a value contains `/`, so that the event could choose any folder")
            }
            value if value.contains(char::is_control) => {
                Err("a value contains a control character")
            }
            _ => Ok(()),
        })?;
        if out[start..].split('/').any(|segment| segment == "." || segment == "..") {
            let error = self.text.error("a folder would have the name `.` or `..`");
            out.truncate(start);
            return Err(error);
        }
        Ok(())
    }

    /// Returns the key of an object: `rendered` with the time, the run and a number before the extension.
    pub(super) fn unique(&self, rendered: &str, now_ns: u64, number: u64) -> String {
        let (name, extension) = rendered.split_at(rendered.len() - self.extension);
        let dash = if name.is_empty() || name.ends_with('/') { "" } else { "-" };
        format!("{name}{dash}{}-{}-{number}{extension}", time::stamp(now_ns), self.run)
    }
}

/// Format of compressed objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Gzip,
    Zstd,
}

impl Format {
    /// Returns the format of objects with this key, or `None` if they are not compressed.
    pub(super) fn of(compression: Compression, key: &Template) -> Option<Self> {
        match compression {
            Compression::None => None,
            Compression::Gzip => Some(Self::Gzip),
            Compression::Zstd => Some(Self::Zstd),
            Compression::Auto => match key.shape(&FIELD.to_string()).rsplit_once('.')?.1 {
                "gz" => Some(Self::Gzip),
                "zst" => Some(Self::Zstd),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        literal,
        template::{Template, TimeCache},
        testing::batch_with_fields,
    };

    use super::{Format, KeyTemplate};
    use crate::s3::config::Compression;

    fn template(text: &str) -> Template {
        text.parse().unwrap()
    }

    #[test]
    fn unique_part_is_before_the_extension() {
        for (key, rendered, expected) in [
            (
                "a/events.ndjson.gz",
                "a/events.ndjson.gz",
                "a/events-19700101T000001Z-RUN-7.ndjson.gz",
            ),
            ("{host}/{:+%H}/x.log", "h.a/07/x.log", "h.a/07/x-19700101T000001Z-RUN-7.log"),
            ("{host}.log", "a.b.log", "a.b-19700101T000001Z-RUN-7.log"),
            ("l/{host}", "l/a.b", "l/a.b-19700101T000001Z-RUN-7"),
            ("l.d/{host}-x", "l.d/a.b-x", "l.d/a.b-x-19700101T000001Z-RUN-7"),
            ("logs/", "logs/", "logs/19700101T000001Z-RUN-7"),
            ("logs/.gz", "logs/.gz", "logs/19700101T000001Z-RUN-7.gz"),
        ] {
            let mut found = KeyTemplate::new(&template(key)).unwrap();
            assert_eq!(found.run.len(), 12);
            "RUN".clone_into(&mut found.run);
            assert_eq!(found.unique(rendered, 1_000_000_000, 7), expected, "{key}");
        }
    }

    #[test]
    fn runs_have_different_keys() {
        let run = || KeyTemplate::new(&template("x")).unwrap().unique("x", 0, 1);
        assert_ne!(run(), run());
    }

    #[test]
    fn unusable_key_is_rejected() {
        for (key, expected) in [
            ("", "it is empty"),
            ("/a", "begin with `/`"),
            ("a//b", "has no name"),
            ("a/../b", "`.` or `..`"),
            ("{a}/.", "`.` or `..`"),
            ("a\tb", "control characters"),
        ] {
            let error = KeyTemplate::new(&template(key)).err().unwrap().to_string();
            assert!(error.contains(expected), "{key}: {error}");
        }
    }

    #[test]
    fn value_cannot_choose_a_folder() {
        let key = template("{host}/x");
        let keys = KeyTemplate::new(&key).unwrap();
        let long = "x".repeat(1_000);
        for (host, expected) in [
            ("a b", Ok("a b/x")),
            ("", Err("no characters")),
            ("a/b", Err("contains `/`")),
            ("a\n", Err("control character")),
            ("..", Err("`.` or `..`")),
            (&long, Err("is longer than")),
        ] {
            let event = literal!({ "host": host.to_owned() });
            let batch = batch_with_fields([&key], &[("", event)]);
            let mut text = String::new();
            let rendered =
                keys.render(batch.first().unwrap(), &mut text, &mut TimeCache::default());
            match expected {
                Ok(expected) => assert_eq!((rendered, &*text), (Ok(()), expected)),
                Err(part) => {
                    let error = rendered.unwrap_err().to_string();
                    assert!(error.contains(part) && text.is_empty(), "{error}");
                }
            }
        }
    }

    #[test]
    fn format_is_that_of_the_end_of_the_key() {
        for (key, format) in [
            ("a.gz", Some(Format::Gzip)),
            ("{a}.ndjson.zst", Some(Format::Zstd)),
            ("a.gz/{b}", None),
            ("{a}gz", None),
            ("a", None),
        ] {
            assert_eq!(Format::of(Compression::Auto, &template(key)), format, "{key}");
        }
        assert_eq!(Format::of(Compression::Gzip, &template("a")), Some(Format::Gzip));
        assert_eq!(Format::of(Compression::None, &template("a.gz")), None);
    }
}
