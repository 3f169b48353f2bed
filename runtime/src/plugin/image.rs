//! Checks, based on the bytes of a file, whether the file is a complete shared library for this machine.
//!
//! The loader of the system maps a library and trusts its headers, so a truncated library would end the process with
//! SIGBUS. Therefore, before the loader opens the file, everything that the headers refer to is checked against the
//! size of the file.

use std::{
    cell::Cell,
    io::{Read, Seek},
    ops::Range,
    path::Path,
};

use memchr::memmem;
use object::{
    Architecture, BinaryFormat, Object, ObjectKind, ObjectSection, ObjectSegment, ReadCache,
    ReadRef, read::File,
};
use tremor_abi::metadata::SECTION;

use super::{Error, ErrorKind};

/// Maximum number of bytes of headers, symbols and names that are read from a file, because all of them are in memory
/// at the same time. A library with a million symbols uses a third of this number.
const BUDGET: u64 = 64 << 20;

/// Number of bytes that count for each name in addition to its length, because about as many bytes of the file are read
/// for each name.
const NAME: u64 = 256;

/// The contents of a file, of which only a limited number of bytes may be read.
#[derive(Clone, Copy)]
struct Bounded<'b, R> {
    bytes: R,
    /// Number of bytes that may still be read; zero once more bytes were requested than were left.
    left: &'b Cell<u64>,
}

impl<R> Bounded<'_, R> {
    fn take(&self, size: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(size);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(())
    }
}

impl<'b, R: ReadRef<'b>> ReadRef<'b> for Bounded<'_, R> {
    fn len(self) -> Result<u64, ()> {
        self.bytes.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'b [u8], ()> {
        self.take(size)?;
        self.bytes.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'b [u8], ()> {
        self.take(NAME)?;
        let name = self.bytes.read_bytes_at_until(range, delimiter)?;
        self.take(name.len() as u64)?;
        Ok(name)
    }
}

/// Magic number of ELF. Magic numbers of other formats are too short: a file that begins with one may be an arbitrary
/// file instead of a truncated library.
const ELF: &[u8] = b"\x7fELF";

/// The contents of a library file that are needed for loading.
pub(super) struct Image<'b> {
    /// Contents of the metadata section.
    pub(super) metadata: &'b [u8],
    /// `true` if the library refers to other libraries relative to its own folder, with `$ORIGIN`.
    pub(super) finds_others: bool,
}

/// Checks that `bytes`, the contents of the file at `path`, are a complete shared library for this machine, and
/// returns its relevant contents.
pub(super) fn read<'b, R: Read + Seek>(
    path: &Path,
    bytes: &'b ReadCache<R>,
) -> Result<Image<'b>, Error> {
    let left = Cell::new(BUDGET);
    let image = read_within(path, Bounded { bytes, left: &left });
    // If the limit was exceeded, it is the cause of any error that followed.
    if left.get() == 0 { Err(too_much(path)) } else { image }
}

fn read_within<'b>(path: &Path, bytes: impl ReadRef<'b>) -> Result<Image<'b>, Error> {
    let file = parse(path, bytes)?;
    let machine = machine(file.architecture(), file.format(), file.is_little_endian());
    let ours = this_machine();
    if machine != ours {
        return Err(Error::new(
            ErrorKind::OtherMachine,
            path,
            format!("the library is for {machine}"),
        )
        .expected(format!("a library for {ours}"))
        .help("build the plugin for the machine that the runtime runs on"));
    }
    if file.kind() != ObjectKind::Dynamic {
        return Err(not_a_library(path));
    }
    check_ranges(path, bytes.len().unwrap_or_default(), &file)?;
    // Mach-O section names have the segment as a prefix.
    let name = SECTION.rsplit(',').next().unwrap_or(SECTION);
    let Some(section) = file.section_by_name(name) else {
        return Err(Error::new(
            ErrorKind::NotAPlugin,
            path,
            format!("the library is not a plugin: it has no section `{name}`"),
        )
        .expected("a `cdylib` that exports its connectors with `tremor_pdk::export!`"));
    };
    let metadata = section.data().map_err(|error| damaged(path, error))?;
    let names = file.section_by_name(".dynstr").and_then(|names| names.data().ok());
    let is_there = |text: &str| memmem::find(names.unwrap_or_default(), text.as_bytes()).is_some();
    Ok(Image { metadata, finds_others: is_there("$ORIGIN") || is_there("${ORIGIN}") })
}

