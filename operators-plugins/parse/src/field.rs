//! Names of fields in messages.

use tremor_pdk::Field;

/// Returns the name of a field in messages.
pub(crate) fn name(field: &Field) -> String {
    if field.is_payload() { "the event".to_owned() } else { format!("`{field}`") }
}
