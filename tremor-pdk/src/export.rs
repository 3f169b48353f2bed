//! The macro [`export!`](crate::export), and the functions that it needs at compile time.

use tremor_abi::metadata::{JsonText, Record};
use tremor_abi::version::AbiVersion;

use crate::{
    Component, Connector,
    codec::{CodecRequirement, is_same_text},
    connector,
};

/// The metadata of one component of a plugin. The metadata record calls a component an artefact.
pub struct ArtefactText {
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    /// The codec that a connector requires; `None` for other kinds.
    codec: Option<CodecRequirement>,
    /// `true` for a stateless operator.
    stateless: bool,
}

/// Functions that return the metadata of a component, one for each kind of [`export!`](crate::export).
pub mod text {
    use super::{ArtefactText, Component, Connector, connector};
    use crate::{
        Sink, Source, Splitter, StreamSplitter,
        only::{IsSink, IsSource, Only},
    };

    /// Returns the metadata of a connector.
    pub const fn connectors<T: Connector>() -> ArtefactText {
        let codec = Some(connector::codec::<T>());
        let (kind, name, description) = ("connector", T::NAME, T::DESCRIPTION);
        ArtefactText { kind, name, description, codec, stateless: false }
    }

    /// Returns the metadata of a source that is a component without a connector.
    pub const fn sources<T: Component + Source>() -> ArtefactText {
        connectors::<Only<T, IsSource>>()
    }

    /// Returns the metadata of a sink that is a component without a connector.
    pub const fn sinks<T: Component + Sink>() -> ArtefactText {
        connectors::<Only<T, IsSink>>()
    }

    /// Returns the metadata of a preprocessor that is a splitter of streams.
    pub const fn splitters<T: Component + StreamSplitter>() -> ArtefactText {
        preprocessors::<Splitter<T>>()
    }

    macro_rules! others {
        ($($kinds:ident: $kind:literal, $trait:ident, $stateless:expr;)*) => {$(
            #[doc = concat!("Returns the metadata of components of the kind ", $kind, ".")]
            pub const fn $kinds<T: Component + crate::$trait>() -> ArtefactText {
                let (kind, name, description) = ($kind, T::NAME, T::DESCRIPTION);
                ArtefactText { kind, name, description, codec: None, stateless: $stateless }
            }
        )*};
    }

    others! {
        operators: "operator", Operator, T::STATELESS;
        codecs: "codec", Codec, false;
        preprocessors: "preprocessor", Preprocessor, false;
        postprocessors: "postprocessor", Postprocessor, false;
    }
}

/// Creates the metadata record of a plugin crate.
///
/// # Panics
/// Panics at compile time if the name of an artefact is invalid, if two artefacts of one kind have the same name, or if
/// the record would be too long.
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
        assert!(
            is_name(artefacts[i].name),
            "a `NAME` must have ASCII letters, digits, `_`, `-` and `.` only, and must not begin with `-` or `.`"
        );
        json = json.raw(",\"name\":").string(artefacts[i].name);
        json = json.raw(",\"description\":").string(artefacts[i].description);
        if artefacts[i].stateless {
            json = json.raw(",\"stateless\":true");
        }
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
                !is_same_text(artefacts[i].name, artefacts[other].name)
                    || !is_same_text(artefacts[i].kind, artefacts[other].kind),
                "two artefacts of one kind have the same name"
            );
            other += 1;
        }
        i += 1;
    }
    Record::new(&json.raw("]}"))
}

/// Returns whether flow files can name a component so: all characters are ASCII letters, digits, `_`, `-` and `.`, and
/// the first one is none of the last two.
pub const fn is_name(name: &str) -> bool {
    let name = name.as_bytes();
    let mut at = 0;
    while at < name.len() {
        let may_be_first = name[at].is_ascii_alphanumeric() || name[at] == b'_';
        if !may_be_first && (at == 0 || !matches!(name[at], b'-' | b'.')) {
            return false;
        }
        at += 1;
    }
    at > 0
}

