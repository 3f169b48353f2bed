//! The checkpoint file: the cursor up to which entries are acknowledged.

use std::path::Path;

use tremor_pdk::{
    Error, Result, StateFile, StateFileNames,
    serde::{Deserialize, Serialize},
};

use crate::point::Point;

/// Format version of the checkpoint.
const VERSION: u64 = 1;

#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Content {
    version: u64,
    /// Cursor of the last acknowledged entry; `None` before the first acknowledgement.
    #[serde(default)]
    cursor: Option<String>,
    /// Time at which the first run started to read, if it is not the start of the journal.
    #[serde(default)]
    since: Option<String>,
}

/// The checkpoint file, which only one source uses.
#[derive(Debug)]
pub(crate) struct Checkpoint(StateFile);

impl Checkpoint {
    /// Opens and locks the checkpoint, and returns its point. If the file does not exist, creates it with the point
    /// `start`. May block.
    pub(crate) fn open(path: &Path, start: Point) -> Result<(Self, Point)> {
        let (file, bytes) = StateFile::open(path, StateFileNames::CHECKPOINT, &text(&start)?)?;
        let point = bytes.map_or(Ok(start), |bytes| parse(&bytes, path))?;
        Ok((Self(file), point))
    }

    /// Writes the point. It is durable on disk when this function returns. May block.
    pub(crate) fn save(&self, point: &Point) -> Result<()> {
        self.0.replace(|| text(point))
    }
}

/// Returns the contents of a checkpoint.
fn text(point: &Point) -> Result<Vec<u8>> {
    let (cursor, since) = match point {
        Point::Start => (None, None),
        Point::Since(time) => (None, Some(time.to_string())),
        Point::Cursor(cursor) => (Some(cursor.to_string()), None),
    };
    let content = Content { version: VERSION, cursor, since };
    let text = serde_json::to_string_pretty(&content).map_err(Error::internal)? + "\n";
    Ok(text.into_bytes())
}

fn parse(bytes: &[u8], path: &Path) -> Result<Point> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::configuration(format!(
            "cannot read the checkpoint `{}`: {why}; replace it with a good copy, or delete it to start according to \
             `since`",
            path.display()
        ))
    };
    let content: Content = serde_json::from_slice(bytes).map_err(|error| {
        unusable(&format_args!("it is damaged, or is not a checkpoint ({error})"))
    })?;
    match content {
        Content { version: VERSION, cursor: Some(cursor), .. } => Ok(Point::Cursor(cursor.into())),
        Content { version: VERSION, since: Some(since), .. } => Ok(Point::Since(since.into())),
        Content { version: VERSION, .. } => Ok(Point::Start),
        Content { version, .. } => Err(unusable(&format_args!(
            "it has version {version}, but this plugin supports version {VERSION}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Checkpoint, Point};

    #[test]
    fn point_is_read_again_and_a_second_source_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let since = Point::Since("@1.5".into());
        let (mut checkpoint, point) = Checkpoint::open(&path, since.clone()).unwrap();
        assert_eq!(point, since);
        let error = Checkpoint::open(&path, Point::Start).unwrap_err();
        assert!(error.to_string().contains("another source") && !error.is_final(), "{error}");
        drop(checkpoint);
        (checkpoint, _) = Checkpoint::open(&path, Point::Start).unwrap();
        let cursor = Point::Cursor("s=1".into());
        checkpoint.save(&cursor).unwrap();
        assert!(Checkpoint::open(&path, Point::Start).is_err(), "the new file is locked too");
        drop(checkpoint);
        assert_eq!(Checkpoint::open(&path, Point::Start).unwrap().1, cursor);
    }

    #[test]
    fn damaged_checkpoint_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        for text in ["", "{}", r#"{"version":2}"#, r#"{"version":1,"cursor":"s=1"#, "\0\0"] {
            fs::write(&path, text).unwrap();
            let error = Checkpoint::open(&path, Point::Start).unwrap_err();
            assert!(error.is_final() && error.to_string().contains("delete it"), "{error}");
        }
    }
}
