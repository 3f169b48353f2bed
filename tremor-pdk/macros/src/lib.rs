//! The attributes of `tremor-pdk`, which re-exports them. They put other attributes in front of an
//! item and look at nothing, so that they need no parser, and build in no time.

use proc_macro::TokenStream;

const CONFIG: &str = r#"
    #[derive(::tremor_pdk::serde::Deserialize, ::tremor_pdk::schemars::JsonSchema)]
    #[serde(crate = "::tremor_pdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tremor_pdk::schemars")]
"#;

/// `tremor_pdk::config`, which documents it: an example there can use the rest of that crate.
#[proc_macro_attribute]
pub fn config(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    // The text is a constant, and is made of attributes.
    let mut attributes: TokenStream = CONFIG.parse().unwrap_or_default();
    attributes.extend(item);
    attributes
}
