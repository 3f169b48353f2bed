//! An image for containers in the image layout of OCI, created without a container engine. It contains the program, the
//! plugins, the system libraries that they need, and the CA certificates of this machine.
//!
//! The specification: <https://github.com/opencontainers/image-spec>.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::elf::Needs;
use super::{bare, layer};
use crate::project::{empty_folder, run, text, write};

/// Path of the program in the image.
pub(super) const PROGRAM: &str = "/usr/bin/tremor";

/// Folder of the image in which flows store their state. It belongs to the user of the image.
const STATE: &str = "var/lib/tremor";

/// User and group of the image, which is the number that images without root usually have.
const USER: u32 = 65532;

/// File with CA certificates, in the image and on machines that build it.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Licences of the system libraries and of the certificates, on machines with Debian. `LICENSES.txt` has the others.
const LICENCES: [&str; 7] = [
    "/usr/share/common-licenses/GPL-2",
    "/usr/share/common-licenses/GPL-3",
    "/usr/share/common-licenses/LGPL-2.1",
    "/usr/share/common-licenses/MPL-2.0",
    "/usr/share/doc/ca-certificates/copyright",
    "/usr/share/doc/libc6/copyright",
    "/usr/share/doc/libgcc-s1/copyright",
];

/// Folders of the unpacked archive that are in the image, below `/usr`.
const FOLDERS: [&str; 4] = ["bin", "lib/tremor", "share/doc/tremor", "share/tremor"];

/// Options of `tar` for archives whose bytes depend only on the files, and not on the user and the time.
const REPRODUCIBLE: [&str; 5] =
    ["--format=ustar", "--sort=name", "--numeric-owner", "--mtime=@0", "--create"];

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Creates an archive with an image in `output`, and returns its path. `folder` is the unpacked archive, and `files`
/// are its program and plugins, which have the requirements `needs`.
pub(super) fn create(
    output: &Path,
    folder: &Path,
    files: &[PathBuf],
    needs: &Needs,
    version: &str,
) -> Result<PathBuf> {
    let (root, layout) = (output.join("image-root"), output.join("image"));
    for folder in [&root, &layout] {
        empty_folder(folder)?;
    }
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    fill(&root, folder, files, needs)?;
    let (layer, contents) = layer(&layout, &root)?;
    let architecture = architecture();
    let labels = json!({
        "org.opencontainers.image.title": "tremor",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    });
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": [PROGRAM],
            "WorkingDir": format!("/{STATE}"),
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": [contents] },
        "history": [{ "created_by": "cargo xtask dist" }],
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(&layout, CONFIG, &config)?,
        "layers": [layer],
    });
    let mut manifest = blob(&layout, MANIFEST, &manifest)?;
    manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        // `ctr image import` names the image by this annotation.
        "io.containerd.image.name": format!("docker.io/library/tremor:{version}"),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest] });
    write(&layout.join("index.json"), &index.to_string())?;
    write(&layout.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let archive = output.join(format!("tremor-{version}-{ARCH}.oci.tar"));
    let mut command = Command::new("tar");
    command.args(REPRODUCIBLE).args(["--owner=0", "--group=0", "--mode=go=rX,u+rw,a-s", "--file"]);
    command.arg(&archive).arg("--directory").arg(&layout).args([
        "blobs",
        "index.json",
        "oci-layout",
    ]);
    run(command)?;
    for folder in [root, layout] {
        fs::remove_dir_all(folder).context("cannot remove the files of the image")?;
    }
    Ok(archive)
}

