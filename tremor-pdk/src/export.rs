//! The export macro and what it needs at compile time.

use tremor_abi::metadata::{JsonText, Record};
use tremor_abi::version::AbiVersion;

use crate::{CodecRequirement, Component, Connector};

/// What the metadata says of one artefact.
pub struct ArtefactText {
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    /// Of a connector.
    codec: Option<CodecRequirement>,
}

impl ArtefactText {
    /// That of a connector.
    pub const fn connector<C: Connector>() -> Self {
        let codec = Some(C::CODEC);
        Self { kind: "connector", name: C::NAME, description: C::DESCRIPTION, codec }
    }

    /// That of a component of another kind.
    pub const fn component<T: Component>(kind: &'static str) -> Self {
        Self { kind, name: T::NAME, description: T::DESCRIPTION, codec: None }
    }
}

/// The metadata record of a plugin crate.
///
/// # Panics
/// At compile time: where two artefacts of one kind have one name, or the record would be too long.
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
            None => json.raw("}"),
            Some(CodecRequirement::Required) => json.raw(",\"codec\":\"required\"}"),
            Some(CodecRequirement::Structured) => json.raw(",\"codec\":\"structured\"}"),
            Some(CodecRequirement::Optional(default)) => {
                json.raw(",\"codec\":\"optional\",\"default_codec\":").string(default).raw("}")
            }
        };
        let mut other = 0;
        while other < i {
            assert!(
                !same(artefacts[i].name, artefacts[other].name)
                    || !same(artefacts[i].kind, artefacts[other].kind),
                "two artefacts of one kind have one name"
            );
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
/// own. Once a crate, at its root, naming every component that it offers, in this order of kinds:
/// `connectors`, `operators`, `codecs`, `preprocessors`, `postprocessors`; those it has none of are
/// left out.
///
/// ```
/// # mod plugin {
/// # use tremor_pdk::prelude::*;
/// # pub struct Devourer;
/// # impl Component for Devourer {
/// #     const NAME: &str = "devourer";
/// #     type Config = NoConfig;
/// #     fn new(_config: NoConfig, _context: Context) -> Result<Self> { Ok(Self) }
/// # }
/// # impl Connector for Devourer {
/// #     type Source = NoSource;
/// #     type Sink = NoSink;
/// # }
/// tremor_pdk::export! { connectors: [Devourer] }
/// # }
/// ```
#[macro_export]
macro_rules! export {
    (
        $(connectors: [$($connector:ty),+ $(,)?] $(,)?)?
        $(operators: [$($operator:ty),+ $(,)?] $(,)?)?
        $(codecs: [$($codec:ty),+ $(,)?] $(,)?)?
        $(preprocessors: [$($preprocessor:ty),+ $(,)?] $(,)?)?
        $(postprocessors: [$($postprocessor:ty),+ $(,)?] $(,)?)?
    ) => {
        #[doc(hidden)]
        pub mod __tremor_plugin {
            #[allow(unused_imports)]
            use super::*;

            const RECORD: $crate::__private::Record = $crate::__private::metadata(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_PKG_VERSION"),
                ::core::env!("CARGO_PKG_DESCRIPTION"),
                if ::core::cfg!(panic = "abort") { "abort" } else { "unwind" },
                &[
                    $($($crate::__private::ArtefactText::connector::<$connector>(),)+)?
                    $($($crate::__private::ArtefactText::component::<$operator>("operator"),)+)?
                    $($($crate::__private::ArtefactText::component::<$codec>("codec"),)+)?
                    $($($crate::__private::ArtefactText::component::<$preprocessor>("preprocessor"),)+)?
                    $($($crate::__private::ArtefactText::component::<$postprocessor>("postprocessor"),)+)?
                ],
            );

            /// The crate's components, for a program that it is linked into.
            pub fn linked() -> $crate::linked::LinkedPlugin {
                static METADATA: $crate::__private::Record = RECORD;
                $crate::linked::LinkedPlugin {
                    metadata: &METADATA,
                    components: ::std::vec![
                        $($($crate::linked::connector::<$connector>(),)+)?
                        $($($crate::linked::operator::<$operator>(),)+)?
                        $($($crate::linked::preprocessor::<$preprocessor>(),)+)?
                        $($($crate::linked::postprocessor::<$postprocessor>(),)+)?
                    ],
                }
            }

            $crate::__library! {
                $($($crate::__private::connector_artefact::<$connector>(),)+)?
                $($($crate::__private::operator_artefact::<$operator>(),)+)?
                $($($crate::__private::codec_artefact::<$codec>(),)+)?
                $($($crate::__private::preprocessor_artefact::<$preprocessor>(),)+)?
                $($($crate::__private::postprocessor_artefact::<$postprocessor>(),)+)?
            }
        }
    };
}

/// What a library exports: nothing, where it is to be linked.
#[cfg(feature = "link-static")]
#[doc(hidden)]
#[macro_export]
macro_rules! __library {
    ($($artefact:expr,)*) => {};
}

/// What a library exports.
#[cfg(not(feature = "link-static"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __library {
    ($($artefact:expr,)*) => {
        /// What the library says about itself without being loaded.
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__tremor_pdk"))]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".tremor"))]
        #[unsafe(no_mangle)]
        #[used]
        pub static TREMOR_PLUGIN_METADATA: $crate::__private::Record = RECORD;

        struct Offered;

        impl $crate::__private::Library for Offered {
            extern "C" fn artefacts() -> $crate::__private::RVec<$crate::__private::ArtefactRef> {
                ::std::vec![$($artefact),*].into()
            }
        }

        /// Where the runtime finds the root module. What abi_stable's own macro makes of it
        /// would need abi_stable among the dependencies of the plugin.
        #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
        pub static TREMOR_PLUGIN_HEADER: $crate::__private::LibHeader =
            $crate::__private::header::<Offered>();
    };
}
