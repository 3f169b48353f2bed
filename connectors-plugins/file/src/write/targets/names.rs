//! Names of files that events choose.

use std::sync::Arc;

use tremor_pdk::{
    Error, EventRef, Result,
    template::{Template, TimeCache},
};

use crate::{
    config::{ByEvent, NAME_MAX},
    write::rotation::{STAMP_BYTES, TORN, is_aside},
};

/// Maximum bytes of a path, the terminator included.
const PATH_MAX: usize = 4_096;
/// Maximum characters of a value in a message.
const SHOWN: usize = 64;

/// Renders the template of a path, and checks the result.
#[derive(Debug)]
pub(super) struct Namer {
    by_event: Arc<ByEvent>,
    cache: TimeCache,
    path: String,
    /// `true` if files are set aside under other names, which are longer.
    sets_aside: bool,
}

impl Namer {
    pub(super) fn new(by_event: Arc<ByEvent>, sets_aside: bool) -> Self {
        Self { by_event, cache: TimeCache::default(), path: String::new(), sets_aside }
    }

    /// Returns the name of an event's file below the fixed start of the path. The name contains the values of the event
    /// only as parts of the components that the template has. [`Namer::check`] has to accept the name.
    pub(super) fn render(&mut self, event: EventRef<'_>) -> Result<&str> {
        let Self { by_event, cache, path, .. } = self;
        path.clear();
        let mut invalid = None;
        let escape = |path: &mut String, start: usize| {
            if invalid.is_none()
                && let Some(expected) = expectation(&path[start..])
            {
                invalid = Some((expected, path[start..].to_owned()));
            }
        };
        let rendered = by_event.template.render_escaped(event, path, cache, escape);
        rendered.map_err(|error| self::error(&by_event.template, &error))?;
        match invalid {
            None => Ok(&path[by_event.fixed_bytes..]),
            Some((expected, value)) => {
                let problem = format_args!("invalid value {}: expected {expected}", shown(&value));
                Err(error(&by_event.template, &problem))
            }
        }
    }

    /// Returns the name that [`Namer::render`] returned last if it is the name of a file below the fixed start.
    pub(super) fn check(&self) -> Result<&str> {
        let name = &self.path[self.by_event.fixed_bytes..];
        let aside = if self.sets_aside { TORN.len() + STAMP_BYTES } else { 0 };
        let file = name.rsplit('/').next().unwrap_or_default();
        let path_bytes = self.by_event.base.as_os_str().len() + 1 + name.len();
        let problem = if name.split('/').any(|it| ["", ".", ".."].contains(&it)) {
            "a folder or a file would have the name `.` or `..` or none".to_owned()
        } else if name.split('/').any(|it| it.len() > NAME_MAX) || file.len() + aside > NAME_MAX {
            format!("expected names of at most {} bytes", NAME_MAX - aside)
        } else if path_bytes + aside >= PATH_MAX {
            format!("expected a path of at most {} bytes, found {path_bytes}", PATH_MAX - 1 - aside)
        } else if self.sets_aside && is_aside(file) {
            "a renamed file of another event could have this name".to_owned()
        } else {
            return Ok(name);
        };
        Err(error(
            &self.by_event.template,
            &format_args!("invalid name {}: {problem}", shown(name)),
        ))
    }
}

/// Returns the description of the values that are allowed, if `value` is not one of them.
fn expectation(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return Some("text that is not empty");
    }
    if !value.bytes().any(|byte| byte < b' ' || byte == b'/' || byte >= 0x7f) {
        return None;
    }
    if value.contains('/') {
        return Some("text without `/`");
    }
    value.contains(char::is_control).then_some("text without control characters")
}

fn error(template: &Template, problem: &dyn std::fmt::Display) -> Error {
    Error::bad_data(format!("cannot name a file by `{template}`: {problem}"))
}

/// Returns a value for a message: quoted, with escaped control characters, and shortened.
fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &value[..end], value.len()),
        None => format!("{value:?}"),
    }
}
