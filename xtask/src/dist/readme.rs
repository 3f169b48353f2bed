//! What is said of the archive.

use super::elf::Needs;

/// What it needs, a line each.
pub(super) fn needs(needs: &Needs) -> String {
    let list = |names: &std::collections::BTreeSet<String>| {
        names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    format!(
        "architecture: {}\nglibc: {} or later\nlibraries: {}\n",
        list(&needs.architectures),
        needs.glibc(),
        list(&needs.libraries)
    )
}

/// The README at its top.
pub(super) fn text(version: &str, needs: &Needs) -> String {
    format!(
        "# tremor {version}

A streaming event processor whose connectors are plugins. It needs Linux with:

```text
{}```

| folder | contents |
|---|---|
| `bin` | the program |
| `lib/tremor/plugins` | the plugins: `--plugin-path`, or the variable `TREMOR_PLUGIN_PATH`, names this folder |
| `lib/systemd` | a unit for systemd, which expects all of this below `/usr` |
| `share` | completions for bash, zsh and fish, manual pages, licences, the bill of materials, an example |

It runs from wherever it is unpacked:

```sh
bin/tremor run share/tremor/examples/errors.yaml
```

To install it:

```sh
sudo cp -r bin lib share /usr/
```

Its own licence is MIT or Apache-2.0, at your choice. `share/doc/tremor/LICENSES.txt` has the licences of all that it
contains, `rust-std-COPYRIGHT-library.html` beside it those of Rust's standard library, and `sbom.cdx.json` lists all of
that (CycloneDX).
",
        self::needs(needs)
    )
}

#[cfg(test)]
mod tests {
    use super::{Needs, text};

    #[test]
    fn what_the_archive_needs_is_in_its_readme() {
        let needs = Needs {
            glibc: Some(vec![2, 34]),
            libraries: ["libc.so.6".to_owned()].into(),
            architectures: ["x86_64".to_owned()].into(),
            ..Needs::default()
        };
        let text = text("1.2.3", &needs);
        for part in ["# tremor 1.2.3", "architecture: x86_64", "glibc: 2.34 or later", "libc.so.6"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
