//! File permissions in octal digits.

use tremor_pdk::{Error, schemars::JsonSchema, serde::Deserialize};

/// Permissions of a file in octal digits: `0660`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(crate = "tremor_pdk::serde", try_from = "String")]
// The schema of this type has no description, because the key that uses this type has one.
#[schemars(
    crate = "tremor_pdk::schemars",
    inline,
    description = "",
    extend("pattern" = "^0?[0-7]{3}$", "examples" = ["0660"])
)]
pub struct Mode(u32);

impl Mode {
    /// Returns the permissions as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Mode {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let digits = if text.len() == 4 { text.strip_prefix('0') } else { Some(&*text) };
        let mode = digits.filter(|digits| digits.len() == 3);
        mode.and_then(|digits| u32::from_str_radix(digits, 8).ok()).map(Self).ok_or_else(|| {
            let message = format!(
                "invalid mode `{text}`: expected three octal digits, such as `660` or `0660`"
            );
            Error::configuration(message)
        })
    }
}