/// Returns the name of this machine's architecture in images.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes the files of the image below `root`.
fn fill(root: &Path, folder: &Path, files: &[PathBuf], needs: &Needs) -> Result<()> {
    for name in FOLDERS {
        let (from, to) = (folder.join(name), root.join("usr").join(name));
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        let mut command = Command::new("cp");
        command.arg("--recursive").arg(from).arg(to);
        run(command)?;
    }
    bare::furnish(root, files, needs)?;
    let certificates = fs::read_to_string(CERTIFICATES).with_context(|| {
        format!(
            "cannot read the CA certificates {CERTIFICATES}; install the package ca-certificates"
        )
    })?;
    write(&root.join(&CERTIFICATES[1..]), &certificates)?;
    let (found, missing): (Vec<_>, Vec<_>) =
        LICENCES.into_iter().partition(|path| Path::new(path).exists());
    if !missing.is_empty() {
        eprintln!("SKIPPED: licences in the image, because this machine has no {missing:?}");
    }
    if !found.is_empty() {
        let mut command = Command::new("cp");
        command.args(["--dereference", "--parents"]).args(found).arg(root);
        run(command)?;
    }
    let user = format!("{USER}:{USER}");
    let shell = "/sbin/nologin";
    for (path, text) in [
        ("etc/passwd", format!("root:x:0:0::/root:{shell}\ntremor:x:{user}::/{STATE}:{shell}\n")),
        ("etc/group", format!("root:x:0:\ntremor:x:{USER}:\n")),
        ("etc/nsswitch.conf", "hosts: files dns\n".to_owned()),
    ] {
        write(&root.join(path), &text)?;
    }
    for folder in ["tmp", STATE] {
        fs::create_dir_all(root.join(folder))?;
    }
    Ok(())
}

/// Adds the files below `root` to a layout as a layer. Returns its descriptor, and the digest of its uncompressed
/// contents.
fn layer(layout: &Path, root: &Path) -> Result<(Value, String)> {
    let archive = layout.join("layer.tar");
    let mut folders =
        fs::read_dir(root)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    folders.retain(|name| name != "tmp");
    folders.sort();
    let tar = |first: &[&str], owner: u32, mode: &str| {
        let mut command = Command::new("tar");
        command.args(first).args([format!("--owner={owner}"), format!("--group={owner}")]);
        command.arg(format!("--mode={mode}")).arg("--file").arg(&archive);
        command.arg("--directory").arg(root);
        command
    };
    let mut command = tar(&REPRODUCIBLE, 0, "go=rX,u+rw,a-s");
    run({
        command.arg(format!("--exclude={STATE}")).args(folders);
        command
    })?;
    let append = ["--format=ustar", "--numeric-owner", "--mtime=@0", "--append"];
    for (folder, owner, mode) in [("tmp", 0, "1777"), (STATE, USER, "0755")] {
        let mut command = tar(&append, owner, mode);
        command.arg(folder);
        run(command)?;
    }
    let contents = digest(&archive)?;
    let mut command = Command::new("gzip");
    command.args(["-9n", "--force"]).arg(&archive);
    run(command)?;
    let compressed = layout.join("layer.tar.gz");
    Ok((kept(layout, LAYER, &compressed)?, contents))
}

/// Adds a document to a layout, and returns its descriptor.
fn blob(layout: &Path, media: &str, document: &Value) -> Result<Value> {
    let file = layout.join("document");
    write(&file, &document.to_string())?;
    kept(layout, media, &file)
}

/// Moves a file to the blobs of a layout, and returns its descriptor.
fn kept(layout: &Path, media: &str, file: &Path) -> Result<Value> {
    let digest = digest(file)?;
    let size = fs::metadata(file)?.len();
    fs::rename(file, blob_path(layout, &digest)?)?;
    Ok(json!({ "mediaType": media, "digest": digest, "size": size }))
}

/// Returns the path of the blob with a digest.
fn blob_path(layout: &Path, digest: &str) -> Result<PathBuf> {
    let hex = digest.strip_prefix("sha256:").context("the digest is not one of SHA-256")?;
    Ok(layout.join("blobs/sha256").join(hex))
}

/// Returns the digest of a file, in the form of descriptors.
fn digest(file: &Path) -> Result<String> {
    let printed = text(Command::new("sha256sum").arg("--").arg(file))?;
    let hex = printed.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    Ok(format!("sha256:{hex}"))
}

