//! The export macro and what it needs at compile time.

use tremor_abi::metadata::{JsonText, Record};
use tremor_abi::version::AbiVersion;

use crate::{CodecRequirement, Connector};

/// What the metadata says of one artefact.
pub struct ArtefactText {
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    codec: CodecRequirement,
}

impl ArtefactText {
    /// That of a connector.
    pub const fn connector<C: Connector>() -> Self {
        Self { kind: "connector", name: C::NAME, description: C::DESCRIPTION, codec: C::CODEC }
    }
}

/// The metadata record of a plugin crate.
///
/// # Panics
/// At compile time: where two artefacts have one name, or the record would be too long.
pub const fn metadata(
    name: &str,
    version: &str,
    description: &str,
    panic: &str,
    artefacts: &[ArtefactText],
) -> Record {
    let abi = AbiVersion::CURRENT;
    let mut json = JsonText::new().raw("{\"name\":").string(name);
    json = json.raw(",\"version\":").string(version);
    json = json.raw(",\"description\":").string(description);
    json = json.raw(",\"abi\":\"").number(abi.major).raw(".").number(abi.minor);
    json = json.raw("\",\"pdk\":").string(env!("CARGO_PKG_VERSION"));
    json = json.raw(",\"panic\":").string(panic).raw(",\"artefacts\":[");
    let mut i = 0;
    while i < artefacts.len() {
        if i > 0 {
            json = json.raw(",");
        }
        json = json.raw("{\"kind\":").string(artefacts[i].kind);
        json = json.raw(",\"name\":").string(artefacts[i].name);
        json = json.raw(",\"description\":").string(artefacts[i].description);
        json = match artefacts[i].codec {
            CodecRequirement::Required => json.raw(",\"codec\":\"required\"}"),
            CodecRequirement::Structured => json.raw(",\"codec\":\"structured\"}"),
            CodecRequirement::Optional(default) => {
                json.raw(",\"codec\":\"optional\",\"default_codec\":").string(default).raw("}")
            }
        };
        let mut other = 0;
        while other < i {
            assert!(!same(artefacts[i].name, artefacts[other].name), "two artefacts have one name");
            other += 1;
        }
        i += 1;
    }
    Record::new(&json.raw("]}"))
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Makes a library a plugin: exports its root module and places its metadata in a section of its
/// own. Once a crate, at its root, naming every connector that it offers:
///
/// ```
/// # mod plugin {
/// # use tremor_pdk::prelude::*;
/// # #[derive(serde::Deserialize, JsonSchema)]
/// # #[serde(crate = "tremor_pdk::serde")]
/// # #[schemars(crate = "tremor_pdk::schemars")]
/// # pub struct Config {}
/// # pub struct Devourer;
/// # impl Connector for Devourer {
/// #     const NAME: &'static str = "devourer";
/// #     type Config = Config;
/// #     type Source = NoSource;
/// #     type Sink = NoSink;
/// #     fn new(_id: &str, _config: Config, _host: Host) -> Result<Self> { Ok(Self) }
/// # }
/// tremor_pdk::export! { connectors: [Devourer] }
/// # }
/// ```
#[macro_export]
macro_rules! export {
    (connectors: [$($connector:ty),+ $(,)?] $(,)?) => {
        #[doc(hidden)]
        pub mod __tremor_plugin {
            #[allow(unused_imports)]
            use super::*;

            /// What the library says about itself without being loaded.
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__tremor_pdk"))]
            #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".tremor"))]
            #[unsafe(no_mangle)]
            #[used]
            pub static TREMOR_PLUGIN_METADATA: $crate::__private::Record =
                $crate::__private::metadata(
                    ::core::env!("CARGO_PKG_NAME"),
                    ::core::env!("CARGO_PKG_VERSION"),
                    ::core::env!("CARGO_PKG_DESCRIPTION"),
                    if ::core::cfg!(panic = "abort") { "abort" } else { "unwind" },
                    &[$($crate::__private::ArtefactText::connector::<$connector>()),+],
                );

            extern "C" fn artefacts() -> $crate::__private::RVec<$crate::__private::ArtefactRef> {
                let mut artefacts = $crate::__private::RVec::new();
                $(artefacts.push($crate::__private::artefact::<$connector>());)+
                artefacts
            }

            extern "C" fn root_module() -> $crate::__private::RootModuleResult {
                $crate::__private::root_module(artefacts)
            }

            /// Where the runtime finds the root module. What abi_stable's own macro makes of it
            /// would need abi_stable among the dependencies of the plugin.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            pub static TREMOR_PLUGIN_HEADER: $crate::__private::LibHeader =
                $crate::__private::header(root_module);
        }
    };
}
