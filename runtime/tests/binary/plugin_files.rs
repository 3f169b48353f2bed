//! Tests of the search for plugins: of the folders that are searched, and the files that are accepted.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    support::library,
    tremor::{Run, Scene, finish},
};

const FLOW: &str = "plugins: [own]
connectors:
  a: { type: relay, codec: string, config: { count: 1 } }
links: [a -> a]";

/// Returns a flow with a plugin folder of its own.
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

/// Runs `tremor` with these arguments, and with `variable` as the plugin path of the environment.
fn tremor(scene: &Scene, variable: &str, arguments: &[&str]) -> Run {
    let mut command = scene.command(arguments);
    Run::of(&finish(command.env("TREMOR_PLUGIN_PATH", variable).spawn().unwrap()))
}

#[test]
fn plugin_path_option_adds_to_the_environment() {
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
fn missing_plugin_folder_is_reported_with_its_origin() {
    let run = tremor(&scene(), "gone", &["check", "--plugin-path", "missing", "flow.yaml"]);
    run.expect(2, &[]);
    for (path, origin) in [("missing", "`--plugin-path`"), ("gone", "TREMOR_PLUGIN_PATH")] {
        let said = format!("{path}: there is no such file or folder\n  help: correct {origin}");
        assert_eq!(run.stderr.matches(&said).count(), 1, "{}", run.stderr);
    }
}

/// Runs a copy of the program that is installed in the scene's folder `opt`, with these arguments, and with `variable`
/// as the plugin path of the environment. The program is started by a link, as administrators often install programs.
fn installed(scene: &Scene, variable: &str, arguments: &[&str]) -> Run {
    let (bin, link) = (scene.path().join("opt/bin"), scene.path().join("tremor"));
    if !link.exists() {
        fs::create_dir_all(&bin).unwrap();
        let program = env!("CARGO_BIN_EXE_tremor");
        // A symbolic link to the program would lead to the folder of the build. Let another process write the copy. If
        // this process wrote it, a process that another test starts meanwhile would inherit the descriptor, and
        // executing the copy would fail with "text file busy".
        let mut copy = Command::new("cp");
        assert!(copy.arg(program).arg(&bin).status().unwrap().success());
        std::os::unix::fs::symlink("opt/bin/tremor", &link).unwrap();
    }
    let mut command = Command::new(link);
    command.args(arguments).current_dir(scene.path()).env("TREMOR_PLUGIN_PATH", variable);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Run::of(&finish(command.spawn().unwrap()))
}

#[test]
fn installed_plugins_are_found_unless_others_are_named() {
    let scene = scene();
    let folder = scene.path().join("opt/lib/tremor/plugins");
    let searched = |own: &str| format!("searched for plugins: {own}`{}`", folder.display());
    let missing = installed(&scene, "", &["plugin", "list"]);
    missing.expect(2, &["no folder to search for plugins: ", &folder.display().to_string()]);
    installed(&scene, "", &["check", "flow.yaml"]).expect(2, &[&searched("`own`, ")]);

    fs::create_dir_all(&folder).unwrap();
    fs::copy(library("fixture-relay"), folder.join("librelay.so")).unwrap();
    installed(&scene, "", &["check", "flow.yaml"]).expect(0, &["flow `flow` is valid"]);
    let list = installed(&scene, "", &["plugin", "list"]);
    assert!(list.stdout.contains("relay"), "{}", list.stdout);
    let named = ["check", "--plugin-path", "own", "flow.yaml"];
    installed(&scene, "", &named).expect(2, &["unknown connector type `relay`"]);
    installed(&scene, "own", &["check", "flow.yaml"]).expect(2, &["unknown connector type"]);
}

#[test]
fn plugin_of_the_flow_precedes_the_installed_one() {
    let scene = scene();
    let folder = scene.path().join("opt/lib/tremor/plugins");
    fs::create_dir_all(&folder).unwrap();
    // Both libraries provide the connector `relay`.
    fs::copy(library("fixture-impostor"), folder.join("libimpostor.so")).unwrap();
    fs::copy(library("fixture-relay"), scene.path().join("own/librelay.so")).unwrap();
    let run = installed(&scene, "", &["check", "flow.yaml"]);
    run.expect(0, &["flow `flow` is valid"]);
    assert!(!run.stderr.contains("two plugins"), "{}", run.stderr);
    let named = ["check", "--plugin-path", "opt/lib/tremor/plugins", "flow.yaml"];
    installed(&scene, "", &named).expect(2, &["two plugins provide the connector `relay`"]);
}

#[test]
fn pipe_in_plugin_folder_is_rejected_without_waiting() {
    let scene = scene();
    let pipe = scene.path().join("own/pipe.so");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    scene.tremor(&["plugin", "list", "own"]).expect(0, &[]);
    scene.tremor(&["plugin", "list", "own/pipe.so"]).expect(0, &["not a regular file"]);
    scene.tremor(&["plugin", "inspect", "own/pipe.so"]).expect(2, &["not a regular file"]);
    scene.tremor(&["check", "flow.yaml"]).expect(2, &["unknown connector type `relay`"]);
}

/// Returns a scene with a plugin, the path of the plugin's folder, and the path of the plugin.
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
fn world_writable_plugin_is_rejected() {
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
fn plugin_below_world_writable_folder_is_rejected() {
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
fn link_in_world_writable_folder_is_rejected_like_a_file() {
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
fn group_writable_plugin_warns_once_and_fails_if_strict() {
    let (scene, folder, file) = with_plugin();
    let second = FLOW.replace("plugins", "name: second\nplugins");
    let scene = scene.write("second.yaml", second.as_bytes());
    for (path, bad, good) in [(&file, 0o664, 0o644), (&folder, 0o775, 0o755)] {
        set_mode(path, bad);
        let said = format!("a group may write to {}", path.display());
        let warned = scene.tremor(&["check", "flow.yaml", "second.yaml"]);
        warned.expect(0, &["WARN", "`--strict-plugins` rejects such plugins"]);
        assert_eq!(warned.stderr.matches(&said).count(), 1, "{}", warned.stderr);
        let strict = ["check", "--strict-plugins", "flow.yaml"];
        scene.tremor(&strict).expect(2, &["flow.yaml:3:", &said, "help: `chmod g-w "]);
        set_mode(path, good);
        scene.tremor(&strict).expect(0, &[]);
    }
}

/// Compiles a library that is not a plugin, in the folder of the scene.
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
fn checked_file_is_opened_even_if_renamed_over() {
    let (scene, _, file) = with_plugin();
    let ran = scene.path().join("ran");
    let other = format!(
        "#include <stdio.h>
        __attribute__((constructor)) static void start(void) {{ fopen(\"{}\", \"w\"); }}",
        ran.display()
    );
    let other = compiled(&scene, "other", &other);
    // A replacement for a function of the C library. It renames another file to the plugin's name before it opens the
    // file.
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
    assert!(!other.exists(), "the shim has renamed the other file");
    assert!(!ran.exists(), "no code of the other file ran");
    assert!(run.stdout.contains("connector relay"), "{}{}", run.stdout, run.stderr);
}
