//! Files with credentials in the format of AWS.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use tremor_pdk::{Error, Result};

use super::check;
use crate::s3::sign::Keys;

/// Maximum length of the file, in bytes.
const MOST: u64 = 1 << 20;

/// Returns the keys of a profile. Returns `None` if the file or the profile does not exist, unless `is_required` is
/// set. May block.
pub(super) fn load(path: &Path, profile: &str, is_required: bool) -> Result<Option<Keys>> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound && !is_required => return Ok(None),
        Err(error) => {
            return Err(Error::authentication(format_args!(
                "cannot read the credentials in `{shown}`: {error}; correct `credentials.file.path`"
            )));
        }
        Ok(_) => {}
    }
    match section(&text, profile) {
        None if !is_required => Ok(None),
        None => Err(Error::authentication(format_args!(
            "`{shown}` has no section `[{profile}]`; add it, or correct `credentials.file.profile`"
        ))),
        Some(Section {
            id: Some(access_key_id),
            secret: Some(secret_access_key),
            token: session_token,
        }) => {
            check(&access_key_id, session_token.as_deref(), &format!("`{shown}`"))?;
            Ok(Some(Keys { access_key_id, secret_access_key, session_token }))
        }
        // A profile may have other keys, such as a role.
        Some(_) if !is_required => Ok(None),
        Some(_) => Err(Error::authentication(format_args!(
            "the section `[{profile}]` of `{shown}` has no `aws_access_key_id` or no `aws_secret_access_key`; add both"
        ))),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Section {
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
}

/// Returns the section of a profile.
fn section(text: &str, profile: &str) -> Option<Section> {
    let mut found: Option<Section> = None;
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.split(']').next()) {
            is_inside = name.trim() == profile;
            if is_inside {
                found.get_or_insert_default();
            }
        } else if let Some(section) = found.as_mut().filter(|_| is_inside)
            && let Some((key, value)) = line.split_once('=')
        {
            let value = Some(value.trim()).filter(|it| !it.is_empty()).map(str::to_owned);
            match key.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => section.id = value,
                "aws_secret_access_key" => section.secret = value,
                "aws_session_token" => section.token = value,
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Section, section};

    #[test]
    fn section_of_the_profile_is_read() {
        let text = "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=S=/+\n\n[ other ]\n\
                    aws_access_key_id=B\n; aws_secret_access_key = no\nregion = x\naws_session_token = T\n[empty]\n";
        let some = |text: &str| Some(text.to_owned());
        let default = Section { id: some("A"), secret: some("S=/+"), token: None };
        assert_eq!(section(text, "default"), Some(default));
        assert_eq!(
            section(text, "other"),
            Some(Section { id: some("B"), secret: None, token: some("T") })
        );
        assert_eq!(section(text, "empty"), Some(Section::default()));
        assert_eq!(section(text, "none"), None);
    }
}