/// Unpacks an image, and checks it as the specification describes it. Returns the folder with the root file system,
/// which is below the empty folder `to`.
pub(super) fn unpack(archive: &Path, to: &Path) -> Result<PathBuf> {
    let (layout, root) = (to.join("layout"), to.join("root"));
    for folder in [&layout, &root] {
        empty_folder(folder)?;
    }
    extract(archive, &layout)?;
    let version = json(&layout.join("oci-layout"))?;
    ensure!(version["imageLayoutVersion"] == "1.0.0", "wrong version of the layout: {version}");
    let index = json(&layout.join("index.json"))?;
    let [manifest] = descriptors(&index["manifests"]) else {
        bail!("expected one manifest: {index}");
    };
    let manifest_file = checked(&layout, manifest, MANIFEST)?;
    let platform = json!({ "architecture": architecture(), "os": "linux" });
    ensure!(manifest["platform"] == platform, "wrong platform: {manifest}");
    let manifest = json(&manifest_file)?;
    for (document, media) in [(&index, INDEX), (&manifest, MANIFEST)] {
        ensure!(document["schemaVersion"] == 2 && document["mediaType"] == media, "{document}");
    }
    let config_file = checked(&layout, &manifest["config"], CONFIG)?;
    let config = json(&config_file)?;
    let [layer] = descriptors(&manifest["layers"]) else {
        bail!("expected one layer: {manifest}");
    };
    let layer_file = checked(&layout, layer, LAYER)?;
    let mut used = vec![manifest_file, config_file, layer_file.clone()];
    let blobs = fs::read_dir(layout.join("blobs/sha256"))?;
    let mut blobs = blobs.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    used.sort();
    blobs.sort();
    ensure!(used == blobs, "the blobs {blobs:?} are not those of the documents, {used:?}");
    ensure!(
        config["architecture"] == platform["architecture"] && config["os"] == platform["os"],
        "wrong platform: {config}"
    );
    let is_root = config["config"]["User"].as_str().is_none_or(|user| user.starts_with('0'));
    ensure!(!is_root && config["config"]["Entrypoint"] == json!([PROGRAM]), "{config}");
    extract(&layer_file, &root)?;
    let compressed = to.join("layer.tar.gz");
    fs::copy(&layer_file, &compressed)?;
    let mut command = Command::new("gzip");
    command.args(["--decompress", "--force"]).arg(&compressed);
    run(command)?;
    let contents = to.join("layer.tar");
    let expected = json!({ "type": "layers", "diff_ids": [digest(&contents)?] });
    ensure!(config["rootfs"] == expected, "expected {expected}: {config}");
    let history = descriptors(&config["history"]).iter();
    let layers = history.filter(|step| step["empty_layer"] != true).count();
    ensure!(layers == 1, "the history has {layers} layers: {config}");
    let entries = layer::checked(&contents)?;
    for entry in entries.values() {
        let is_known = [0, USER.into()].map(|user| (user, user)).contains(&entry.owner);
        ensure!(is_known, "an entry belongs to an unknown user: {entry:?}");
    }
    let program = entries.get(&PROGRAM[1..]).context("the layer has no program")?;
    ensure!(program.mode & 0o111 == 0o111, "the program cannot be executed: {program:?}");
    let state = config["config"]["WorkingDir"].as_str().and_then(|path| entries.get(&path[1..]));
    let is_own = state.is_some_and(|state| state.owner == (USER.into(), USER.into()));
    ensure!(is_own, "the user of the image does not own its folder: {state:?}");
    Ok(root)
}

