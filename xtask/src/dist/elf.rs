//! The glibc version, libraries and loader that programs and libraries require according to their ELF files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, elf};

/// The requirements of one or more ELF files.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// Parts of the highest glibc version of a symbol, such as 2 and 34.
    pub(super) glibc: Option<Vec<u32>>,
    /// Names of the libraries that the loader has to find.
    pub(super) libraries: BTreeSet<String>,
    /// Path of each program's loader.
    pub(super) interpreters: BTreeSet<PathBuf>,
}

impl Needs {
    /// Returns the combined requirements of files.
    pub(super) fn of(files: &[PathBuf]) -> Result<Self> {
        let mut needs = Self::default();
        for path in files {
            let bytes =
                fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            needs.add(&bytes).with_context(|| format!("cannot parse {}", path.display()))?;
        }
        Ok(needs)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let file: ElfFile64<'_, Endianness> = ElfFile64::parse(bytes)?;
        let (endian, header) = (file.endian(), file.elf_header());
        let sections = header.sections(endian, bytes)?;
        for segment in header.program_headers(endian, bytes)? {
            let interpreter = segment.interpreter(endian, bytes)?;
            self.interpreters.extend(interpreter.map(|path| PathBuf::from(text(path))));
        }
        let dynamic = sections.dynamic_table(endian, bytes)?;
        for needed in dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
            self.libraries.insert(text(dynamic.string(needed)?));
        }
        for section in sections.iter() {
            let Some((mut versions, link)) = section.gnu_verneed(endian, bytes)? else { continue };
            let strings = sections.strings(endian, bytes, link)?;
            while let Some((_, mut of)) = versions.next()? {
                while let Some(version) = of.next()? {
                    let version = glibc(&text(version.name(endian, strings)?));
                    self.glibc = version.max(self.glibc.take());
                }
            }
        }
        Ok(())
    }
}

/// Returns the parts of the glibc version in a symbol version such as `GLIBC_2.34`.
fn glibc(name: &str) -> Option<Vec<u32>> {
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
    fn requirements_of_this_program_are_found() {
        let needs = Needs::of(&[std::env::current_exe().unwrap()]).unwrap();
        assert!(needs.glibc > Some(vec![2, 2]), "{needs:?}");
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert_eq!(needs.interpreters.len(), 1, "{needs:?}");
    }
}
