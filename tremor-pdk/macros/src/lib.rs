//! The attributes of `tremor-pdk`, which re-exports them. They put other attributes in front of an
//! item and look at nothing, so that they need no parser, and build in no time.

use proc_macro::TokenStream;

const CONFIG: &str = r#"
    #[derive(::tremor_pdk::serde::Deserialize, ::tremor_pdk::schemars::JsonSchema)]
    #[serde(crate = "::tremor_pdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tremor_pdk::schemars")]
"#;

/// Makes a struct or an enum a configuration, or a part of one: it is deserialised from the `config`
/// of a flow file, has a JSON Schema, and refuses keys that it does not know.
///
/// Doc comments are the descriptions in the schema. Everything else is said with the attributes of
/// serde and schemars, as in `#[serde(default)]`; `#[serde(flatten)]` is the one that does not go with
/// it, for then any key may be known.
///
/// ```
/// use std::num::NonZeroU32;
///
/// /// Where to connect to.
/// #[tremor_pdk::config]
/// pub struct Config {
///     /// The name of the peer.
///     host: String,
///     /// How many connections to keep.
///     #[serde(default = "one")]
///     connections: NonZeroU32,
///     #[serde(default)]
///     mode: Mode,
/// }
///
/// /// How to talk.
/// #[tremor_pdk::config]
/// #[derive(Default)]
/// #[serde(rename_all = "snake_case")]
/// enum Mode {
///     #[default]
///     Plain,
///     Encrypted,
/// }
///
/// fn one() -> NonZeroU32 {
///     NonZeroU32::MIN
/// }
/// ```
#[proc_macro_attribute]
pub fn config(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    // The text is a constant, and is made of attributes.
    let mut attributes: TokenStream = CONFIG.parse().unwrap_or_default();
    attributes.extend(item);
    attributes
}
