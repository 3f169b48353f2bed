//! Tests of the sizes and alignments of the types of the ABI.
//!
//! A change in these tables is a change of the ABI, and requires a new major version, unless a prefix type grew after
//! its last prefix field. The tables of types that are private to a module are in that module.

use std::{
    collections::BTreeSet,
    fs,
    mem::{align_of, size_of},
    path::Path,
};

use abi_stable::{StableAbi, abi_stability::abi_checking::check_layout_compatibility};

use crate::{
    batch::{
        Batch, Event, EventFlags, Failed, Limit, Output, PayloadKind, PortBatch, Rejected, Share,
        Span,
    },
    component::{RawCodecBox, RawOperatorBox, RawPostprocessorBox, RawPreprocessorBox},
    connector::{
        CodecNeed, CodecRequirement, DeliverReply, Deliveries, DeliveryFlags, EventRange,
        ExceptionRange, Hook, InFlight, PullKind, PullReply, RawAcksBox, RawConnectorBox,
        RawHalves, RawSinkBox, RawSourceBox, Sides,
    },
    document::{Document, Node, NodeKind, ValueRef},
    error::{ErrorKind, ErrorPolicy, PluginError},
    host::{
        HostFunctions, HostFunctionsRef, HostHandle, Interest, Job, LogLevel, MetricKind,
        RawWatchBox,
    },
    metadata::Record,
    module::{
        Artefact, ArtefactKind, ArtefactRef, Constructors, ConstructorsRef, PluginModule,
        PluginModuleRef,
    },
    value::{Array, Bytes, Number, Object, Str, Value},
    version::AbiVersion,
};

/// A table of types, each with its size and alignment in bytes on a 64-bit platform.
macro_rules! assert_layouts {
    ($($type:ident $(<$lifetime:lifetime>)? => $size:literal, $align:literal;)*) => {$(
        let layout = (size_of::<$type $(<$lifetime>)?>(), align_of::<$type $(<$lifetime>)?>());
        assert_eq!(layout, ($size, $align), "size and alignment of {}", stringify!($type));
    )*};
}

#[test]
fn sizes_and_alignments_are_fixed() {
    assert_layouts! {
        // Values and documents.
        Array<'_> => 16, 8;
        Bytes<'_> => 24, 8;
        Node => 16, 8;
        NodeKind => 1, 1;
        Number<'_> => 24, 8;
        Object<'_> => 16, 8;
        Str<'_> => 24, 8;
        Value<'_> => 32, 8;
        // Batches.
        Batch => 88, 8;
        Event => 56, 8;
        EventFlags => 1, 1;
        Failed => 160, 8;
        Limit => 8, 4;
        Output => 200, 8;
        PayloadKind => 1, 1;
        PortBatch => 96, 8;
        Rejected => 128, 8;
        Share => 16, 8;
        Span => 8, 4;
        // Connectors.
        CodecNeed => 1, 1;
        CodecRequirement => 24, 8;
        DeliverReply => 32, 8;
        Deliveries => 40, 8;
        DeliveryFlags => 4, 4;
        EventRange => 8, 4;
        ExceptionRange => 80, 8;
        Hook => 1, 1;
        InFlight => 32, 8;
        PullKind => 1, 1;
        PullReply => 16, 8;
        RawAcksBox => 24, 8;
        RawConnectorBox => 24, 8;
        RawHalves => 64, 8;
        RawSinkBox => 24, 8;
        RawSourceBox => 24, 8;
        Sides => 1, 1;
        // Operators, codecs and processors.
        RawCodecBox => 24, 8;
        RawOperatorBox => 24, 8;
        RawPostprocessorBox => 24, 8;
        RawPreprocessorBox => 24, 8;
        // Errors.
        ErrorKind => 2, 2;
        ErrorPolicy => 1, 1;
        PluginError => 72, 8;
        // The host.
        HostFunctions => 168, 8;
        HostFunctionsRef => 8, 8;
        HostHandle => 16, 8;
        Interest => 1, 1;

        Job => 24, 8;
        LogLevel => 1, 1;
        MetricKind => 1, 1;
        RawWatchBox => 24, 8;
        // The root module and the metadata.
        AbiVersion => 4, 2;
        Artefact => 48, 8;
        ArtefactKind => 2, 2;
        ArtefactRef => 8, 8;
        Constructors => 32, 8;
        ConstructorsRef => 8, 8;
        PluginModule => 16, 8;
        PluginModuleRef => 8, 8;
        Record => 8192, 1;
    }
}

