//! Lists of the types of the ABI. Each version of the ABI has a list in `tests/fixtures/kept`, and the tests compare
//! the current types with all of these lists.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    ptr,
};

use abi_stable::{
    StableAbi,
    type_layout::{TLData, TLField, TLFields, TLFunction, TypeLayout},
};

use crate::{layout::files, module::PluginModuleRef, version::AbiVersion};

/// The rule that the failure message of a comparison explains.
const RULE: &str = "
The layouts of a version are frozen: libraries that were built against it have to load and work for ever.
- Fields, methods, parameters, sizes and numbers of open sets never change, and are never removed.
- `#[sabi(last_prefix_field)]` stays where it is.
- A later minor may add fields and methods at the end of a prefix type, types, and numbers of open sets.
- An addition needs a new minor: raise the version of `tremor-abi`, then run `scripts/keep-plugin.sh`.
- Any other change needs a new major. Never edit a list in `tests/fixtures/kept`.";

/// The lines of each type, by the heading of the type.
type List = BTreeMap<String, Vec<String>>;

type Layout = &'static TypeLayout;

/// Lists the types of this package that are part of the ABI, and the numbers of its open sets.
fn today() -> List {
    let mut list = numbers();
    for layout in every_type(PluginModuleRef::LAYOUT) {
        if layout.item_info().package_and_version().0 != env!("CARGO_PKG_NAME") {
            continue;
        }
        let size = format!("{} bytes, aligned to {}", layout.size(), layout.alignment());
        let (kind, lines) = match layout.data() {
            TLData::PrefixType(prefix) => {
                // The heading of a prefix type has no size, because the type may grow.
                let kind = format!("prefix of {} fields", prefix.first_suffix_field);
                (kind, lines(&prefix.fields))
            }
            TLData::Struct { fields } => (size, lines(&fields)),
            TLData::Union { fields } => (format!("union, {size}"), lines(&fields)),
            TLData::Enum(variants) => {
                let mut lines = lines(&variants.fields);
                lines.insert(0, format!("variants {}", variants.variant_names));
                (format!("enum, {size}"), lines)
            }
            _ => (format!("opaque, {size}"), Vec::new()),
        };
        let module = layout.mod_path().to_string();
        let module = module.trim_start_matches("tremor_abi::").trim_start_matches("inside ");
        let heading = format!("{module} {}: {kind}", name(layout));
        if let Some(other) = list.insert(heading.clone(), lines.clone()) {
            assert_eq!(other, lines, "two types are listed as `{heading}`");
        }
    }
    list
}

/// Returns every type that `root` contains, `root` included.
fn every_type(root: Layout) -> Vec<Layout> {
    let (mut seen, mut open, mut every) = (HashSet::new(), vec![root], Vec::new());
    while let Some(layout) = open.pop() {
        if !seen.insert(ptr::from_ref(layout).addr()) {
            continue;
        }
        every.push(layout);
        let fields = layout.get_fields().into_iter().flat_map(|fields| fields.to_vec());
        for field in fields.chain(layout.phantom_fields().to_vec()) {
            open.push(field.layout());
            for function in field.function_range() {
                open.extend(function.param_type_layouts.iter().map(|layout| layout()));
                open.extend(function.return_type_layout().map(|layout| layout()));
            }
        }
    }
    every
}

/// Returns the name of a type with its parameters. `abi_stable` does not list the type parameters of its enums and
/// lists, so these parameters are derived from the fields.
fn name(layout: Layout) -> String {
    let name = layout.full_type().to_string();
    match layout.data() {
        TLData::Enum(variants) if !name.contains('<') => {
            let parameters: Vec<_> =
                variants.fields.iter().map(|field| self::name(field.layout())).collect();
            format!("{name}<{}>", parameters.join(", ")).replace("<>", "")
        }
        TLData::Struct { fields } if name == "RVec" => {
            let buffer = fields.iter().next().map(|buffer| self::name(buffer.layout()));
            format!("{name}<{}>", buffer.unwrap_or_default())
        }
        _ => name,
    }
}

fn lines(fields: &TLFields) -> Vec<String> {
    fields.iter().map(|field| line(&field)).collect()
}

/// Describes a field by its name and its type, or by its signature if the field is a function.
fn line(field: &TLField) -> String {
    let functions: Vec<_> =
        field.function_range().iter().map(|function| signature(&function)).collect();
    let described = if functions.is_empty() { name(field.layout()) } else { functions.join(" ") };
    format!("{}: {described}", field.name())
}

fn signature(function: &TLFunction) -> String {
    let parameters: Vec<_> =
        function.param_type_layouts.iter().map(|layout| name(layout())).collect();
    let result = function.return_type_layout().map_or_else(String::new, |layout| name(layout()));
    let qualifier = if function.fn_qualifs.is_unsafe() { "unsafe " } else { "" };
    format!("{qualifier}fn({}) -> ({result})", parameters.join(", "))
}

