//! Where plugins are looked for, and which files are taken for one.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    support::library,
    tremor::{Run, Scene, finish},
};

const FLOW: &str = "plugins: [own]
connectors:
  a: { type: relay, codec: string, config: { count: 1 } }
links: [a -> a]";

/// A flow with a folder of its own for plugins.
fn scene() -> Scene {
    let scene = Scene::new(FLOW);
    fs::create_dir(scene.path().join("own")).unwrap();
    scene
}

#[test]
fn missing_target_folder_names_the_build_command() {
    let scene = Scene::new(&FLOW.replace("[own]", "[../target/release, target/debug, gone]"));
    let run = scene.tremor(&["check", "flow.yaml"]);
    run.expect(2, &[]);
    for (path, command) in [
        ("target/release", " with `cargo build --release`"),
        ("target/debug", " with `cargo build`"),
        ("gone", ""),
    ] {
        let missing = format!("{path}: there is no such file or folder");
        let help = format!("help: build the plugins{command}, or correct the path");
        let error = run.stderr.split("\n\n").find(|error| error.contains(&missing));
        assert!(error.is_some_and(|error| error.contains(&help)), "{missing}: {}", run.stderr);
    }
}

/// `tremor` with these arguments, and with this as the plugin path of the environment.
fn tremor(scene: &Scene, variable: &str, arguments: &[&str]) -> Run {
    let mut command = scene.command(arguments);
    Run::of(&finish(command.env("TREMOR_PLUGIN_PATH", variable).spawn().unwrap()))
}

