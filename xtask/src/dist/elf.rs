//! What a program or a library needs of the machine it runs on, as its ELF file says.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, Object as _, elf};

/// The needs of one file, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The highest version of glibc that a symbol is of.
    pub(super) glibc: Option<Version>,
    /// Libraries that the loader has to find.
    pub(super) libraries: BTreeSet<String>,
    /// The loader, as a program names it.
    pub(super) interpreters: BTreeSet<PathBuf>,
    /// In the words of Rust: `x86_64`.
    pub(super) architectures: BTreeSet<String>,
}

/// The parts of a version.
pub(super) type Version = Vec<u32>;

impl Needs {
    /// Those of a file.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| format!("{} cannot be understood", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let file: ElfFile64<'_, Endianness> = ElfFile64::parse(bytes)?;
        let mut needs = Self::default();
        needs.architectures.insert(format!("{:?}", file.architecture()).to_lowercase());
        let endian = file.endian();
        let header = file.elf_header();
        let sections = header.sections(endian, bytes)?;
        for segment in header.program_headers(endian, bytes)? {
            if let Some(path) = segment.interpreter(endian, bytes)? {
                needs.interpreters.insert(String::from_utf8_lossy(path).into_owned().into());
            }
        }
        let dynamic = sections.dynamic_table(endian, bytes)?;
        for needed in dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
            let library = String::from_utf8_lossy(dynamic.string(needed)?).into_owned();
            needs.libraries.insert(library);
        }
        for section in sections.iter() {
            let Some((mut versions, link)) = section.gnu_verneed(endian, bytes)? else { continue };
            let strings = sections.strings(endian, bytes, link)?;
            while let Some((_, mut of)) = versions.next()? {
                while let Some(version) = of.next()? {
                    let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
                    needs.glibc = needs.glibc.max(glibc(&name));
                }
            }
        }
        Ok(needs)
    }

    /// Those of both.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.glibc = self.glibc.max(other.glibc);
        self.libraries.extend(other.libraries);
        self.interpreters.extend(other.interpreters);
        self.architectures.extend(other.architectures);
        self
    }

    /// What the loaders are called where a library needs one.
    pub(super) fn loaders(&self) -> BTreeSet<Cow<'_, str>> {
        self.interpreters
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy()))
            .collect()
    }

    /// The version of glibc, for people.
    pub(super) fn glibc(&self) -> String {
        let parts = self.glibc.iter().flatten().map(u32::to_string);
        parts.collect::<Vec<_>>().join(".")
    }
}

/// The version of glibc that the version of a symbol names: `GLIBC_2.34`.
fn glibc(name: &str) -> Option<Version> {
    name.strip_prefix("GLIBC_")?.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Needs, glibc};

    #[test]
    fn versions_are_compared_part_by_part() {
        assert!(glibc("GLIBC_2.34") > glibc("GLIBC_2.4"));
        assert!(glibc("GLIBC_2.3.4") > glibc("GLIBC_2.3"));
        assert_eq!(glibc("GLIBC_PRIVATE"), None);
        assert_eq!(glibc("GCC_3.0"), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_program_for_this_machine_says_what_it_needs() {
        let needs = Needs::of(&std::env::current_exe().unwrap()).unwrap();
        assert!(needs.glibc > Some(vec![2, 2]), "{needs:?}");
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert_eq!(needs.interpreters.len(), 1, "{needs:?}");
        assert_eq!(needs.architectures.into_iter().collect::<Vec<_>>(), [std::env::consts::ARCH]);
    }
}
