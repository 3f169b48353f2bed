//! Syntax of the names of connectors, pipelines, ports and flows.

/// Description of the syntax in messages.
pub(crate) const FORM: &str =
    "a name starts with a letter or `_` and continues with letters, digits, `_` and `-`";

/// Returns whether a name matches `[A-Za-z_][A-Za-z0-9_-]*`.
pub(crate) fn is_valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