/// Lists the constants of open sets, which the sources define as `pub const NAME: Self = Self(NUMBER);`, and the
/// constants of `ErrorKind`, which they define as `NAME = NUMBER, "text", POLICY;`.
fn numbers() -> List {
    let mut list = List::new();
    for source in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let mut name = String::new();
        for line in source.lines() {
            if let Some(implemented) = line.strip_prefix("impl ") {
                name = implemented.trim_end_matches(" {").to_owned();
            }
            if let Some((constant, number)) = line.trim().split_once(" = ")
                && constant.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                && let Some((number, _)) = number.split_once(", \"")
            {
                let lines = list.entry("ErrorKind: numbers".to_owned()).or_default();
                lines.push(format!("{constant}: {number}"));
            }
            let constant = line.strip_prefix("    pub const ");
            if let Some((constant, number)) =
                constant.and_then(|text| text.split_once(": Self = Self("))
                && let Some((number, _)) = number.split_once(");")
            {
                let lines = list.entry(format!("{name}: numbers")).or_default();
                lines.push(format!("{constant}: {number}"));
            }
        }
    }
    list
}

fn text(list: &List) -> String {
    let mut text = String::new();
    for (heading, lines) in list {
        let _ = writeln!(text, "{heading}");
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
    text
}

fn parse(text: &str) -> List {
    let mut list = List::new();
    let mut last = String::new();
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(line) => list.entry(last.clone()).or_default().push(line.to_owned()),
            None => {
                line.clone_into(&mut last);
                list.insert(line.to_owned(), Vec::new());
            }
        }
    }
    list
}

/// Returns the first forbidden difference between the list of a version and a newer list. `is_same` is `true` if both
/// lists have the same version; then additions are forbidden too.
fn difference(kept: &List, today: &List, is_same: bool) -> Result<(), String> {
    for (heading, kept) in kept {
        let Some(today) = today.get(heading) else {
            return Err(format!("`{heading}` is gone, or its size or prefix has changed"));
        };
        let may_grow = heading.contains(": prefix of ") || heading.ends_with(": numbers");
        for (index, line) in kept.iter().enumerate() {
            match today.get(index) {
                Some(now) if now == line => {}
                now => {
                    let now = now.map_or("nothing", String::as_str);
                    return Err(format!("`{heading}` had\n    {line}\nand now has\n    {now}"));
                }
            }
        }
        if let Some(added) = today.get(kept.len()).filter(|_| is_same || !may_grow) {
            return Err(format!("`{heading}` has gained\n    {added}"));
        }
    }
    match today.keys().find(|heading| is_same && !kept.contains_key(*heading)) {
        Some(added) => Err(format!("`{added}` is new")),
        None => Ok(()),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kept")
}

#[test]
#[cfg(target_pointer_width = "64")]
fn layouts_equal_those_of_released_versions() {
    let today = today();
    let mut has_current = false;
    for entry in fs::read_dir(folder()).expect("the folder of kept versions") {
        let path = entry.expect("a file").path();
        let version = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".layouts"));
        let Some(version) = version else { continue };
        let kept = parse(&fs::read_to_string(&path).expect("a list"));
        let is_same = version == AbiVersion::CURRENT.to_string();
        has_current |= is_same;
        if let Err(difference) = difference(&kept, &today, is_same) {
            panic!("the types of ABI {version} have changed: {difference}\n{RULE}");
        }
    }
    let current = AbiVersion::CURRENT;
    assert!(has_current, "ABI {current} has no list of layouts: run `scripts/keep-plugin.sh`");
}

#[test]
#[ignore = "writes a list: `scripts/keep-plugin.sh` runs it"]
fn write_list() {
    let path = folder().join(format!("{}.layouts", AbiVersion::CURRENT));
    if !path.exists() {
        fs::write(path, text(&today())).expect("the list is written");
    }
}

#[test]
fn only_additions_at_the_end_of_a_prefix_pass() {
    let kept = "A: 8 bytes, aligned to 8\n    a: u32\n    b: u32\nP: prefix of 1 fields\n    f: fn(u8) -> ()\n\
        K: numbers\n    ONE: 1\n";
    let compared = |from: &str, to: &str, is_same| {
        assert!(kept.contains(from));
        difference(&parse(kept), &parse(&kept.replace(from, to)), is_same)
    };
    let fields = "    f: fn(u8) -> ()\n";
    let more = "    f: fn(u8) -> ()\n    g: u8\n";
    for (from, to) in [(fields, more), ("ONE: 1", "ONE: 1\n    TWO: 2"), ("K", "B: numbers\nK")] {
        assert_eq!(compared(from, to, false), Ok(()), "{to}");
        assert!(compared(from, to, true).is_err(), "without a new minor version: {to}");
    }
    for (from, to) in [
        ("    b: u32\n", ""),
        ("    b: u32\n", "    b: u32\n    c: u32\n"),
        ("a: u32\n    b", "b: u32\n    a"),
        ("b: u32", "b: i32"),
        ("8 bytes", "16 bytes"),
        ("prefix of 1", "prefix of 2"),
        (fields, "    g: u8\n    f: fn(u8) -> ()\n"),
        ("fn(u8)", "fn(u16)"),
        ("ONE: 1", "ONE: 2"),
    ] {
        assert!(compared(from, to, false).is_err(), "{from} as {to}");
    }
    assert_eq!(text(&parse(kept)).lines().count(), kept.lines().count());
}