/// Exports the components of a crate, which makes its library a plugin.
///
/// Use the macro once in a crate, at the crate root, and list every component by its kind: `sources`, `sinks`,
/// `connectors`, `operators`, `codecs`, `splitters`, `preprocessors` and `postprocessors`, in any order. The macro
/// exports the root module of the library, and stores the metadata in a section of the library file.
///
/// ```
/// # mod plugin {
/// # use tremor_pdk::{NoConfig, prelude::*};
/// # pub struct Devourer;
/// # impl Component for Devourer {
/// #     const NAME: &str = "devourer";
/// #     type Config = NoConfig;
/// #     fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> { Ok(Self) }
/// # }
/// # impl Sink for Devourer {
/// #     type Batch = StructuredBatch;
/// #     async fn deliver(&mut self, _batch: &StructuredBatch) -> Delivery { Ok(()) }
/// # }
/// tremor_pdk::export! { sinks: [Devourer] }
/// # }
/// ```
///
/// The `NAME` of a component has only ASCII letters, digits, `_`, `-` and `.`, and does not begin with one of the last
/// two; otherwise the crate does not compile.
///
/// Two components of one kind must not have the same name; otherwise the crate does not compile. Sources, sinks and
/// connectors count as one kind:
///
/// ```compile_fail,E0080
/// # mod plugin {
/// # use tremor_pdk::{NoConfig, prelude::*};
/// # pub struct Devourer;
/// # impl Component for Devourer {
/// #     const NAME: &str = "devourer";
/// #     type Config = NoConfig;
/// #     fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> { Ok(Self) }
/// # }
/// # impl Sink for Devourer {
/// #     type Batch = StructuredBatch;
/// #     async fn deliver(&mut self, _batch: &StructuredBatch) -> Delivery { Ok(()) }
/// # }
/// tremor_pdk::export! { sinks: [Devourer, Devourer] }
/// # }
/// ```
#[macro_export]
macro_rules! export {
    ($($kinds:ident: [$($component:ty),+ $(,)?]),+ $(,)?) => {
        #[doc(hidden)]
        pub mod __tremor_plugin {
            #[allow(unused_imports)]
            use super::*;

            const RECORD: $crate::__private::Record = $crate::__private::metadata(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_PKG_VERSION"),
                ::core::env!("CARGO_PKG_DESCRIPTION"),
                if ::core::cfg!(panic = "abort") { "abort" } else { "unwind" },
                &[$($($crate::__private::text::$kinds::<$component>(),)+)+],
            );

            /// Returns the components of the crate, for a program into which the crate is linked.
            pub fn linked() -> $crate::__private::linked::LinkedPlugin {
                static METADATA: $crate::__private::Record = RECORD;
                $crate::__private::linked::LinkedPlugin {
                    metadata: &METADATA,
                    components: ::std::vec![$($($crate::__private::linked::$kinds::<$component>(),)+)+],
                }
            }

            $crate::__library! {
                $($($crate::__private::artefact::$kinds::<$component>(),)+)+
            }
        }
    };
}

/// Symbols that a library exports: none, because crates with the feature `link-static` are linked into a program.
#[cfg(feature = "link-static")]
#[doc(hidden)]
#[macro_export]
macro_rules! __library {
    ($($artefact:expr,)*) => {};
}

/// Symbols that a library exports.
#[cfg(not(feature = "link-static"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __library {
    ($($artefact:expr,)*) => {
        /// Metadata of the plugin, which can be read without loading the library.
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__tremor_pdk"))]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".tremor"))]
        #[unsafe(no_mangle)]
        #[used]
        pub static TREMOR_PLUGIN_METADATA: $crate::__private::Record = RECORD;

        struct Exported;

        impl $crate::__private::Library for Exported {
            extern "C" fn artefacts() -> $crate::__private::RVec<$crate::__private::ArtefactRef> {
                ::std::vec![$($artefact),*].into()
            }
        }

        /// Symbol by which the runtime finds the root module. The macro of `abi_stable` would do the same, but
        /// requires that the plugin itself depends on `abi_stable`.
        #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
        pub static TREMOR_PLUGIN_HEADER: $crate::__private::LibHeader =
            $crate::__private::header::<Exported>();
    };
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn name_of_a_component_has_letters_digits_and_some_marks() {
        for (name, is_valid) in [
            ("a", true),
            ("2fa", true),
            ("http_client-v1.2", true),
            ("", false),
            ("a/b", false),
            ("a b", false),
            ("_a", true),
            ("-a", false),
            ("ä", false),
        ] {
            assert_eq!(is_name(name), is_valid, "{name}");
        }
    }
}