/// Reads the source files of a folder and the folders in it.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the sources") {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(fs::read_to_string(path).expect("a source file"));
            }
        }
    }
    files
}

/// The names of the types that have `#[repr(…)]` in the source files, and the names in the tables.
#[derive(Default)]
struct Found {
    fixed: BTreeSet<String>,
    in_tables: BTreeSet<String>,
}

impl Found {
    fn in_folder(folder: &Path) -> Self {
        let mut found = Self::default();
        files(folder).iter().for_each(|source| found.read(source));
        found
    }

    fn read(&mut self, source: &str) {
        let (mut is_fixed, mut in_table) = (false, false);
        for line in source.lines().map(str::trim) {
            if line.starts_with("#[repr(") {
                is_fixed = true;
            } else if let Some(name) = name_of_type(line) {
                if is_fixed {
                    self.fixed.insert(name.to_owned());
                }
                is_fixed = false;
            } else if line == "assert_layouts! {" {
                in_table = true;
            } else if line == "}" {
                in_table = false;
            } else if let Some((name, _)) = line.split_once(" => ").filter(|_| in_table) {
                self.in_tables.insert(name.trim_end_matches("<'_>").to_owned());
            }
        }
    }
}

/// Returns the name of the type that `line` declares, if any.
fn name_of_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    words.next().filter(|word| ["struct", "enum", "union"].contains(word))?;
    words.next()?.split(['<', '(', '{', ';']).next()
}

#[test]
fn no_type_with_a_fixed_layout_is_missing_from_the_tables() {
    let found = Found::in_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(found.fixed.len() > 30, "the sources were read: {:?}", found.fixed);
    let missing: Vec<_> = found.fixed.difference(&found.in_tables).collect();
    assert!(missing.is_empty(), "add to a table of `assert_layouts!`: {missing:?}");
}

#[test]
fn every_form_of_type_declaration_is_found() {
    let mut found = Found::default();
    // The source contains `@` instead of `#`, because otherwise the test would find these types in this file.
    let source = "@[repr(C)]
        @[derive(Clone)]
        pub(super) struct Tuple<'v>(u8);
        @[repr(C, u8)]
        /// Docs.
        pub enum Listed {
        }
        @[repr(transparent)]
        union Union {
        }
        struct Rust {
        }
        @layouts! {
            Listed => 1, 1;
        }
        other => 2;";
    found.read(&source.replace("@layouts", "assert_layouts").replace('@', "#"));
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found.fixed), ["Listed", "Tuple", "Union"]);
    assert_eq!(names(&found.in_tables), ["Listed"]);
}

#[test]
fn views_have_40_bytes() {
    assert_eq!(size_of::<Document<'_>>(), 40);
    assert_eq!(size_of::<ValueRef<'_>>(), 40);
}

#[test]
fn layout_of_value_is_compatible_with_itself() {
    let layout = <Value<'_> as StableAbi>::LAYOUT;
    assert!(check_layout_compatibility(layout, layout).is_ok());
}

/// Compiles only if a longer-lived value can be used as a shorter-lived one.
#[allow(dead_code)]
fn values_are_covariant<'short>(value: Value<'static>) -> Value<'short> {
    value
}

#[test]
fn values_can_be_sent_to_other_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Value<'_>>();
    is_send_and_sync::<ValueRef<'_>>();
}
