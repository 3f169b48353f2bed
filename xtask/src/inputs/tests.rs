//! A project of a few files, and the inputs of its steps.

use super::*;
use crate::packages::Dependency;

/// A project in a temporary folder.
struct Scene {
    folder: tempfile::TempDir,
    packages: Vec<Package>,
}

impl Scene {
    /// Creates a library with a plugin and tests that load the plugin, and a module of `xtask`.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let target = |kind: &str, name: &str| Target {
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..Target::default()
        };
        let dependency = |name: &str, is_for_tests| Dependency {
            name: name.to_owned(),
            is_ours: true,
            is_for_tests,
            is_optional: false,
        };
        let library = Package {
            name: "library".to_owned(),
            manifest: "library/Cargo.toml".to_owned(),
            targets: vec![target("lib", "library"), target("test", "loads"), target("test", "b")],
            dependencies: vec![dependency("inner", false), dependency("double", true)],
            ..Package::default()
        };
        let named = |name: &str, manifest: &str| Package {
            name: name.to_owned(),
            manifest: manifest.to_owned(),
            ..Package::default()
        };
        let packages = vec![
            library,
            named("inner", "library/inner/Cargo.toml"),
            named("double", "double/Cargo.toml"),
            named("plugin-a", "plugins/a/Cargo.toml"),
        ];
        let scene = Self { folder, packages };
        for workspace in WORKSPACES {
            scene.write(&within(workspace, "Cargo.lock"), "");
        }
        for (path, text) in [
            ("Cargo.toml", ""),
            ("docs/x.md", ""),
            ("double/Cargo.toml", ""),
            ("library/Cargo.toml", ""),
            ("library/inner/Cargo.toml", ""),
            ("library/src/lib.rs", ""),
            ("library/tests/b.rs", ""),
            (
                "library/tests/loads/main.rs",
                r#"#[path = "../support/mod.rs"] mod support; read("docs/x.md");"#,
            ),
            ("library/tests/support/mod.rs", r#"library("plugin-a");"#),
            ("plugins/a/src/lib.rs", ""),
            ("xtask/src/a_step.rs", "use crate::helper;"),
            ("xtask/src/helper/mod.rs", r#"const PLUGIN: &str = "plugin-a";"#),
            ("xtask/src/other.rs", ""),
        ] {
            scene.write(path, text);
        }
        scene
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("the file is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn sources(&self) -> Sources {
        self.sources_with("rustc 1")
    }

    fn sources_with(&self, tool: &str) -> Sources {
        let root = self.folder.path();
        let files = walkdir::WalkDir::new(root).into_iter().map(|it| it.expect("an entry"));
        let files = files.filter(|entry| entry.file_type().is_file()).map(|entry| {
            entry.path().strip_prefix(root).expect("below the root").display().to_string()
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        let tools = vec![tool.as_bytes().to_vec()];
        Sources::of(root.to_owned(), files, self.packages.clone(), || tools).expect("a project")
    }
}

fn files(inputs: &Inputs) -> Vec<&str> {
    inputs.files.iter().map(String::as_str).collect()
}

#[test]
fn step_reads_its_modules_and_what_they_name() {
    let scene = Scene::new();
    let reads = Reads { modules: &["a_step"], ..Reads::default() };
    let expected = [
        ".cargo/config.toml",
        "Cargo.toml",
        "clippy.toml",
        "plugins/a/src/lib.rs",
        "xtask/src/a_step.rs",
        "xtask/src/helper/mod.rs",
    ];
    assert_eq!(files(&scene.sources().of_step(&reads)), expected);
    let except = Reads { except: &["plugins/"], ..reads };
    assert!(!scene.sources().of_step(&except).files.contains("plugins/a/src/lib.rs"));
}

#[test]
fn build_reads_dependencies_but_not_those_of_tests() {
    let scene = Scene::new();
    let sources = scene.sources();
    let built = sources.of_step(&Reads { packages: &["library"], ..Reads::default() });
    let tested = sources.of_package(&sources.packages[0]);
    for inputs in [&built, &tested] {
        assert!(inputs.files.contains("library/inner/Cargo.toml"));
    }
    assert!(!built.files.contains("double/Cargo.toml"));
    assert!(tested.files.contains("double/Cargo.toml"));
}

#[test]
fn package_reads_the_manifest_of_its_own_workspace() {
    let mut scene = Scene::new();
    scene.packages[0].workspace = "brokers".to_owned();
    scene.write("brokers/Cargo.toml", "");
    let sources = scene.sources();
    let inputs = sources.of_package(&sources.packages[0]);
    for manifest in ["brokers/Cargo.toml", "Cargo.toml"] {
        assert!(inputs.files.contains(manifest), "{manifest}");
    }
}

#[test]
fn test_program_reads_only_its_own_tests_and_what_they_name() {
    let scene = Scene::new();
    let sources = scene.sources();
    let library = &sources.packages[0];
    let [unit, loads, b] = [0, 1, 2].map(|at| sources.of_target(library, &library.targets[at]));
    for inputs in [&unit, &loads, &b] {
        assert!(inputs.files.contains("library/src/lib.rs"));
    }
    for (path, readers) in [
        ("library/tests/loads/main.rs", [false, true, false]),
        ("library/tests/support/mod.rs", [false, true, false]),
        ("library/tests/b.rs", [false, false, true]),
        ("plugins/a/src/lib.rs", [false, true, false]),
        ("docs/x.md", [false, true, false]),
    ] {
        assert_eq!([&unit, &loads, &b].map(|it| it.files.contains(path)), readers, "{path}");
    }
}

#[test]
fn documentation_reads_only_packages_with_examples() {
    let scene = Scene::new();
    scene.write("library/inner/src/lib.rs", "//! ```\n//! example();\n//! ```");
    scene.write("double/src/lib.rs", "//! No example.");
    let inputs = scene.sources().of_documentation("");
    assert!(inputs.files.contains("library/inner/src/lib.rs"));
    assert!(!inputs.files.contains("double/src/lib.rs"));
}

#[test]
fn hash_changes_with_names_contents_and_tools() {
    let scene = Scene::new();
    let reads = Reads { files: &["docs/", "**/lib.rs"], ..Reads::default() };
    let hash = |tool: &str| {
        let sources = scene.sources_with(tool);
        sources.hash(&sources.of_step(&reads)).expect("the files can be read")
    };
    let mut hashes = vec![hash("rustc 1")];
    scene.write("double/Cargo.toml", "changed");
    assert_eq!(hash("rustc 1"), hashes[0], "the step does not read the file");
    hashes.push(hash("rustc 2"));
    scene.write("docs/x.md", "changed");
    hashes.push(hash("rustc 1"));
    scene.write("docs/y.md", "changed");
    hashes.push(hash("rustc 1"));
    scene.write("library/src/lib.rs", "changed");
    hashes.push(hash("rustc 1"));
    let different: BTreeSet<_> = hashes.iter().collect();
    assert_eq!(different.len(), hashes.len());
}
