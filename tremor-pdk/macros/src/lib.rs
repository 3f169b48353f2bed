//! The attribute macros of `tremor-pdk`, which re-exports them.
//!
//! The macros only add attributes to an item, and do not parse the item. Therefore this crate has no dependencies and
//! compiles quickly.

use proc_macro::TokenStream;

const CONFIG: &str = r#"
    #[derive(::tremor_pdk::serde::Deserialize, ::tremor_pdk::schemars::JsonSchema)]
    #[serde(crate = "::tremor_pdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tremor_pdk::schemars")]
"#;

/// See `tremor_pdk::config`. The documentation is in that crate, because its example uses items of the crate.
#[proc_macro_attribute]
pub fn config(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    // The text is a constant that contains only attributes, so parsing cannot fail.
    let mut attributes: TokenStream = CONFIG.parse().unwrap_or_default();
    attributes.extend(item);
    attributes
}