#[test]
fn the_plugin_path_of_the_command_line_adds_to_that_of_the_environment() {
    let scene = scene();
    for folder in ["given", "also", "variable", "last"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let given = ["check", "--plugin-path", "given", "--plugin-path=also", "flow.yaml"];
    let run = tremor(&scene, "variable:last", &given);
    run.expect(2, &["searched for plugins: `own`, `given`, `also`, `variable`, `last`"]);

    fs::copy(library("fixture-relay"), scene.path().join("last/librelay.so")).unwrap();
    tremor(&scene, "variable:last", &given).expect(0, &["flow `flow` is valid"]);
    let list = tremor(&scene, "last", &["plugin", "list", "--plugin-path", "given"]);
    list.expect(0, &[]);
    assert!(list.stdout.contains("relay"), "{}", list.stdout);
}

#[test]
fn a_part_of_the_plugin_path_that_does_not_exist_says_where_it_was_named() {
    let run = tremor(&scene(), "gone", &["check", "--plugin-path", "missing", "flow.yaml"]);
    run.expect(2, &[]);
    for (path, origin) in [("missing", "`--plugin-path`"), ("gone", "TREMOR_PLUGIN_PATH")] {
        let said = format!("{path}: there is no such file or folder\n  help: correct {origin}");
        assert_eq!(run.stderr.matches(&said).count(), 1, "{}", run.stderr);
    }
    tremor(&scene(), "", &["plugin", "list"]).expect(2, &["no folder to search for plugins"]);
}

#[test]
fn a_pipe_is_not_waited_for() {
    let scene = scene();
    let pipe = scene.path().join("own/pipe.so");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    scene.tremor(&["plugin", "list", "own"]).expect(0, &[]);
    scene.tremor(&["plugin", "list", "own/pipe.so"]).expect(0, &["not a regular file"]);
    scene.tremor(&["plugin", "inspect", "own/pipe.so"]).expect(2, &["not a regular file"]);
    scene.tremor(&["check", "flow.yaml"]).expect(2, &["unknown connector type `relay`"]);
}

/// A scene with a plugin in its folder, and the paths of both.
fn with_plugin() -> (Scene, PathBuf, PathBuf) {
    let scene = scene();
    let folder = scene.path().join("own").canonicalize().unwrap();
    let file = folder.join("librelay.so");
    fs::copy(library("fixture-relay"), &file).unwrap();
    set_mode(&folder, 0o755);
    set_mode(&file, 0o644);
    (scene, folder, file)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_plugin_that_everybody_could_change_is_refused() {
    let (scene, folder, file) = with_plugin();
    scene.tremor(&["check", "--strict-plugins", "flow.yaml"]).expect(0, &[]);
    for (path, bad, good) in [(&file, 0o646, 0o644), (&folder, 0o777, 0o1777)] {
        let said = format!("everybody may write to {}", path.display());
        let help = format!("help: `chmod o-w {}`", path.display());
        set_mode(path, bad);
        for command in ["check", "run"] {
            scene.tremor(&[command, "flow.yaml"]).expect(2, &["flow.yaml:3:", &said, &help]);
        }
        let inspected = scene.tremor(&["plugin", "inspect", "own/librelay.so"]);
        assert!(inspected.stdout.contains(&format!("no: own/librelay.so: {said}")));
        set_mode(path, good);
        scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    }
}

#[test]
fn a_folder_further_up_that_everybody_may_write_to_is_as_bad() {
    let (scene, folder, _) = with_plugin();
    let inner = folder.join("inner");
    fs::create_dir(&inner).unwrap();
    fs::rename(folder.join("librelay.so"), inner.join("librelay.so")).unwrap();
    let arguments = ["check", "--plugin-path", "own/inner", "flow.yaml"];
    scene.tremor(&arguments).expect(0, &[]);
    set_mode(&folder, 0o777);
    scene.tremor(&arguments).expect(2, &[&format!("everybody may write to {}", folder.display())]);
}

#[test]
fn a_link_in_a_folder_that_everybody_may_write_to_is_as_bad_as_a_file() {
    let (scene, folder, file) = with_plugin();
    let elsewhere = scene.path().join("elsewhere.so");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    set_mode(&folder, 0o777);
    let said = format!("everybody may write to {}", folder.display());
    scene.tremor(&["check", "flow.yaml"]).expect(2, &[&said]);
}

#[test]
fn a_plugin_that_a_group_could_change_is_warned_of_once_and_refused_by_who_is_strict() {
    let (scene, folder, file) = with_plugin();
    let second = FLOW.replace("plugins", "name: second\nplugins");
    let scene = scene.write("second.yaml", second.as_bytes());
    for (path, bad, good) in [(&file, 0o664, 0o644), (&folder, 0o775, 0o755)] {
        set_mode(path, bad);
        let said = format!("a group may write to {}", path.display());
        let warned = scene.tremor(&["check", "flow.yaml", "second.yaml"]);
        warned.expect(0, &["WARN", "`--strict-plugins` refuses such plugins"]);
        assert_eq!(warned.stderr.matches(&said).count(), 1, "{}", warned.stderr);
        let strict = ["check", "--strict-plugins", "flow.yaml"];
        scene.tremor(&strict).expect(2, &["flow.yaml:3:", &said, "help: `chmod g-w "]);
        set_mode(path, good);
        scene.tremor(&strict).expect(0, &[]);
    }
}

/// Compiles a library that is no plugin, in the folder of the scene.
fn compiled(scene: &Scene, name: &str, code: &str) -> PathBuf {
    let (source, path) =
        (scene.path().join(format!("{name}.c")), scene.path().join(format!("{name}.so")));
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&source).arg("-ldl");
    assert!(compiler.status().expect("Rust needs a C compiler's linker as well").success());
    path
}

#[test]
fn what_was_checked_is_opened_even_where_another_file_gets_its_name_in_between() {
    let (scene, _, file) = with_plugin();
    let ran = scene.path().join("ran");
    let other = format!(
        "#include <stdio.h>
        __attribute__((constructor)) static void start(void) {{ fopen(\"{}\", \"w\"); }}",
        ran.display()
    );
    let other = compiled(&scene, "other", &other);
    // In front of the system's own: it renames another file before it opens a plugin.
    let shim = format!(
        "#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        void *dlopen(const char *name, int mode) {{
            void *(*opens)(const char *, int) = dlsym(RTLD_NEXT, \"dlopen\");
            if (name && (strstr(name, \"librelay\") || strstr(name, \"/fd/\")))
                rename(\"{}\", \"{}\");
            return opens(name, mode);
        }}",
        other.display(),
        file.display()
    );
    let shim = compiled(&scene, "shim", &shim);
    let mut command = scene.command(&["plugin-describe", "own/librelay.so"]);
    let run = Run::of(&finish(command.env("LD_PRELOAD", shim).spawn().unwrap()));
    assert!(!other.exists(), "it was renamed");
    assert!(!ran.exists(), "nothing of it ran");
    assert!(run.stdout.contains("connector relay"), "{}{}", run.stdout, run.stderr);
}