fn parse<'b, R: ReadRef<'b>>(path: &Path, bytes: R) -> Result<File<'b, R>, Error> {
    use object::FileKind;
    match FileKind::parse(bytes) {
        Ok(
            FileKind::Elf32
            | FileKind::Elf64
            | FileKind::MachO32
            | FileKind::MachO64
            | FileKind::Pe32
            | FileKind::Pe64,
        ) => File::parse(bytes).map_err(|error| damaged(path, error)),
        Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => {
            Err(Error::new(ErrorKind::OtherMachine, path, "the file is a universal binary")
                .help("extract the library for this machine with `lipo -thin`"))
        }
        Err(_) if bytes.read_bytes_at(0, 4) == Ok(ELF) => {
            Err(damaged(path, "the file ends within its header"))
        }
        Ok(_) | Err(_) => Err(not_a_library(path)),
    }
}

fn not_a_library(path: &Path) -> Error {
    Error::new(ErrorKind::NotALibrary, path, "the file is not a shared library")
        .expected("a plugin: a Rust `cdylib` (`.so`, `.dylib` or `.dll`)")
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Damaged, path, format!("the library is truncated or damaged: {why}"))
        .help("copy or build it again")
}

fn too_much(path: &Path) -> Error {
    let message =
        format!("the library has more than {} MiB of headers, symbols and names", BUDGET >> 20);
    Error::new(ErrorKind::Unreadable, path, message)
        .help("plugins usually have far less; rebuild it without debug information")
}

/// Checks that everything that the headers refer to is within a file of `size` bytes.
fn check_ranges<'b>(
    path: &Path,
    size: u64,
    file: &File<'b, impl ReadRef<'b>>,
) -> Result<(), Error> {
    let within = |what: &str, start: u64, len: u64| match start.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => {
            let end = start.saturating_add(len);
            Err(damaged(path, format!("{what} ends at byte {end}, the file at byte {size}")))
        }
    };
    for segment in file.segments() {
        let (start, len) = segment.file_range();
        within("a segment", start, len)?;
    }
    for section in file.sections() {
        if let Some((start, len)) = section.file_range() {
            within("a section", start, len)?;
        }
    }
    for Range { start, end } in program_headers(file) {
        within("the target of a program header", start, end.saturating_sub(start))?;
    }
    Ok(())
}

/// Returns the ranges in the file of all program headers of an ELF file. `File::segments` returns only some of them.
fn program_headers<'b>(file: &File<'b, impl ReadRef<'b>>) -> Vec<Range<u64>> {
    macro_rules! ranges {
        ($elf:expr) => {{
            let endian = $elf.endian();
            let range = |start: u64, len: u64| start..start.saturating_add(len);
            let headers = $elf.elf_program_headers().iter();
            headers
                .map(|header| {
                    range(header.p_offset.get(endian).into(), header.p_filesz.get(endian).into())
                })
                .collect()
        }};
    }
    match file {
        File::Elf32(elf) => ranges!(elf),
        File::Elf64(elf) => ranges!(elf),
        _ => Vec::new(),
    }
}

/// Returns the name of a machine for messages.
fn machine(architecture: Architecture, format: BinaryFormat, is_little_endian: bool) -> String {
    let format = match format {
        BinaryFormat::Pe | BinaryFormat::Coff => "Windows",
        BinaryFormat::MachO => "macOS",
        _ => "ELF",
    };
    let order = if is_little_endian { "" } else { ", big endian" };
    format!("{architecture:?} ({format}{order})")
}

fn this_machine() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" if cfg!(target_pointer_width = "32") => Architecture::X86_64_X32,
        "x86_64" => Architecture::X86_64,
        "x86" => Architecture::I386,
        "aarch64" => Architecture::Aarch64,
        "arm" => Architecture::Arm,
        "riscv64" => Architecture::Riscv64,
        "powerpc64" => Architecture::PowerPc64,
        "s390x" => Architecture::S390x,
        "loongarch64" => Architecture::LoongArch64,
        _ => Architecture::Unknown,
    };
    machine(architecture, BinaryFormat::native_object(), cfg!(target_endian = "little"))
}
