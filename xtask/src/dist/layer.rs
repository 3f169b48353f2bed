//! Entries of a layer of an image, which is a tar archive in the format ustar.
//!
//! They are read without `tar`, which creates the archives, so that a mistake of its options is found.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Component, Path};

use anyhow::{Context, Result, ensure};

/// Length of a header, and of the unit in which contents are stored, in bytes.
const BLOCK: usize = 512;

/// Types of entries: a file, a hard link, a symbolic link and a folder.
const TYPES: [u8; 4] = [FILE, HARD_LINK, SYMBOLIC_LINK, FOLDER];
const FILE: u8 = b'0';
const HARD_LINK: u8 = b'1';
const SYMBOLIC_LINK: u8 = b'2';
const FOLDER: u8 = b'5';

/// Start of the name of a file that deletes one of a layer below.
const WHITEOUT: &str = ".wh.";

/// Mode of a folder in which each user may create files.
const SHARED: u64 = 0o1777;

/// An entry of a layer.
#[derive(Debug)]
pub(super) struct Entry {
    path: String,
    pub(super) mode: u64,
    /// User and group.
    pub(super) owner: (u64, u64),
    kind: u8,
}

/// Reads the entries of a layer that is not compressed, and checks that every runtime for containers can apply them:
/// each path is relative and occurs once, after its folder. No user but the owner may change a file, and no file runs
/// as its owner. Returns the entries by their paths.
pub(super) fn checked(file: &Path) -> Result<HashMap<String, Entry>> {
    let mut found = HashMap::new();
    for entry in entries(file)? {
        let Entry { path, mode, kind, .. } = &entry;
        let parts: Vec<_> = Path::new(path).components().collect();
        let is_relative = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_relative && !parts.is_empty(), "the path is not relative: {entry:?}");
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_in_folder = found.get(parent).is_some_and(|it: &Entry| it.kind == FOLDER);
        ensure!(parent.is_empty() || is_in_folder, "its folder is not before it: {entry:?}");
        ensure!(TYPES.contains(kind) && !name.starts_with(WHITEOUT), "wrong type: {entry:?}");
        ensure!(mode & 0o6000 == 0, "it runs as its owner: {entry:?}");
        let is_private = mode & 0o022 == 0 || *kind == SYMBOLIC_LINK;
        ensure!(is_private || (*kind, *mode) == (FOLDER, SHARED), "all may write it: {entry:?}");
        let earlier = found.insert(path.clone(), entry);
        ensure!(earlier.is_none(), "two entries have the same path: {earlier:?}");
    }
    Ok(found)
}

fn entries(file: &Path) -> Result<Vec<Entry>> {
    let mut archive = BufReader::new(File::open(file)?);
    let (mut found, mut header) = (Vec::new(), [0; BLOCK]);
    loop {
        archive.read_exact(&mut header).context("the layer has no end")?;
        if header == [0; BLOCK] {
            archive.read_exact(&mut header).context("the layer ends with one empty block")?;
            ensure!(header == [0; BLOCK], "the layer has an entry after an empty block");
            return Ok(found);
        }
        ensure!(&header[257..265] == b"ustar\x0000", "an entry has not the format ustar");
        let sum = header.iter().enumerate().map(|(at, byte)| match at {
            148..156 => u64::from(b' '),
            _ => u64::from(*byte),
        });
        ensure!(sum.sum::<u64>() == number(&header[148..156])?, "a header is damaged");
        let (prefix, name) = (text(&header[345..500])?, text(&header[..100])?);
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let size = number(&header[124..136])?;
        found.push(Entry {
            path: path.strip_suffix('/').unwrap_or(&path).to_owned(),
            mode: number(&header[100..108])?,
            owner: (number(&header[108..116])?, number(&header[116..124])?),
            kind: header[156],
        });
        archive.seek_relative(size.next_multiple_of(BLOCK as u64).try_into()?)?;
    }
}

/// Returns the text of a field, which a zero byte ends unless it fills the field.
fn text(field: &[u8]) -> Result<&str> {
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    Ok(str::from_utf8(&field[..length])?)
}

/// Returns the number of a field, which has octal digits.
fn number(field: &[u8]) -> Result<u64> {
    let digits = text(field)?.trim();
    u64::from_str_radix(digits, 8).with_context(|| format!("`{digits}` is not a number"))
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::checked;

    #[test]
    fn unusual_layer_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let (root, layer) = (folder.path().join("root"), folder.path().join("layer.tar"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        for file in ["a/c", "a/.wh.c"] {
            fs::write(root.join(file), "text").unwrap();
        }
        let create = |arguments: &str| {
            let _ = fs::remove_file(&layer);
            let mut command = Command::new("tar");
            command.args(["--create", "--format=ustar", "--owner=0", "--group=0", "--file"]);
            command.arg(&layer).arg("--directory").arg(&root);
            assert!(command.args(arguments.split(' ')).status().unwrap().success());
        };
        for (arguments, expected) in [
            ("--mode=0755 a/b", "its folder is not before it"),
            ("--mode=0755 --no-recursion a a", "two entries have the same path"),
            ("--mode=0755 a", "wrong type"),
            ("--mode=4755 --no-recursion a a/c", "it runs as its owner"),
            ("--mode=0775 --no-recursion a a/c", "all may write it"),
            ("--mode=0755 --no-recursion ./a", "the path is not relative"),
            ("--mode=0755 --format=gnu --no-recursion a", "not the format ustar"),
        ] {
            create(arguments);
            let error = checked(&layer).unwrap_err().to_string();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        create("--mode=0755 --no-recursion --hard-dereference a a/c");
        let entries = checked(&layer).unwrap();
        assert_eq!((entries["a/c"].mode, entries["a/c"].owner), (0o755, (0, 0)));
        let bytes = fs::read(&layer).unwrap();
        fs::write(&layer, &bytes[..1_024]).unwrap();
        assert!(checked(&layer).is_err());
    }
}