/// Returns a command that runs the program of an unpacked image as the user of the image, with an empty environment.
/// `None` if the system does not permit another root folder. Without the privileges of root, the program runs with
/// those of the caller.
pub(super) fn command(root: &Path) -> Option<Command> {
    let user = [format!("--setuid={USER}"), format!("--setgid={USER}")];
    let mut trial = Command::new("unshare");
    trial.args(&user).args(["--root=/", "true"]);
    if !trial.output().is_ok_and(|output| output.status.success()) {
        return Some(bare::command(bare::way()?, root, &format!("/{STATE}"), PROGRAM));
    }
    let mut command = Command::new("unshare");
    command.args(user).arg("--root").arg(root).arg(format!("--wd=/{STATE}"));
    command.arg(PROGRAM).env_clear();
    Some(command)
}

fn extract(archive: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--extract", "--preserve-permissions", "--file"]);
    command.arg(archive).arg("--directory").arg(to);
    run(command)
}

fn json(file: &Path) -> Result<Value> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))
}

fn descriptors(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the file of a descriptor, whose media type, size and digest have to be those of the descriptor.
fn checked(layout: &Path, descriptor: &Value, media: &str) -> Result<PathBuf> {
    let named = descriptor["digest"].as_str().context("a descriptor has no digest")?;
    let file = blob_path(layout, named)?;
    let size = fs::metadata(&file).with_context(|| format!("there is no blob {named}"))?.len();
    let found = json!({ "mediaType": media, "digest": digest(&file)?, "size": size });
    let is_same = ["mediaType", "digest", "size"].iter().all(|key| found[key] == descriptor[key]);
    ensure!(is_same, "expected {found}: {descriptor}");
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::{fs, slice};

    use super::{FOLDERS, LICENCES, Needs, USER, bare, command, create, unpack};

    /// The program of the image is `cat`, so that nothing has to be built.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn image_is_valid_reproducible_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = folder.path().join("tremor");
        for name in FOLDERS {
            fs::create_dir_all(unpacked.join(name)).unwrap();
        }
        let program = unpacked.join("bin/tremor");
        fs::copy("/bin/cat", &program).unwrap();
        let needs = Needs::of(slice::from_ref(&program)).unwrap();
        let image = |name: &str| {
            let output = folder.path().join(name);
            let created =
                create(&output, &unpacked, slice::from_ref(&program), &needs, "1.2.3").unwrap();
            (fs::read(&created).unwrap(), created)
        };
        let (first, archive) = image("first");
        assert!(first == image("second").0, "the bytes of the image differ");

        let root = unpack(&archive, &folder.path().join("unpacked")).unwrap();
        let mode =
            |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
        let modes = ["tmp", "usr/bin/tremor", "etc/passwd", "var/lib/tremor"].map(mode);
        assert_eq!(modes, [0o1777, 0o755, 0o644, 0o755]);
        let state = fs::metadata(root.join("var/lib/tremor")).unwrap();
        let is_privileged = fs::metadata(root.join("tmp")).unwrap().uid() == 0;
        assert!(!is_privileged || (state.uid(), state.gid()) == (USER, USER));
        for licence in LICENCES.iter().filter(|path| fs::exists(path).unwrap()) {
            let copied = fs::read(root.join(&licence[1..])).unwrap();
            assert!(copied == fs::read(licence).unwrap(), "{licence}");
        }
        let Some(mut command) = command(&root) else {
            eprintln!("SKIPPED: {}", bare::SKIPPED);
            return;
        };
        let output = command.arg("/etc/passwd").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && printed.contains("tremor:x:65532:65532"), "{printed}");
    }

    #[test]
    fn image_with_another_blob_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("layout");
        fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
        let descriptor =
            super::blob(&layout, super::CONFIG, &serde_json::json!({ "os": "linux" })).unwrap();
        let file = super::checked(&layout, &descriptor, super::CONFIG).unwrap();
        assert!(super::checked(&layout, &descriptor, super::LAYER).is_err());
        fs::write(&file, r#"{"os":"linux2"}"#).unwrap();
        let error = super::checked(&layout, &descriptor, super::CONFIG).unwrap_err().to_string();
        assert!(error.contains("\"size\":15"), "{error}");
    }
}
